"""What a release says of the instrument: its scale, its words, and its extra questions."""
