"""The audit log on the dashboard."""
