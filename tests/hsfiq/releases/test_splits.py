"""Splits by triplet, participant or both: drawn after the filters, exported, without leaks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.atomic_files import write_folder
from hsfiq.db.engine import Database
from hsfiq.errors import HsfiqError, NothingToDo, UnreadableInput
from hsfiq.releases.content import Release
from hsfiq.releases.splits import Split, SplitBy, draw_split, held_out, verify_no_leak
from hsfiq.study.filters import Filters
from tests.hsfiq.releases.slow_questions import QuestionRows, bare_question
from tests.hsfiq.samples import hsfiq, release_of, rows

Rows = list[dict[str, Any]]
Change = Callable[[Rows], object]
HALF: dict[SplitBy, Split] = {
    unit: Split(unit, seed=1, test_share=0.5) for unit in ("triplet", "participant", "both")
}


def with_split(database: Database, split: Split | None, filters: Filters | None = None) -> Release:
    return release_of(database, "hp", filters, split=split)


def facts_of(release: Release) -> Any:
    return json.loads(release.files["manifest.json"])["split"]


def units(read: Callable[[str], Rows]) -> dict[str, list[set[str]]]:
    """The triplets and the participants of each part, computed from the tables alone."""
    triplets = {row["query_id"]: row["triplet_id"] for row in read("queries")}
    answered = {row["question_id"]: row for row in read("preferences")}
    by_part: dict[str, list[set[str]]] = {"train": [set(), set()], "test": [set(), set()]}
    for row in read("splits"):
        question = answered[row["question_id"]]
        part = by_part.setdefault(row["part"], [set(), set()])
        part[0].add(triplets[question["query_id"]])
        part[1].add(question["participant_id"])
    return by_part


# -------------------------------------------------------------------------------------------- parts


@pytest.mark.parametrize(
    ("unit", "facts"),
    [
        ("triplet", {"n": {"train": 10, "test": 9, "unused": 0}, "held_out_triplets": 5}),
        ("participant", {"n": {"train": 12, "test": 7, "unused": 0}, "held_out_participants": 2}),
        ("both", {"held_out_triplets": 5, "held_out_participants": 2}),
    ],
)
def test_the_parts_of_a_release_share_no_unit(
    small_pairs: Database, unit: SplitBy, facts: dict[str, Any]
) -> None:
    release = with_split(small_pairs, HALF[unit])
    question_ids = [row["question_id"] for row in rows(release, "preferences")]
    assert [row["question_id"] for row in rows(release, "splits")] == question_ids
    parts = units(partial(rows, release))
    assert set(parts) == {"train", "test"} | ({"unused"} if unit == "both" else set())
    for number, name in enumerate(("triplet", "participant")):
        if unit in (name, "both"):
            assert parts["train"][number].isdisjoint(parts["test"][number])
    described = facts_of(release)
    asked = {"by": unit, "seed": 1, "test_share": 0.5}
    assert described == described | asked | facts
    assert sum(described["n"].values()) == len(question_ids) == 19


questions = st.lists(
    st.tuples(
        st.sampled_from(["p1", "p2", "p3", "p4", "p5"]),
        st.sampled_from([f"shirt.val.{number}" for number in range(8)]),
        st.sampled_from(["", "~", "#1"]),
    ),
    min_size=1,
    max_size=40,
).map(
    lambda drawn: QuestionRows(
        bare_question(person, number, triplet, suffix)
        for number, (person, triplet, suffix) in enumerate(drawn)
    )
)
splits = st.builds(
    Split, st.sampled_from(["triplet", "participant", "both"]), st.integers(), st.floats(0.05, 0.95)
)


@given(questions, splits, st.randoms(use_true_random=False))
def test_the_parts_equal_the_definition_in_any_order(
    questions: QuestionRows, split: Split, random: Random
) -> None:
    try:
        drawn = draw_split([questions], split)
        counts = Counter(drawn.parts_of(questions))
        assert drawn.summary(counts)["n"] == {"train": 0, "test": 0, "unused": 0} | counts
    except NothingToDo:
        return
    for row in questions:
        by_triplet = row.query.triplet_id in drawn.triplets
        by_participant = row.participant_id in drawn.participants
        memberships = {
            "triplet": [by_triplet],
            "participant": [by_participant],
            "both": [by_triplet, by_participant],
        }[split.by]
        part = "test" if all(memberships) else "unused" if any(memberships) else "train"
        assert drawn.part_of(row.query, row.participant_id) == part
    again = draw_split([QuestionRows(random.sample(questions, len(questions)))], split)
    assert again.parts_of(questions) == drawn.parts_of(questions)


@given(st.sets(st.integers(0, 500), min_size=10), st.integers(), st.data())
def test_a_growing_study_changes_only_the_end_of_the_draw(
    numbers: set[int], seed: int, data: st.DataObject
) -> None:
    split = Split("triplet", seed, 0.3)
    ids = sorted(map(str, numbers))
    some_ids = data.draw(st.lists(st.sampled_from(ids), unique=True, min_size=5))
    before, after = held_out(some_ids, "triplet", split), held_out(ids, "triplet", split)
    assert len(after) == round(0.3 * len(ids))
    # Only the end of the draw moves: never does one come in for another that goes.
    remaining = after.intersection(some_ids)
    assert remaining <= before or before <= remaining


def test_different_seeds_draw_different_splits_of_the_requested_share() -> None:
    ids = [f"shirt.val.{number}" for number in range(1000)]
    drawn = {held_out(ids, "triplet", Split("triplet", seed)) for seed in range(20)}
    assert len(drawn) == 20
    assert {len(sample) for sample in drawn} == {200}
    # Each id is held out by one seed in five; 20 seeds x 1,000 ids, so 4,000 in all.
    counts = [sum(id_ in sample for sample in drawn) for id_ in ids]
    assert max(counts) <= 14


def test_the_drawn_split_never_changes() -> None:
    """Whatever the version of Python: only `Random.random` is used, which promises it."""
    ids = [f"shirt.val.{number}" for number in range(10)]
    assert held_out(ids, "triplet", Split("triplet", 7)) == {"shirt.val.0", "shirt.val.6"}


# --------------------------------------------------------------------------- content of the release


def test_the_split_is_drawn_after_the_filters(small_pairs: Database) -> None:
    release = with_split(small_pairs, HALF["triplet"], Filters(invalid=True))
    kept = [row["question_id"] for row in rows(release, "preferences")]
    assert len(kept) == 18
    assert [row["question_id"] for row in rows(release, "splits")] == kept


def test_card_and_manifest_describe_a_split_if_there_is_one(small_pairs: Database) -> None:
    release = with_split(small_pairs, HALF["both"])
    card = release.files["README.md"].decode()
    assert "By both, test share 0.5, seed 1; held out: 5 triplets, 2 participants." in card
    for part, count in facts_of(release)["n"].items():
        assert f"| {part} | {count} |\n" in card
    without = release_of(small_pairs)
    assert "split" not in json.loads(without.files["manifest.json"])
    assert not [name for name in without.files if name.startswith("splits")]
    assert b"splits" not in without.files["README.md"] + without.files["croissant.json"]


def test_equal_options_give_equal_content_and_others_do_not(small_pairs: Database) -> None:
    # With shares of 0.5 and 0.51 the same triplets are held out: what was asked for counts.
    others = (None, *HALF.values(), Split("triplet", 2, 0.5), Split("triplet", 1, 0.51))
    digests = [with_split(small_pairs, split).content_sha256 for split in others]
    assert len(set(digests)) == 6
    for split in HALF.values():
        assert with_split(small_pairs, split).files == with_split(small_pairs, split).files


# ------------------------------------------------------------------------------------ the command

HALVED = ("export", "--release", "hp", "--split", "triplet", "--test-share", "0.5")


@pytest.mark.usefixtures("in_folder")
def test_export_writes_and_reports_the_split() -> None:
    (release,) = hsfiq(*HALVED, "--split-seed", "3", "--json").result["releases"]
    assert (release["split"]["seed"], release["split"]["test_share"]) == (3, 0.5)
    manifest = json.loads(Path(release["folder"], "manifest.json").read_text())
    assert release["split"] == manifest["split"]
    verify_no_leak(Path(release["folder"]))
    repeated = hsfiq(*HALVED, "--split-seed", "3")
    assert "unchanged; nothing was written" in repeated.out
    assert "  split by triplet\n    train" in repeated.out
    other = hsfiq(*HALVED, "--split-seed", "1")
    assert (other.code, other.out, "filters or split" in other.err) == (2, "", True)
    assert hsfiq(*HALVED, "--split-seed", "1", "--version", "1.1.0").code == 0


@pytest.mark.usefixtures("in_folder")
def test_refusals_are_one_line() -> None:
    for options, code, message in (
        (("--split-seed", "1"), 2, "--split-seed: needs --split"),
        (("--test-share", "0.2"), 2, "--test-share: needs --split"),
        (("--split", "both", "--test-share", "1"), 2, "--test-share: 1.0"),
        (("--split", "triplet", "--test-share", "nan"), 2, "--test-share: nan"),
        (("--split", "query"), 2, "--split"),
        (("--split", "participant"), 1, "--test-share: 0.2 of 2 participants"),
    ):
        command = hsfiq("export", *options)
        assert (command.code, command.out, command.err.count("\n")) == (code, "", 1)
        assert message in command.err
    assert not Path("releases").exists()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2, 2.0, float("nan"), float("inf")])
def test_invalid_shares_are_refused(share: float) -> None:
    with pytest.raises(UnreadableInput, match="between 0 and 1"):
        Split("triplet", 0, share)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (Split("triplet", 0, 0.5), "--split triplet: a split needs at least two triplets"),
        (Split("participant", 0, 0.01), "--test-share: 0.01 of 3 participants leaves none to test"),
        (Split("participant", 0, 0.99), "--test-share: 0.99 of 3 participants leaves none to tr"),
        (Split("both", 0, 0.5), "--split both: a split needs at least two triplets"),
    ],
)
def test_too_little_to_split(split: Split, message: str) -> None:
    """One triplet in three queries, judged by three participants."""
    of_one = [
        bare_question(f"p{n}", n, "a.val.0", suffix) for n, suffix in enumerate(["", "~", "#1"])
    ]
    with pytest.raises(NothingToDo) as error_info:
        draw_split([QuestionRows(of_one)], split)
    assert str(error_info.value).startswith(message)


def test_a_part_that_would_be_empty() -> None:
    """Two participants judge one triplet each: some draws hold out one's triplet and the other."""
    questions = QuestionRows(bare_question(f"p{n}", 0, f"a.val.{n}") for n in (0, 1))
    outcomes: set[str] = set()
    for seed in range(20):
        try:
            drawn = draw_split([questions], Split("both", seed, 0.5))
            counts = Counter(drawn.parts_of(questions))
            drawn.summary(counts)
            outcomes.update(counts)
        except NothingToDo as refusal:
            outcomes.add(str(refusal).partition(";")[0])
    assert outcomes == {"train", "test", "--split both: no question is left for train"}


