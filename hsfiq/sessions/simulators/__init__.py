"""Simulators: who gives the texts of a session."""
