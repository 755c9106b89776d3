"""Moto's S3 in a process of its own, behind a proxy through which tests take it away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
import pytest
from PIL import Image

from benchmarks.stores import KEY, SECRET, s3, variables
from benchmarks.tcp_proxy import TcpProxy

BUCKET = "photos"


@dataclass(frozen=True, slots=True)
class S3:
    """A server of S3. `proxy` is what clients connect to."""

    port: int
    proxy: TcpProxy

    @property
    def environment(self) -> dict[str, str]:
        return variables(self.proxy.port)

    def client(self) -> Any:
        """A client that does not go through the proxy."""
        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def put(self, objects: Mapping[str, bytes], bucket: str = BUCKET) -> None:
        client = self.client()
        client.create_bucket(Bucket=bucket)
        for key, content in objects.items():
            client.put_object(Bucket=bucket, Key=key, Body=content)


@contextmanager
def s3_server() -> Iterator[S3]:
    with s3() as (port, proxy):
        yield S3(port, proxy)


@contextmanager
def found_by_clients(server: S3, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the block, clients of this process use the server, and keep what they read in `cache`."""
    server.proxy.recover()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    yield
    server.proxy.recover()


def picture(shade: int, side: int = 64) -> bytes:
    content = BytesIO()
    Image.new("RGB", (side, side), (shade % 256, 90, 200 - shade % 200)).save(content, "JPEG")
    return content.getvalue()
