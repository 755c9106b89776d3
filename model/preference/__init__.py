"""Retraining a scorer on the answers of a release: preferences of sets, and their Likert scores."""
