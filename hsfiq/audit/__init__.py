"""The audit log: who changed or took out study data, when, and what it was about."""
