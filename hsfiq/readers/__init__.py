"""Readers of outside formats: they return validated records and do not use the database."""
