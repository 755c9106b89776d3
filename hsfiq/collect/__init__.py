"""Collecting answers: participants, responses, checks and progress."""
