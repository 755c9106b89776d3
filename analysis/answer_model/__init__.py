"""A model of the scores: what systems, side, place, participants and queries contribute."""
