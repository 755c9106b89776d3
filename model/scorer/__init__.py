"""The scorer: relevance scores, loss, inference and loading."""
