"""Images that a search brings along: how they are written, and which are refused."""

from __future__ import annotations

import json

import pytest

from hsfiq.live.client import batches
from hsfiq.live.protocol import (
    LARGEST_IMAGE,
    RankRequest,
    RetrieverRefused,
    Search,
    SystemDescription,
    Turn,
    as_base64,
    read_request,
)

OLD = (
    '{"searches":[{"turns":[{"reference":"s2","text":"is red","shown":[]}],'
    '"exclude":[],"targets":[]}],"history":"mean","k":3}'
)
"""A request as it was written before searches could bring images along."""

RED = Search(turns=(Turn(reference="s2", text="is red"),))
OWN = Search(
    turns=(Turn(reference="{mine}", text="is red"),), images={"{mine}": as_base64(b"\x89PNG")}
)


def test_a_request_without_images_is_written_as_before() -> None:
    for request in (RankRequest(searches=(RED,), k=3), read_request(RankRequest, OLD.encode())):
        assert request.model_dump_json() == OLD


def test_images_are_read_as_they_were_written_and_not_shown() -> None:
    request = RankRequest(searches=(OWN,), k=3)
    assert read_request(RankRequest, request.model_dump_json().encode()) == request
    assert request.searches[0].files() == {"{mine}": b"\x89PNG"}
    assert as_base64(b"\x89PNG") not in repr(request)


def test_an_older_server_accepts_no_images() -> None:
    corpus = {"name": "six", "size": 6, "sha256": "0" * 64}
    system = {"protocol": 1, "name": "words", "version": "1", "corpus": corpus}
    system |= {"histories": ["mean"], "max_k": 6, "max_batch": 8}
    assert not SystemDescription.model_validate_json(json.dumps(system)).accepts_images


@pytest.mark.parametrize(
    ("images", "where", "what"),
    [
        ({"other": "eHg="}, "", "'other': is no turn's reference"),
        ({"s2": "e-g="}, "", "'s2': is not base64"),
        ({"s2": "\xe9"}, "", "'s2': is not base64"),
        ({"s2": as_base64(b"1" * (LARGEST_IMAGE + 1))}, "", "'s2': has more than 2,097,152 bytes"),
        ({"s2": as_base64(b"1" * (LARGEST_IMAGE + 3))}, ".s2", "String should have at most"),
        ({"s2": ""}, ".s2", "String should have at least 1 character"),
        ({"s2": 3}, ".s2", "Input should be a valid string"),
        ({"s2": "eHg=", "s3": "eHg="}, "", "Dictionary should have at most 1 item"),
        (["eHg="], "", "Input should be"),
    ],
)
def test_unusable_images_are_refused(images: object, where: str, what: str) -> None:
    request = json.loads(OLD)
    request["searches"][0]["images"] = images
    with pytest.raises(RetrieverRefused) as caught:
        read_request(RankRequest, json.dumps(request).encode())
    assert caught.value.where == f"searches.0.images{where}"
    assert caught.value.what.startswith(what)
    assert caught.value.status == 422
    assert caught.value.remedy or not what.startswith("'")


def test_a_search_with_an_image_is_sent_alone() -> None:
    assert list(batches([RED, RED, RED, OWN, OWN, RED], 2)) == [
        (RED, RED),
        (RED,),
        (OWN,),
        (OWN,),
        (RED,),
    ]
    assert list(batches([], 2)) == []
