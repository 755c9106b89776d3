"""The people behind the answers: their agreement, and each participant's answers."""
