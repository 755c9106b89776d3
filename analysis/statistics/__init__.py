"""The statistics: one module each."""
