"""The study owner's login and dashboard, which annotators cannot reach."""
