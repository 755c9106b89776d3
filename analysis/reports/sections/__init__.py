"""The sections of a report: one module each."""
