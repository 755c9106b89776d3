"""Layouts of a release besides its tables: one module for each file."""
