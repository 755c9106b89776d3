"""The benchmark `images` with few clients: both sides send the same images."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks import images
from tests.processes import forkserver_context


def test_both_sides_send_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    forked = SimpleNamespace(get_context=lambda _method: forkserver_context())
    monkeypatch.setattr(images, "multiprocessing", forked)
    monkeypatch.setattr(images, "QUESTIONS", 2)
    result = images.measure(n_clients=2, requests=40, seed=7)
    assert result["equal"]
    by_database, signed = result["cases"]
    assert (by_database["side"], signed["side"]) == ("database", "signed")
    # What is known of an image is read once; the other side asks at each request.
    assert signed["statements"] < 1 < by_database["statements"]
