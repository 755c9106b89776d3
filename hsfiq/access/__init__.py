"""Who may enter: the owner's password and logins, and the key that signs cookies."""
