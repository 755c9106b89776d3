"""Extensions: forms added to a study that is running."""
