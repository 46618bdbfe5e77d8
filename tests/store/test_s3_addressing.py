"""Both ways to name a bucket: in the path, and in the host's name."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from tests.store.s3_server import BUCKET, DOMAIN, S3Server


@pytest.mark.parametrize("style", ["path", "virtual"])
def test_buckets_are_addressed_as_boto3_is_told(
    style: str, s3_server: S3Server, s3_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(f"[default]\nregion = us-east-1\ns3 =\n  addressing_style = {style}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    port = s3_server.endpoint.rpartition(":")[2]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{DOMAIN}:{port}")
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        if str(host).endswith(DOMAIN):
            asked.append(str(host))
            host = "127.0.0.1"
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    store = open_store(f"{s3_bucket}/addressing-{style}")
    put = store.put_new("blobs/x", b"content")
    assert store.get("blobs/x") == (b"content", put)
    assert [stat.key for stat in store.list("blobs/")] == ["blobs/x"]
    assert set(asked) == {DOMAIN if style == "path" else f"{BUCKET}.{DOMAIN}"}
