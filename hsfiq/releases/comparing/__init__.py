"""Comparing two releases: rows that were added, are gone or have changed, by their keys."""
