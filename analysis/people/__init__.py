"""The people behind the answers: how far they agree, and how each of them answered."""
