"""Studies of searches over several turns: their config, their retrievers, what is drawn."""
