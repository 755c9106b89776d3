"""The certificates that HTTPS servers are checked with."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """Httpx's usual ones, read once: each client would take 20 ms for them."""
    return httpx.create_ssl_context(trust_env=False)
