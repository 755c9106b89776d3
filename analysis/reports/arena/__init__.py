"""The figures of an arena as plain text and as a report."""
