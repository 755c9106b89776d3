"""Readers of outside formats: a file in, checked records out; none of them sees the database."""
