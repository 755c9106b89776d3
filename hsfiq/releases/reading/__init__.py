"""Reading a study's questions from the database, some participants at a time."""