# -------------------------------------------------------------------------------------------- leaks

Write = Callable[[SplitBy], Path]


@pytest.fixture
def write(small_pairs: Database, tmp_path: Path) -> Write:
    """Write the study's release with a split; its folder."""

    def write_split(unit: SplitBy) -> Path:
        write_folder(tmp_path / unit, with_split(small_pairs, HALF[unit]).files)
        return tmp_path / unit

    return write_split


def table(folder: Path, name: str) -> Rows:
    rows: Rows = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return rows


def replant(folder: Path, name: str, change: Change) -> None:
    """Rewrite a table of the release with its rows changed."""
    path = folder / f"{name}.parquet"
    schema, rows = pq.read_schema(path), table(folder, name)
    change(rows)
    nullable = pa.schema([pa.field(field.name, field.type) for field in schema])
    pq.write_table(pa.Table.from_pylist(rows, schema=nullable), path)


def set_part(question_id: str, part: str) -> Change:
    """Put a question into a part."""

    def change(rows: Rows) -> None:
        (row,) = [row for row in rows if row["question_id"] == question_id]
        row["part"] = part

    return change


def reversed_in(folder: Path, part: str) -> tuple[str, str]:
    """A question of a part about a triplet with reversed captions, and its query."""
    parts = verify_no_leak(folder)
    return next(
        (row["question_id"], row["query_id"])
        for row in table(folder, "preferences")
        if row["query_id"].endswith("~") and parts[row["question_id"]] == part
    )


