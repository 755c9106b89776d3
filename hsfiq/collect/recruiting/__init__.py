"""Recruiting: which places a study has, and which of them are taken."""
