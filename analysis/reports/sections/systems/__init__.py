"""The sections of the report about the systems, and about the ranks of the metrics."""
