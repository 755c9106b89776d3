"""The sites on which participants are recruited."""
