"""Retrieval systems: their training, their published weights and their ranked lists.

`system.py` is what all have in common, `clip4cir.py` the shortest of them, and `training.py`
trains any.
"""
