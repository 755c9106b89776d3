"""Preferences that may be watched while a study runs, and the decision to stop it."""
