"""Measures of sessions: searches over several rounds, of simulators and of people."""