def test_a_drawn_split_has_no_leak(write: Write) -> None:
    for unit in HALF:
        folder = write(unit)
        expected = {row["question_id"]: row["part"] for row in table(folder, "splits")}
        assert verify_no_leak(folder) == expected


def test_a_leaked_triplet_is_refused(write: Write) -> None:
    """A question about a held-out triplet, with reversed captions, is moved to train."""
    folder = write("triplet")
    question, query = reversed_in(folder, "test")
    replant(folder, "splits", set_part(question, "train"))
    with pytest.raises(HsfiqError) as error_info:
        verify_no_leak(folder)
    named = f"triplet {query.removesuffix('~')} leaks: question {question} is in train, question "
    assert named in str(error_info.value)
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize("spelled", ["{}~", "{}#2", "another"])
def test_a_triplet_is_also_identified_by_its_queries(write: Write, spelled: str) -> None:
    """The reversed query gets another triplet id, and its question is moved to the other part."""
    folder = write("triplet")
    parts = verify_no_leak(folder)
    question, query = reversed_in(folder, "train")

    def rename(rows: Rows) -> None:
        (row,) = [row for row in rows if row["query_id"] == query]
        row["triplet_id"] = spelled.format(row["triplet_id"])

    replant(folder, "queries", rename)
    assert verify_no_leak(folder) == parts
    replant(folder, "splits", set_part(question, "test"))
    with pytest.raises(HsfiqError, match=f"triplet {query[:-1]} leaks"):
        verify_no_leak(folder)


