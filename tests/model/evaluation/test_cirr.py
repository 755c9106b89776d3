"""`hsfiq evaluate cirr`: removal of the reference, the image sets, the server's files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hsfiq.readers import runs
from tests.model.evaluation.helpers import (
    MEMBERS,
    evaluate,
    filled,
    put,
    refusal,
    result,
    write_cirr,
)

RECALL_KEYS = [f"recall@{k}" for k in (1, 5, 10, 50)]
SUBSET_KEYS = [f"recall_subset@{k}" for k in (1, 2, 3)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cirr(tmp_path_factory.mktemp("cirr"))


def reference(i: int) -> str:
    return MEMBERS[6 * i]


def set_members(i: int) -> list[str]:
    """The image set without the reference, the target first."""
    return MEMBERS[6 * i + 1 : 6 * i + 6]


def full_list(i: int, first: list[str]) -> list[str]:
    """A list of fifty images without the reference that starts with `first`."""
    return filled(first, [image for image in MEMBERS if image != reference(i)], seed=i)


LISTS = {
    "10": full_list(0, set_members(0)),  # at 1, of the set at 1
    "11": full_list(
        1, [MEMBERS[0], set_members(1)[1], set_members(1)[0], set_members(1)[2]]
    ),  # at 3, at 2
    "12": full_list(
        2, [*set_members(2)[1:4], MEMBERS[0], MEMBERS[1], set_members(2)[0]]
    ),  # at 6, at 4
    "13": full_list(3, [*MEMBERS[:10], *set_members(3)[::-1]]),  # at 15, at 5
}
SUBSETS = {str(10 + i): set_members(i)[:3] for i in range(4)}


def files(folder: Path, split: str = "val") -> tuple[Path, Path]:
    """The server's two files."""
    header = {"version": "rc2"}
    return (
        put(folder / "recall.json", header | {"metric": "recall"} | LISTS),
        put(folder / "subset.json", header | {"metric": "recall_subset"} | SUBSETS),
    )


def test_hand_computed_figures(data: Path, tmp_path: Path) -> None:
    figures = result("cirr", data, put(tmp_path / "run.json", LISTS))
    assert [figures[key] for key in RECALL_KEYS] == [0.25, 0.5, 0.75, 1.0]
    assert [figures[key] for key in SUBSET_KEYS] == [0.25, 0.5, 0.5]
    assert figures["mean"] == (0.5 + 0.25) / 2
    assert figures["corpus"] == {"name": "split", "size": 70}
    assert figures["n_queries"] == 4
    assert "captions" not in figures
    assert "69 candidates per query, CIRR's own protocol" in "".join(figures["notes"])


def test_the_files_may_be_in_a_subfolder_cirr(tmp_path: Path) -> None:
    write_cirr(tmp_path / "it" / "cirr")
    assert result("cirr", tmp_path / "it", put(tmp_path / "run.json", LISTS))["n_queries"] == 4


def test_the_servers_files_in_either_order(data: Path, tmp_path: Path) -> None:
    recall, subset = files(tmp_path)
    first = result("cirr", data, recall, "--run", subset)
    second = result("cirr", data, subset, "--run", recall)
    assert [first[key] for key in SUBSET_KEYS] == [1.0, 1.0, 1.0]  # from its own file
    assert [first[key] for key in RECALL_KEYS] == [0.25, 0.5, 0.75, 1.0]
    assert first | {"run": 0} == second | {"run": 0}


def test_the_reference_is_removed_before_counting(data: Path, tmp_path: Path) -> None:
    lists = {key: [reference(int(key) - 10), *images] for key, images in LISTS.items()}
    figures = result("cirr", data, put(tmp_path / "with.json", lists))
    plain = result("cirr", data, put(tmp_path / "without.json", LISTS))
    for key in (*RECALL_KEYS, *SUBSET_KEYS, "mean"):
        assert figures[key] == plain[key]
    assert "lists that held their query's reference: 4" in "".join(figures["notes"])


def test_fifty_images_with_the_reference_count_as_forty_nine(data: Path, tmp_path: Path) -> None:
    lists = LISTS | {"10": [reference(0), *full_list(0, [])[:49]]}
    lists["10"] = [image for image in lists["10"] if image != set_members(0)[0]]
    figures = result("cirr", data, put(tmp_path / "with.json", lists))
    assert figures["recall@50"] is None
    assert figures["reason"]["recall@50"].endswith("50 images for each, not counting the reference")


