"""Releases: a study's answers as a self-contained folder.

`question_columns` reads answers from the database, some participants at a time, `sieve` keeps or
drops them, `splits` optionally divides them into train and test, `table_files` writes their rows in
parts, `content` combines these steps, and `export` writes the release to its folder, completely or
not at all. `folder` reads a release, also for the statistics and the models.
"""
