"""Scoring the retrieved sets of a release."""
