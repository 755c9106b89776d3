"""Backups of a database: one file, written completely or not at all, and restored the same way."""
