"""Import external data into the database: triplets, ranked lists and published studies.

Every import runs in its caller's transaction and is idempotent: importing the same data twice adds
nothing.
"""