def test_image_sets_from_short_lists(data: Path, tmp_path: Path) -> None:
    """Figures are known if the listed members decide them."""
    first = set_members(0)[1]
    lists = LISTS | {
        "10": filled([first], [member for member in MEMBERS if member not in MEMBERS[:6]])
    }
    figures = result("cirr", data, put(tmp_path / "it.json", lists))
    assert figures["recall_subset@1"] == 0.0  # another member comes before the target, if it comes
    assert (figures["recall_subset@2"], figures["recall_subset@3"]) == (None, None)
    assert "do not determine which 2 of the image set" in figures["reason"]["recall_subset@2"]


def test_a_query_missing_from_one_of_two_files(data: Path, tmp_path: Path) -> None:
    recall, subset = files(tmp_path)
    content = json.loads(subset.read_text())
    del content["12"]
    put(subset, content)
    line = refusal(evaluate("cirr", data, recall, "--run", subset))
    assert "1 of 4 queries of CIRR val have no ranking of the image set (12)" in line
    figures = result("cirr", data, recall, "--run", subset, "--allow-missing")
    assert figures["missing"] == {"queries": 0, "subset_queries": 1}
    assert figures["recall_subset@3"] == 0.75


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"11": ["dev-900-0-img1", *LISTS["11"]]},
            "11: image 'dev-900-0-img1' is not among the 70",
        ),
        ({"99": ["x"]}, "1 of 5 queries are not in CIRR val (99); its ids look like 10"),
    ],
)
def test_refused_lists(
    data: Path, tmp_path: Path, change: dict[str, list[str]], message: str
) -> None:
    assert message in refusal(evaluate("cirr", data, put(tmp_path / "it.json", LISTS | change)))
    _, subset = files(tmp_path)
    assert "give the recall run too" in refusal(evaluate("cirr", data, subset))


@pytest.mark.parametrize(
    "members", [MEMBERS[:1], MEMBERS[1:6], [*MEMBERS[:5], "dev-x"], [*MEMBERS[:5], MEMBERS[0]], []]
)
def test_broken_image_sets(tmp_path: Path, members: list[str]) -> None:
    write_cirr(tmp_path)
    path = tmp_path / "captions" / "cap.rc2.val.json"
    entries = json.loads(path.read_text())
    entries[0]["img_set"]["members"] = members
    put(path, entries)
    line = refusal(evaluate("cirr", tmp_path, put(tmp_path / "it.json", LISTS)))
    assert "pairid 10: its img_set must have" in line


def test_a_query_without_a_target(tmp_path: Path) -> None:
    write_cirr(tmp_path)
    path = tmp_path / "captions" / "cap.rc2.val.json"
    entries = json.loads(path.read_text())
    del entries[2]["target_hard"]
    put(path, entries)
    line = refusal(evaluate("cirr", tmp_path, put(tmp_path / "it.json", LISTS)))
    assert "cap.rc2.val.json: 1 of 4 queries have no target, 12 first" in line


def test_written_files_are_accepted_by_the_server(data: Path, tmp_path: Path) -> None:
    run = put(tmp_path / "run.json", LISTS)
    out = tmp_path / "out"
    command = evaluate("cirr", data, run, "--split", "test1", "--submission", out)
    names = ["test1_pred_ranks_recall.json", "test1_pred_ranks_recall_subset.json"]
    assert command.out.splitlines() == [f"{out / name}: written" for name in names]
    assert sorted(path.name for path in out.iterdir()) == names
    recall, subset = (json.loads((out / name).read_text()) for name in names)
    assert recall == {"version": "rc2", "metric": "recall"} | LISTS
    assert (subset.pop("version"), subset.pop("metric")) == ("rc2", "recall_subset")
    assert subset["11"] == [set_members(1)[1], set_members(1)[0], set_members(1)[2]]
    assert {len(images) for images in subset.values()} == {3}
    paths = [out / name for name in names]
    checked = result("cirr", data, paths[0], "--run", paths[1], "--split", "test1")
    assert (checked["n_queries"], checked["valid_submission"]) == (4, True)
    assert checked["run"] == list(map(str, paths))


def test_figures_and_files_on_val(data: Path, tmp_path: Path) -> None:
    recall, subset = files(tmp_path)
    out = tmp_path / "out"
    figures = result("cirr", data, recall, "--run", subset, "--submission", out)
    assert figures["recall@50"] == 1.0
    names = [Path(path).name for path in figures["submission"]]
    assert names == ["val_pred_ranks_recall.json", "val_pred_ranks_recall_subset.json"]
    assert json.loads(Path(figures["submission"][1]).read_text())["10"] == SUBSETS["10"]


