"""Retrieval systems: their training, their published weights and their ranked lists.

`systems.system` is what all have in common, and `systems.clip4cir` the shortest of them;
`training_loop` trains one stage of any, and `training_run` puts a training together.
"""
