"""The leaderboard of an arena: which systems participants prefer, for the owner or for everybody.

It shows figures over all votes: never a typed text, an image, or a participant.
"""
