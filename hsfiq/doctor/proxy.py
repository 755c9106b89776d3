"""Whether browsers reach the server at its public URL, through a proxy that tells it the truth."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import MappingProxyType

from hsfiq.doctor.finding import Finding
from hsfiq.public_url import OPTION, PublicUrl

SECONDS = 10.0

LONGEST_REPLY = 10_000

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

RENEWED = timedelta(days=14)
"""A certificate that is valid for less time should have been renewed."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    location: str
    certificate_end: datetime | None
    port: int
    """That from which the request was sent."""

    @property
    def is_healthy(self) -> bool:
        try:
            return self.status == 200 and json.loads(self.body) == {"ok": True}
        except ValueError:
            return False


def examine_proxy(public: PublicUrl | None) -> Iterator[Finding]:
    """Ask the server at the public URL whether it works, and which address it takes for its own."""
    if public is None:
        yield Finding("proxy", "ok", "no public URL is set: browsers use the server's own address")
        return
    try:
        reply = asked(public, "/healthz")
        # The router answers this path with a redirect, as the server sees the address. A proxy may
        # correct it, but then the server refuses what it takes for another site's request.
        redirect = asked(public, "/healthz/")
        own = asked(public, "/healthz", "POST", {"Origin": public.origin})
        ready = asked(public, "/readyz")
        client = asked(public, "/healthz/client")
    except ssl.SSLCertVerificationError as error:
        what = f"{public}: browsers refuse the certificate ({error.verify_message})"
        yield Finding("proxy", "problem", what, "install a valid certificate in the proxy")
        return
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        what = f"{public}: nothing answers ({reason})"
        yield Finding(
            "proxy", "problem", what, f"start the proxy, and hsfiq serve {OPTION} {public}"
        )
        return
    yield answer_finding(public, reply, redirect, own)
    yield from client_findings(public, client)
    if reply.is_healthy and ready.status != HTTPStatus.OK:
        yield unready_finding(public, ready)
    yield from certificate_findings(public, reply.certificate_end)


def answer_finding(public: PublicUrl, reply: Reply, redirect: Reply, own: Reply) -> Finding:
    """`own` is the reply to a request that changes nothing, as one of our pages sends it."""
    start = f"hsfiq serve {OPTION} {public}"
    if not reply.is_healthy:
        if 300 <= reply.status < 400:
            what = f"{public}: redirects to {reply.location}"
            return Finding(
                "proxy", "problem", what, f"{OPTION} is the address that it redirects to"
            )
        reason = "the proxy does not reach hsfiq" if reply.status >= 500 else "that is not hsfiq"
        what = f"{public}healthz: answers {reply.status}: {reason}"
        return Finding("proxy", "problem", what, f"proxy_pass as in docs/proxy.md, and {start}")
    expected = f"{public}healthz"
    if redirect.location and redirect.location != expected:
        seen = redirect.location.removesuffix("healthz")
        what = f"{public}: the server takes {seen} for its own address, because the proxy says so"
        return Finding("proxy", "problem", what, start)
    if own.status == HTTPStatus.FORBIDDEN:
        what = f"{public}: the server refuses its own pages, because the proxy hides their address"
        return Finding("proxy", "problem", what, start)
    return Finding("proxy", "ok", f"{public}: answers, and knows its address")


def client_findings(public: PublicUrl, client: Reply) -> Iterator[Finding]:
    """Whether the server takes the proxy for the client of all requests."""
    try:
        seen = json.loads(client.body)
        is_told, port = bool(seen["is_told"]), int(seen["port"])
    except (ValueError, TypeError, KeyError):  # it was not hsfiq that answered
        return
    if port in (0, client.port):  # told by the proxy, or there is none
        return
    why = "the server does not trust" if is_told else "the proxy does not pass on"
    what = f"{public}: all browsers count as one client, because {why} their addresses"
    fix = "proxy_set_header X-Forwarded-For $remote_addr; in nginx, at proxy_pass"
    if is_told:
        fix = "set FORWARDED_ALLOW_IPS to the proxy's address before hsfiq serve"
    yield Finding("proxy", "problem", what, fix)


def unready_finding(public: PublicUrl, ready: Reply) -> Finding:
    """What keeps the server, or the one of several that answered, from taking answers."""
    what = f"{public}readyz: answers {ready.status}: {reasons_in(ready.body)}"
    return Finding("proxy", "problem", what, "run hsfiq doctor on the server's machine")


def reasons_in(body: bytes) -> str:
    """The checks of `/readyz` that failed."""
    try:
        checks = json.loads(body)
        failed = {name: str(state) for name, state in checks.items() if state not in ("ok", False)}
    except (ValueError, AttributeError):
        return "the proxy does not pass this path on"
    return "; ".join(f"{name}: {state}" for name, state in failed.items())


def certificate_findings(public: PublicUrl, end: datetime | None) -> Iterator[Finding]:
    if end is not None and end - datetime.now(UTC) < RENEWED:
        what = f"{public}: the certificate ends at {end:%Y-%m-%d %H:%M} UTC"
        yield Finding("proxy", "warning", what, "renew the certificate, such as by `certbot renew`")


def asked(
    public: PublicUrl, path: str, method: str = "GET", headers: Mapping[str, str] = NO_HEADERS
) -> Reply:
    """The reply to one request, without following redirects."""
    if public.scheme == "https":
        context = ssl.create_default_context()
        connection: HTTPConnection = HTTPSConnection(public.host, timeout=SECONDS, context=context)
    else:
        connection = HTTPConnection(public.host, timeout=SECONDS)
    try:
        connection.connect()
        end, port = certificate_end(connection), connection.sock.getsockname()[1]
        sent = {"Connection": "close", **headers}
        connection.request(method, public.path + path, headers=sent)
        answer = connection.getresponse()
        body = answer.read(LONGEST_REPLY)
        return Reply(answer.status, body, answer.getheader("location", ""), end, port)
    finally:
        connection.close()


def certificate_end(connection: HTTPConnection) -> datetime | None:
    """When the certificate of a TLS connection expires."""
    certificate = (
        connection.sock.getpeercert() if isinstance(connection.sock, ssl.SSLSocket) else None
    )
    if not certificate:
        return None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)
