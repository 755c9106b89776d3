"""The server: interrupted requests, unavailability, and the server's own state."""
