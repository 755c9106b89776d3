"""FISD's figures: six aspects, each with a corpus of its own, with and without the reference."""
