"""Outcomes: who changes the status of a participation, and why."""