@pytest.mark.parametrize("unit", ["participant", "both"])
def test_every_leak_is_refused(write: Write, unit: SplitBy) -> None:
    """Each question is moved to each part: refused exactly if the tables then leak."""
    folder = write(unit)
    before = (folder / "splits.parquet").read_bytes()
    leaks = set()
    for question in verify_no_leak(folder):
        for part in ("train", "test"):
            (folder / "splits.parquet").write_bytes(before)
            replant(folder, "splits", set_part(question, part))
            parts = units(partial(table, folder))
            leaking = {
                f"{name} {id_}"
                for number, name in enumerate(("triplet", "participant"))
                if unit in (name, "both")
                for id_ in parts["train"][number] & parts["test"][number]
            }
            if not leaking:
                verify_no_leak(folder)
                continue
            with pytest.raises(HsfiqError) as error_info:
                verify_no_leak(folder)
            named = str(error_info.value).split(": ")[1].removesuffix(" leaks")
            assert named in leaking
            leaks.add(named.split(" ")[0])
    assert leaks == ({"triplet", "participant"} if unit == "both" else {"participant"})


def test_a_split_that_does_not_fit_its_release(write: Write) -> None:
    folder = write("triplet")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    first = table(folder, "splits")[0]["question_id"]
    changes: list[tuple[str, Change, str]] = [
        ("splits", lambda rows: rows.pop(0), f"lacks question {first}"),
        ("splits", lambda rows: rows.append(rows[0]), f"question_id occurs twice: {first}"),
        ("splits", set_part(first, "dev"), f"part is dev in question {first}"),
        ("splits", lambda rows: rows[0].update(part=None), "column part is null in row 1"),
        ("preferences", lambda rows: rows.pop(0), f"{first} is not in the release"),
        ("queries", lambda rows: rows.clear(), "lacks query shirt.val."),
    ]
    for name, change, message in changes:
        replant(folder, name, change)
        with pytest.raises(UnreadableInput, match=message):
            verify_no_leak(folder)
        (folder / f"{name}.parquet").write_bytes(before[f"{name}.parquet"])


def test_a_split_that_cannot_be_read(write: Write, small_pairs: Database, tmp_path: Path) -> None:
    folder = write("triplet")
    pq.write_table(pa.table({"question_id": ["a"]}), folder / "splits.parquet")
    with pytest.raises(UnreadableInput, match=r"splits\.parquet: "):
        verify_no_leak(folder)
    (folder / "splits.parquet").write_bytes(b"PAR1")
    with pytest.raises(UnreadableInput, match=r"splits\.parquet: cannot be read"):
        verify_no_leak(folder)
    (folder / "splits.parquet").unlink()
    with pytest.raises(UnreadableInput, match=r"splits\.parquet: there is no such file"):
        verify_no_leak(folder)
    write_folder(tmp_path / "whole", release_of(small_pairs).files)
    with pytest.raises(UnreadableInput, match=r"manifest\.json: describes no split"):
        verify_no_leak(tmp_path / "whole")
