"""A release back in a database, as a finished study whose release is the same again."""
