"""Scoring the retrieved sets of a release with a trained scorer."""
