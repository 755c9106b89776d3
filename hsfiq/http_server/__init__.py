"""Serving an app with uvicorn on an address that is free, to clients that may never answer."""

from hsfiq.http_server.server import accept_connections, listening, server_settings, stop

__all__ = ["accept_connections", "listening", "server_settings", "stop"]