def test_files_are_neither_overwritten_nor_partial(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    short = LISTS | {"12": LISTS["12"][:49]}
    run = put(tmp_path / "short.json", short)
    line = refusal(evaluate("cirr", data, run, "--split", "test1", "--submission", out))
    assert "query 12: its list holds 49 candidates, the server requires 50" in line
    sets = LISTS | {
        "12": filled([], [member for member in MEMBERS if member not in MEMBERS[12:18]])
    }
    run = put(tmp_path / "sets.json", sets)
    line = refusal(evaluate("cirr", data, run, "--split", "test1", "--submission", out))
    assert "query 12: its list holds 0 of the image set, the server requires 3; give the" in line
    assert not out.exists()
    put(out / "mine.json", 1)
    run = put(tmp_path / "run.json", LISTS)
    line = refusal(evaluate("cirr", data, run, "--split", "test1", "--submission", out))
    assert f"{out}: is not empty; name another folder" in line
    line = refusal(
        evaluate("cirr", data, run, "--split", "test1", "--submission", out / "mine.json")
    )
    assert "exists and is not a folder" in line
    below = out / "mine.json" / "out"
    line = refusal(evaluate("cirr", data, run, "--split", "test1", "--submission", below))
    assert f"{below}: cannot be written (" in line
    assert [path.name for path in out.iterdir()] == ["mine.json"]


def spare(images: list[str]) -> str:
    """A candidate of pairid 12 that its list does not hold."""
    return next(member for member in MEMBERS if member not in (*images, reference(2)))


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("which", "change", "message"),
    [
        (0, lambda run: run.pop("12"),
         "1 of 4 queries of CIRR test1 have no list (12); the"),
        (0, lambda run: run["12"].pop(), "12: 49 images, the server requires 50"),
        (0, lambda run: run["12"].append(spare(run["12"])),
         "12: 51 images, the server requires"),
        (0, lambda run: run.update({"12": [reference(2), *run["12"][1:]]}),
         "12: holds the reference"),
        (0, lambda run: run["12"].__setitem__(3, "dev-900"),
         "12: image 'dev-900' is not among"),
        (0, lambda run: run["12"].__setitem__(3, run["12"][4]), "12: the list of query 12 con"),
        (0, lambda run: run.update(version="rc1"), "version: 'rc1' is not 'rc2'; make the lists"),
        (0, lambda run: run.update(metric="Recall"), "metric: 'Recall' is not one of recall, re"),
        (0, lambda run: run.update(metric="recall_subset"), "query 10 occurs twice"),
        (0, lambda run: run.pop("metric"), "the key 'metric' is missing"),
        (0, lambda run: [run.pop(key) for key in ("version", "metric")],
         "'version' and 'metric'"),
        (0, lambda run: run.update({"99": run["10"]}), "1 of 5 queries are not in CIRR test1 (99)"),
        (0, lambda run: run.update({"10": 3}), "10: expected a list, found 3"),
        (1, lambda run: run["12"].pop(), "12: 2 images, the server requires 3"),
        (1, lambda run: run["12"].__setitem__(0, MEMBERS[0]), "is not in the image set"),
        (1, lambda run: run["12"].__setitem__(0, reference(2)),
         f"{reference(2)!r} is the reference"),
        (1, lambda run: run.pop("12"), "no ranking of the image set (12); the server requires all"),
    ],
)  # fmt: skip
def test_files_that_the_server_would_refuse(
    data: Path, tmp_path: Path, which: int, change: Change, message: str
) -> None:
    paths = files(tmp_path)
    content = json.loads(paths[which].read_text())
    change(content)
    put(paths[which], content)
    line = refusal(evaluate("cirr", data, paths[0], "--run", paths[1], "--split", "test1"))
    assert message in line
    assert str(paths[which]) in line


def test_one_file_may_be_checked_alone(data: Path, tmp_path: Path) -> None:
    for path in files(tmp_path):
        command = evaluate("cirr", data, path, "--split", "test1")
        assert (command.code, command.out) == (0, f"{path}: valid submission, 4 queries\n")


def test_a_file_too_large(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recall, _ = files(tmp_path)
    text = recall.read_text()
    recall.write_text(text + " " * (runs.MAX_BYTES + 1 - len(text)))
    line = refusal(evaluate("cirr", data, recall, "--split", "test1"))
    assert "recall.json: has 5,000,001 bytes, CIRR's server takes at most 5,000,000" in line


def test_a_run_is_not_a_submission(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    run.write_text(json.dumps({"query_id": "10", "images": LISTS["10"]}), encoding="utf-8")
    line = refusal(evaluate("cirr", data, run, "--split", "test1"))
    assert "is not a file for CIRR's server; --submission DIR makes one from a run" in line
