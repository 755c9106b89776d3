"""Showing questions: what a participant's page has of them."""
