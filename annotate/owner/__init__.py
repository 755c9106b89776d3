"""What a study's owner sees: a login and a dashboard. Nothing here is reached by annotators."""
