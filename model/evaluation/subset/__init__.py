"""Evaluating on some of a benchmark's queries."""
