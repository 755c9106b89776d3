"""Correcting a study's texts and codes after it was drawn, with a history."""
