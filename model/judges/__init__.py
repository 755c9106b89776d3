"""Judging retrieved sets with models that were trained for other tasks."""
