"""Accounts on the dashboard: the link that sets a password, and the owner's list of accounts."""
