"""The sections of the report about the people: their agreement, and how each answered."""
