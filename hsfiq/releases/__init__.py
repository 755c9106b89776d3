"""Releases: a study's answers as a self-contained folder.

`question_columns` reads answers from the database, some participants at a time, `sieve` keeps or
drops them, `splits` optionally divides them into train and test, `files` writes their rows as they
come, `content` puts all of that together, and `export` puts the release in its place, or nothing.
`folder` reads a release, for the statistics and the models, too.
"""
