"""Retraining a scorer on the preferences and Likert scores of a release."""
