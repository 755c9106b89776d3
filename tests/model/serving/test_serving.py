"""Our server: it conforms, wants its token, limits requests, and ends at SIGTERM."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from hsfiq.cli import run
from hsfiq.images.folder import ImageFolder
from hsfiq.live.client import LiveRetriever, certificates
from hsfiq.live.conformance import check_conformance
from hsfiq.live.protocol import LARGEST_IMAGE, RetrieverUnavailable, Search, Turn, as_base64
from hsfiq.model import retriever_server as server
from hsfiq.model.evaluation.drawn import drawn_for_scorer
from hsfiq.model.ranker import HISTORIES, CorpusRanker, benchmark_candidates
from hsfiq.model.retriever_server import LARGEST_BODY, build_app
from tests.live_servers import serving
from tests.model.scorer.helpers import Drawn
from tests.processes import start_command

TOKEN = "a-token-of-more-than-sixteen-letters"


def test_it_conforms_and_answers_as_the_ranker_in_process(
    ranker: CorpusRanker, served_images: Path, one_thread: None
) -> None:
    ids = ranker.corpus()
    turns = (Turn(reference=ids[1], text="is red"), Turn(reference=ids[8], text="has a v neck"))
    search = Search(turns=turns, exclude=ids[:2], targets=ids[4:6])
    with serving(build_app(ranker, TOKEN)) as url, LiveRetriever(url, TOKEN) as retriever:
        results = check_conformance(retriever, ImageFolder(served_images).find).results
        not_ok = {result.name: result.outcome for result in results if result.outcome != "ok"}
        assert not_ok == {"no-images": "not tried"}, results
        assert (retriever.system(), retriever.corpus()) == (ranker.system(), ids)
        for history in HISTORIES:
            assert retriever.rank([search], history, 7) == ranker.rank([search], history, 7)


def test_requests_without_the_token_learn_nothing(ranker: CorpusRanker) -> None:
    with serving(build_app(ranker, TOKEN)) as url:
        for token in (None, TOKEN[:-1], TOKEN + "x", "\u2603".encode().decode("latin-1")):
            headers = (
                {} if token is None else {"Authorization": f"Bearer {token}".encode("latin-1")}
            )
            for path in ("/v1/system", "/v1/corpus", "/nowhere"):
                response = httpx.get(url + path, headers=headers, verify=certificates())
                assert response.status_code == 401
                assert "clip4cir" not in response.text


def test_a_body_is_read_up_to_its_limit(ranker: CorpusRanker) -> None:
    with serving(build_app(ranker)) as url:
        response = httpx.post(f"{url}/v1/rank", content=b" " * (LARGEST_BODY + 1))
    assert response.status_code == 413
    assert response.json()["error"]["where"] == "body"


def test_the_largest_image_fits_into_a_request(ranker: CorpusRanker) -> None:
    file = BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (820, 820, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    content = file.getvalue().ljust(LARGEST_IMAGE, b"\0")  # what follows a PNG's end is not read
    turns = (Turn(reference="my own", text="is red"), Turn(reference=ranker.corpus()[2], text=""))
    searches = [Search(turns=turns, images={"my own": as_base64(content)})] * 2
    with serving(build_app(ranker)) as url, LiveRetriever(url) as retriever:
        lists = retriever.rank(searches, "rocchio", 5)
    expected = ranker.rank(searches, "rocchio", 5)
    assert [each.image_ids for each in lists] == [each.image_ids for each in expected]


def test_an_overloaded_server_says_when_to_ask_again(
    ranker: CorpusRanker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_WAITING", 1)
    search = Search(turns=(Turn(reference=ranker.corpus()[0], text=""),))
    with serving(build_app(ranker)) as url, LiveRetriever(url) as retriever:
        arrived = threading.Event()
        rank = ranker.rank

        def ranked(*arguments: Any) -> Any:
            arrived.set()
            return rank(*arguments)

        monkeypatch.setattr(ranker, "rank", ranked)
        waiting = threading.Thread(target=retriever.rank, args=([search], "mean", 1))
        with ranker._lock:  # the first request waits for it
            waiting.start()
            arrived.wait()
            with (
                LiveRetriever(url) as another,
                pytest.raises(RetrieverUnavailable, match="overloaded") as caught,
            ):
                another.rank([search], "mean", 1)
        waiting.join()
        assert caught.value.retry_after == 1
        assert len(asked_again(retriever, search)) == 1


def asked_again(retriever: LiveRetriever, search: Search) -> Any:
    """The answer, once the server has counted that the request before has ended."""
    while True:
        try:
            return retriever.rank([search], "mean", 1)
        except RetrieverUnavailable:
            time.sleep(0.05)


def test_the_command_serves_what_can_be_read_until_sigterm(
    drawn: Drawn,
    clip4cir: Path,
    served_images: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    token_file, log = tmp_path / "token", tmp_path / "log.txt"
    token_file.write_text(f"{TOKEN}\n")
    log.touch()
    words: list[str | Path] = ["retriever", "serve", "--checkpoint", clip4cir, "--port", "0"]
    words += ["--images", served_images, "--cache", drawn.cache, "--token-file", token_file]
    process = start_command(*words, log=log)
    try:
        while not (ready := re.search(r"at (http://127\.0\.0\.1:\d+); ", log.read_text())):
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        check = ["retriever", "check", ready[1], "--token-file", str(token_file)]
        assert run([*check, "--images", str(served_images), "--json"]) == 0
        outcomes = {
            rule["rule"]: rule["outcome"] for rule in json.loads(capsys.readouterr().out)["rules"]
        }
        assert outcomes["corpus-image"] == "ok"
        assert run([*check, "--images", str(tmp_path / "nowhere")]) == 2
        assert run(["retriever", "check", ready[1]]) == 1  # without the token
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    lines = log.read_text().splitlines()
    assert "1 of 33 images are missing or unreadable and were left out (broken)" in lines[0]
    assert re.match(r"serving clip4cir \([0-9a-f]{12}\) on 32 images at ", lines[1])
    assert len(lines) == 2


def test_unusable_options_are_one_line(
    clip4cir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = tmp_path / "short"
    short.write_text("secret")
    serve = ["retriever", "serve", "--checkpoint", str(clip4cir), "--images", str(tmp_path)]
    for options, message in (
        (["--host", "0.0.0.0"], "--host: 0.0.0.0 needs a token; add --token-file"),
        (["--token-file", str(short)], "holds no token of at least 16"),
        (["--port", "0"], f"{tmp_path}: holds no images"),
    ):
        assert run([*serve, *options]) == 2
        output = capsys.readouterr()
        assert message in output.err
        assert output.err.count("\n") == 1


def test_the_corpora_of_the_drawn_catalogue(clip4cir: Path, tmp_path: Path) -> None:
    benchmark, folder, _ = drawn_for_scorer("val", clip4cir, tmp_path)
    split = benchmark_candidates(benchmark, "split", folder)
    union = benchmark_candidates(benchmark, "union", folder)
    named = {
        image
        for part in benchmark.parts
        for query in part.queries
        for image in (query.reference, query.target)
    }
    assert set(union.image_ids) == named < set(split.image_ids)
    assert len(set(split.image_ids)) == len(split.image_ids)
