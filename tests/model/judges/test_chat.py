"""A judge behind an endpoint: both orders, what is stored, what it costs, what it refuses."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hsfiq.analysis.data.release import Release
from hsfiq.drawn import garment_of
from hsfiq.drawn.pictures import write_images
from hsfiq.releases.folder import read_sets
from tests.model.judges.chat_server import ChatServer, Parts, pictures_of, texts_of
from tests.model.release_scores.scored_release import about, assert_refused, lines, set_scores
from tests.model.scorer.helpers import CommandResult, hsfiq
from tests.processes import start_command

pytest.importorskip("openai")

N_PAIRS = 4  # three people judged each


def judge(release: Path, url: str, *options: str | Path) -> CommandResult:
    return hsfiq("score", release, "--judge", "chat:m", "--endpoint", url, *options)


def stored(release: Path, name: str = "chat") -> list[dict[str, Any]]:
    return lines(release.with_name("hp.scores") / f"{name}.answers.jsonl")


def preferring(image: str) -> Any:
    """Says which set begins with the picture that is less in byte order: the same in any order."""

    def says(number: int, parts: Parts) -> str:
        pictures = pictures_of(parts)[1:]
        first, second = pictures[:5], pictures[5:]
        return image if first == second else "The first." if first < second else "The second."

    return says


def test_both_orders_of_each_pair_are_asked_once(release: Path, drawn_release: Release) -> None:
    server = ChatServer(preferring("equal"))
    with server.running() as url:
        result = judge(release, url, "--price", "2,500")
    assert result.code == 0, result.err
    assert len(server.asked) == 2 * N_PAIRS
    parts = server.asked[0]["messages"][0]["content"]
    assert len(pictures_of(parts)) == 11
    assert texts_of(parts)[:3] == ["The reference image:", "Set 1, best first:",
                                   "Set 2, best first:"]  # fmt: skip
    scores = set_scores(release.with_name("hp.scores"), "chat")
    assert len(scores) == len(drawn_release.sets)
    assert set(scores.values()) <= {0.0, 0.5, 1.0}
    preferences = drawn_release.preferences
    assert all(
        scores[row["set_1"]] + scores[row["set_2"]] == 1 for _, row in preferences.iterrows()
    )
    by_images: dict[str, set[float]] = {}
    for _, row in drawn_release.sets.iterrows():
        key = f"{row['query_id']} {row['image_ids']}"
        by_images.setdefault(key, set()).add(scores[row["set_id"]])
    assert all(len(values) == 1 for values in by_images.values())
    provenance = about(release.with_name("hp.scores"), "chat")
    assert provenance["judge"]["prompt"]["name"] == "preference"
    assert provenance["judge"]["prompt"]["version"] == 1
    assert provenance["answers"] == {"questions": 8, "null": {}}
    assert provenance["costs"] == {
        "answers": 8, "prompt_tokens": 8000, "completion_tokens": 16, "money": 0.024,
    }  # fmt: skip
    bias = provenance["position_bias"]
    assert (bias["first"]["value"], bias["first"]["n"]) == (0.5, N_PAIRS)
    assert bias["same_in_both_orders"]["value"] == 1
    figures = hsfiq("analyze", release, "--metric", "chat", "--resamples", "20", "--json").result
    assert figures["metrics"]["chat"]["pairs"]["missing"] == 0


def test_a_judge_that_always_says_first_is_shown_to_be_biased(release: Path) -> None:
    with ChatServer().running() as url:
        result = judge(release, url)
    assert "position bias: the first set is preferred in 1.000" in result.out
    assert "same answer in both orders: 0.000" in result.out
    assert set(set_scores(release.with_name("hp.scores"), "chat").values()) == {0.5}


def test_answers_are_asked_and_paid_once(release: Path) -> None:
    server = ChatServer()
    with server.running() as url:
        assert judge(release, url).code == 0
        first = (release.with_name("hp.scores") / "chat.json").read_bytes()
        again = judge(release, url, "--json")
        assert len(server.asked) == 2 * N_PAIRS
        assert again.result["costs_of_this_run"]["answers"] == 0
        assert (release.with_name("hp.scores") / "chat.json").read_bytes() == first
        other = judge(release, url, "--prompt", "likert")
        assert_refused(other, "holds the scores of another judge or scorer")
        assert len(server.asked) == 2 * N_PAIRS


def test_a_number_for_each_set_and_what_is_null(release: Path, drawn_release: Release) -> None:
    answers = ["4", "Rating: 2.", "between 3 and 4", "7", {"content": None, "refusal": "no"}]

    def says(number: int, parts: Parts) -> Any:
        texts = "".join(pictures_of(parts))
        place = order.setdefault(texts, len(order))
        return answers[place] if place < len(answers) else 400 if place == 5 else "1"

    order: dict[str, int] = {}
    server = ChatServer(says)
    with server.running() as url:
        result = judge(release, url, "--prompt", "likert", "--parallel", "1", "--json").result
        assert result["answers"]["null"] == {
            "unreadable": 2, "refused by the model": 1, "refused by the endpoint": 1,
        }  # fmt: skip
        asked = Counter(order[("".join(pictures_of(body["messages"][0]["content"])))]
                        for body in server.asked)  # fmt: skip
        assert [asked[place] for place in range(7)] == [1, 1, 3, 3, 1, 1, 1]
        seeds = {body["seed"] for body in server.asked}
        assert seeds == {0, 1, 2}
        n = len(server.asked)
        judge(release, url, "--prompt", "likert", "--parallel", "1")
        assert len(server.asked) == n + 1  # what the endpoint did not accept
    scores = set_scores(release.with_name("hp.scores"), "chat")
    assert sorted(set(scores.values())) == [1.0, 2.0, 4.0]
    unscored = about(release.with_name("hp.scores"), "chat")["unscored_sets"]
    assert len(unscored) + len(scores) == len(drawn_release.sets)
    assert unscored


def test_nothing_readable_is_no_score(release: Path) -> None:
    with ChatServer(lambda *_: "both").running() as url:
        nothing = judge(release, url)
    assert_refused(nothing, "no set has a score; of 8 answers, 8 unreadable", code=1)
    assert len(stored(release)) == 3 * 2 * N_PAIRS
    assert not (release.with_name("hp.scores") / "chat.parquet").exists()


def test_a_broken_endpoint_ends_the_run_and_the_next_one_goes_on(release: Path) -> None:
    server = ChatServer(lambda number, _: 401 if number == 4 else "first")
    with server.running() as url:
        broken = judge(release, url, "--parallel", "1")
        assert_refused(broken, "returned no answer", code=1)
        assert len(stored(release)) >= 3
        assert judge(release, url).code == 0
        assert len(stored(release)) == 2 * N_PAIRS


def test_no_answer_is_lost_by_a_kill(release: Path, tmp_path: Path) -> None:
    server = ChatServer(most=3)
    with server.running() as url:
        command = ("score", release, "--judge", "chat:m", "--endpoint", url, "--parallel", "1")
        process = start_command(*command, log=tmp_path / "log.txt")
        while len(server.asked) < 4 and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(stored(release)) == 3
        path = release.with_name("hp.scores") / "chat.answers.jsonl"
        with path.open("ab") as file:
            file.write(b'{"key": "torn')
        server.most = None
        assert judge(release, url).code == 0
    assert len(server.asked) == 1 + 2 * N_PAIRS
    assert len(stored(release)) == 2 * N_PAIRS


def test_missing_images_are_named_and_null(release: Path, tmp_path: Path) -> None:
    sets = read_sets(release)
    names = {name for each in sets for name in (each.reference, *each.images)}
    (tmp_path / "images").mkdir()
    write_images([garment_of(name) for name in sorted(names)], tmp_path / "images")
    gone, broken = sets[0].images[0], sets[0].images[1]
    for path in (tmp_path / "images").iterdir():
        if path.stem == gone:
            path.unlink()
        elif path.stem == broken:
            path.write_bytes(b"no image")
    with ChatServer().running() as url:
        result = judge(release, url, "--images", tmp_path / "images", "--json").result
    assert result["missing_images"] == sorted([gone, broken])
    assert sets[0].set_id in result["unscored_sets"]
    assert 0 < result["n_scored"] < result["n_sets"]


def test_calls_are_spaced(release: Path) -> None:
    server = ChatServer()
    with server.running() as url:
        start = time.monotonic()
        assert judge(release, url, "--per-minute", "1200").code == 0
    assert time.monotonic() - start >= 7 * 60 / 1200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--price", "1"), "--price: '1' is not two prices; write 2.5,10"),
        (("--prompt", "change"), "which an endpoint does not report"),
        (("--prompt", "other"), "'other' is not known; use change, likert"),
        (("--checkpoint", "x"), "cannot be combined with --checkpoint"),
        (("--judge", "chat:"), "is not NAME:ARGUMENT"),
        (("--judge", "chta:m"), "no installed judge is named chta; there are: chat, clipscore"),
    ],
)
def test_wrong_options(release: Path, options: tuple[str, ...], message: str) -> None:
    assert_refused(judge(release, "http://127.0.0.1:9", *options), message)


def test_options_of_a_judge_need_one(release: Path) -> None:
    assert_refused(hsfiq("score", release, "--price", "1,2"), "--price: needs a judge")
    assert_refused(hsfiq("score", release), "--checkpoint: is missing")


def test_sets_of_a_file_are_compared(tmp_path: Path, drawn_release: Release) -> None:
    images = drawn_release.sets["image_ids"].tolist()
    rows = [
        {"id": str(n), "reference": images[0][0], "text": "is red", "images": images[n]}
        for n in range(3)
    ]
    path, out = tmp_path / "sets.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    server = ChatServer()
    with server.running() as url:
        result = judge(path, url, "--out", out)
    assert result.code == 0, result.err
    assert len(server.asked) == 6
    assert [row["score"] for row in lines(out)] == [0.5, 0.5, 0.5]
    assert len(lines(tmp_path / "out.jsonl.answers.jsonl")) == 6
