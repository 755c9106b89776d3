"""`hsfiq evaluate circo`: several truths, COCO's ids, the server's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model.evaluation.helpers import evaluate, filled, put, refusal, result, write_circo

IMAGES = [str(200 + i) for i in range(100)]
LISTS = {
    "0": filled(
        ["299", "202", "201"], [image for image in IMAGES if image != "203"]
    ),  # truths at 2, 3
    "1": filled([*IMAGES[50:56], "210"], IMAGES),  # at 7
}
AP_0 = (1 / 2 + 2 / 3) / 3


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_circo(tmp_path_factory.mktemp("circo"))


def test_hand_computed_figures(data: Path, tmp_path: Path) -> None:
    figures = result("circo", data, put(tmp_path / "run.json", LISTS))
    assert figures["map@5"] == pytest.approx(AP_0 / 2, abs=1e-15)
    for k in (10, 25, 50):
        assert figures[f"map@{k}"] == pytest.approx((AP_0 + 1 / 7) / 2, abs=1e-15)
    assert [figures[f"recall@{k}"] for k in (5, 10, 25, 50)] == [0.5, 1.0, 1.0, 1.0]
    assert figures["semantic_map@10"] == {
        "addition": pytest.approx((AP_0 + 1 / 7) / 2), "negation": pytest.approx(AP_0),
    }  # fmt: skip
    assert figures["corpus"] == {"name": "COCO 2017 unlabeled", "size": 100}
    assert "mean" not in figures
    lines = evaluate("circo", data, tmp_path / "run.json").out.splitlines()
    assert lines[2].split() == ["corpus:", "COCO", "2017", "unlabeled", "100"]
    assert lines[-2].split() == ["semantic_map@10", "negation", "38.89"]
    assert lines[-1].startswith("note: the file has 2 queries, the published one 220")


@pytest.mark.parametrize("spelling", ["numbers", "padded", "jsonl"])
def test_ids_in_every_spelling(data: Path, tmp_path: Path, spelling: str) -> None:
    plain = result("circo", data, put(tmp_path / "run.json", LISTS))
    run = tmp_path / "other.json"
    if spelling == "numbers":
        put(run, {query: [int(image) for image in images] for query, images in LISTS.items()})
    elif spelling == "padded":
        put(
            run,
            {query: [f"{int(image):012d}" for image in images] for query, images in LISTS.items()},
        )
    else:
        lines = [
            json.dumps({"query_id": int(query), "images": list(map(int, images))})
            for query, images in LISTS.items()
        ]
        run.write_text("\n".join(lines), encoding="utf-8")
    assert result("circo", data, run) | {"run": 0} == plain | {"run": 0}


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (["201", "000000000201"], "run.json: 1: the list of query 1 holds 201 twice"),
        (["a.jpg"], "run.json: 1: 'a.jpg' is not a COCO image id; it must have 1 to 12"),
        ([57413], "run.json: 1: image '57413' is not among the 100 candidates"),
        ([-1], "'-1' is not a COCO image id"),
        ([True], "expected an integer, found true"),
    ],
)
def test_refused_images(data: Path, tmp_path: Path, images: list[object], message: str) -> None:
    run = put(tmp_path / "run.json", LISTS | {"1": images})
    assert message in refusal(evaluate("circo", data, run))


def test_the_reference_is_not_removed(data: Path, tmp_path: Path) -> None:
    ranked = ["250", *(image for image in LISTS["1"] if image != "250")]
    figures = result("circo", data, put(tmp_path / "run.json", LISTS | {"1": ranked}))
    assert ranked.index("210") == 6
    assert figures["map@10"] == pytest.approx((AP_0 + 1 / 7) / 2, abs=1e-15)


def test_without_the_list_of_images(tmp_path: Path) -> None:
    data = write_circo(tmp_path / "circo", indexed=False)
    run = put(tmp_path / "run.json", LISTS | {"1": [57413, *LISTS["1"]]})
    figures = result("circo", data, run)
    assert figures["corpus"] == {"name": "COCO 2017 unlabeled", "size": None}
    assert list(figures["reason"]) == ["corpus.size"]
    assert "the size of the corpus is unknown" in evaluate("circo", data, run).out


def test_short_lists(data: Path, tmp_path: Path) -> None:
    run = put(tmp_path / "run.json", LISTS | {"0": ["203", "299", "298", "297", "201"]})
    figures = result("circo", data, run)
    assert figures["map@5"] == pytest.approx((1 + 2 / 5) / 3 / 2, abs=1e-15)
    assert (figures["map@10"], figures["recall@10"]) == (None, 1.0)  # 202 may come, 201 has
    assert figures["reason"]["map@10"] == ("1 of 2 lists are too short; give 50 images for each")
    assert figures["semantic_map@10"] == {"addition": None, "negation": None}
    assert figures["reason"]["semantic_map@10.negation"].startswith("1 of 1 lists")


def test_a_list_over_the_whole_corpus_is_long_enough(tmp_path: Path) -> None:
    data = write_circo(tmp_path / "circo", indexed=False)
    index = data / "annotations" / "image_info_unlabeled2017.json"
    images = [*range(200, 212), 250]
    put(index, {"images": [{"id": image} for image in images]})
    lists = {"0": images, "1": images[::-1]}
    figures = result("circo", data, put(tmp_path / "run.json", lists))
    assert figures["recall@50"] == 1.0
    assert "reason" not in figures


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "lacks 250 of query 0 among its 0 images"),
        ([250, 201, 203], "lacks 202 of query 0 among its 3 images; use the complete list"),
    ],
)
def test_a_list_of_other_images(tmp_path: Path, images: list[int], message: str) -> None:
    data = write_circo(tmp_path / "circo", indexed=False)
    index = data / "annotations" / "image_info_unlabeled2017.json"
    put(index, {"images": [{"id": image} for image in images]})
    line = refusal(evaluate("circo", data, put(tmp_path / "run.json", LISTS)))
    assert f"image_info_unlabeled2017.json: {message}" in line


def test_writing_and_checking_the_servers_file(data: Path, tmp_path: Path) -> None:
    lists = LISTS | {"2": filled([], IMAGES, 60)}
    out = tmp_path / "out"
    run = put(tmp_path / "run.json", lists)
    command = evaluate("circo", data, run, "--split", "test", "--submission", out)
    path = out / "submission_test.json"
    assert command.out == f"{path}: written\n"
    written = json.loads(path.read_text())
    assert list(written) == ["0", "1", "2"]
    assert written["2"] == [int(image) for image in lists["2"][:50]]
    command = evaluate("circo", data, path, "--split", "test")
    assert (command.code, command.out) == (0, f"{path}: valid submission, 3 queries\n")
    line = refusal(evaluate("circo", data, run, "--split", "test"))
    assert "2: 60 images, the server requires 50" in line
    missing = put(tmp_path / "missing.json", LISTS)
    line = refusal(evaluate("circo", data, missing, "--split", "test"))
    assert "1 of 3 queries of CIRCO test have no list (2); the server requires all" in line
    line = refusal(
        evaluate("circo", data, missing, "--split", "test", "--submission", tmp_path / "no",
                 "--allow-missing")
    )  # fmt: skip
    assert "query 2: its list holds 0 candidates, the server requires 50" in line
    assert not (tmp_path / "no").exists()
