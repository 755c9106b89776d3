"""Which client sends a request: its address, and the network that counts as one client."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address

from fastapi import Request


def client_address(request: Request) -> str:
    """The client's address; uvicorn takes it from a header only if a trusted proxy sends it."""
    return request.client.host if request.client else ""


def network_of(address: str) -> str:
    """The network of one client: an IPv4 address, the /48 of an IPv6 address, or the name."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or IPv6Network((int(ip), 48), strict=False))
    return str(ip)
