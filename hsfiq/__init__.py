"""The study platform: records, database, study design, readers, releases and the command line."""

__version__ = "0.1.0"
