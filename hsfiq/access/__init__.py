"""Who may enter: accounts with their roles and logins, and the key that signs cookies."""
