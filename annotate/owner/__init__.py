"""The owner's login, accounts and files, which annotators cannot reach."""
