"""Failures of the database itself: what is said about them, and which pass by themselves."""
