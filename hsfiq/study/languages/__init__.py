"""The languages of a study: the standard texts, and those in the owner's files."""
