"""Being a server: requests that break off or that nothing can answer now, and its own state."""
