"""Retrieval systems: their training, their published weights and their ranked lists."""
