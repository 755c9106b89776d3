"""Two programs that want the same port: the one that comes second says so in one line."""

from __future__ import annotations

from contextlib import closing

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.http_server import accept_connections, listening


def test_of_two_that_start_at_once_one_gets_the_port() -> None:
    """Both bind before either listens, as two commands do that load a model in between."""
    with closing(listening("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with closing(listening("127.0.0.1", port)) as second:
            accept_connections(first)
            with pytest.raises(UnreadableInput) as refused:
                accept_connections(second)
    assert str(refused.value) == (
        f"127.0.0.1:{port}: cannot be used (Address already in use); choose another --port"
    )


def test_a_port_in_use_is_refused_before_anything_is_loaded() -> None:
    with closing(listening("127.0.0.1", 0)) as first:
        accept_connections(first)
        port = first.getsockname()[1]
        with pytest.raises(UnreadableInput, match=f"127.0.0.1:{port}: cannot be used"):
            listening("127.0.0.1", port)
