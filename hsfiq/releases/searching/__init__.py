"""Searches over several turns in a release."""
