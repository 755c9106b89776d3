"""What no log may quote: links, cookies, reasons, and what else a participant's requests hold."""

from __future__ import annotations

from collections.abc import Iterator
from http.cookiejar import CookieJar
from typing import Any, Protocol

SHORTEST = 10
"""Shorter texts, such as `shown`, say nothing about anybody."""


class Browser(Protocol):
    @property
    def cookies(self) -> Any: ...


def quoted_in(log: str, browser: Browser, *sent: object) -> list[str]:
    """The private texts that a log quotes: of the browser's cookies and of what it sent.

    `sent` are bodies of requests, and texts such as the tokens of links.
    """
    jar: CookieJar = browser.cookies.jar
    texts = {text for each in (*sent, *(cookie.value for cookie in jar)) for text in parts(each)}
    assert texts, "nothing private was sent"
    return sorted(text for text in texts if text in log)


def parts(sent: object) -> Iterator[str]:
    """The texts in a body; of signed ones also the signature, of a cookie each token."""
    if isinstance(sent, dict):
        sent = list(sent.values())
    if isinstance(sent, list):
        for each in sent:
            yield from parts(each)
    if isinstance(sent, str):
        signed, _, signature = sent.strip('"').rpartition(".")
        texts = {sent, signature, *signed.split(":")}
        yield from (text for text in texts if len(text) >= SHORTEST)
