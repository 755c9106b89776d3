"""Moto's S3 in a process of its own, behind a proxy through which tests take it away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO

import boto3
from PIL import Image

from benchmarks.browsing import answers, free_port, wait_until
from benchmarks.tcp_proxy import TcpProxy

KEY, SECRET = "telltale-key", "telltale-secret"
BUCKET = "photos"


def environment(port: int) -> dict[str, str]:
    """The variables of an S3 client for this server."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@dataclass(frozen=True, slots=True)
class S3:
    """A server of S3. `proxy` is what clients connect to."""

    port: int
    proxy: TcpProxy

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.proxy.port)

    def client(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
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
    port = free_port()
    command = f"from moto.server import main; main(['-p', '{port}'])"
    process = subprocess.Popen(
        [sys.executable, "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    proxy = TcpProxy("127.0.0.1", port)
    try:
        wait_until(lambda: answers(port, "/moto-api/"), "moto's server")
        yield S3(port, proxy)
    finally:
        proxy.reset()
        process.terminate()
        process.wait()


def picture(shade: int, side: int = 64) -> bytes:
    content = BytesIO()
    Image.new("RGB", (side, side), (shade % 256, 90, 200 - shade % 200)).save(content, "JPEG")
    return content.getvalue()
