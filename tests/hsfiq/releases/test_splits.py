"""Splits by triplet, participant or both, drawn after the filters."""

from __future__ import annotations

import io
import json
from collections import Counter
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.db.engine import Database
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.kinds.rows import QueryRow, QuestionRow, RetrievedSetRow
from hsfiq.releases.content import Release
from hsfiq.releases.filters import Filters
from hsfiq.releases.splits import Split, draw_split, held_out
from tests.hsfiq.releases.slow_questions import QuestionRows
from tests.hsfiq.releases.split_releases import HALF, release_of, sides
from tests.hsfiq.samples import rows


def manifest_of(release: Release) -> Any:
    return json.loads(release.files["manifest.json"])


# -------------------------------------------------------------------------------------------- parts


def test_every_question_has_a_part_in_the_order_of_the_release(split_study: Database) -> None:
    for split in HALF.values():
        release = release_of(split_study, split)
        question_ids = [row["question_id"] for row in rows(release, "preferences")]
        assert [row["question_id"] for row in rows(release, "splits")] == question_ids
        assert len(question_ids) == 19


def test_with_split_by_triplet_both_caption_orders_are_in_one_part(split_study: Database) -> None:
    release = release_of(split_study, HALF["triplet"])
    parts = sides(partial(rows, release))
    assert set(parts) == {"train", "test"}
    assert parts["train"].triplets.isdisjoint(parts["test"].triplets)
    assert len(parts["test"].triplets) == 5
    assert manifest_of(release)["split"] == {
        "by": "triplet",
        "seed": 1,
        "test_share": 0.5,
        "n": {"train": 10, "test": 9, "unused": 0},
        "held_out_triplets": 5,
        "held_out_participants": 0,
    }


def test_with_split_by_participant_no_participant_is_in_both_parts(split_study: Database) -> None:
    release = release_of(split_study, HALF["participant"])
    parts = sides(partial(rows, release))
    assert set(parts) == {"train", "test"}
    assert parts["train"].participants.isdisjoint(parts["test"].participants)
    assert manifest_of(release)["split"]["held_out_participants"] == 2
    assert manifest_of(release)["split"]["n"] == {"train": 12, "test": 7, "unused": 0}


def test_with_split_by_both_the_parts_share_neither(split_study: Database) -> None:
    release = release_of(split_study, HALF["both"])
    parts = sides(partial(rows, release))
    assert set(parts) == {"train", "test", "unused"}
    assert parts["train"].triplets.isdisjoint(parts["test"].triplets)
    assert parts["train"].participants.isdisjoint(parts["test"].participants)
    facts = manifest_of(release)["split"]
    assert (facts["held_out_triplets"], facts["held_out_participants"]) == (5, 2)
    assert sum(facts["n"].values()) == 19


def question(participant: str, triplet: str, suffix: str, number: int) -> QuestionRow:
    """A question whose participant and triplet alone matter."""
    query = QueryRow(
        crc32(f"{triplet}{suffix}".encode()),
        triplet + suffix,
        triplet,
        "small",
        "",
        None,
        "r",
        "t",
        "is red",
        "is red",
        [],
    )
    retrieved = RetrievedSetRow(None, [])
    return QuestionRow(
        question_id=f"{participant}.form.{number}", participant_id=participant, form="form",
        category="", place=number, pair_id=f"{triplet}{suffix}/0", swapped=False, query=query,
        text="is red", sets=(retrieved, retrieved), orders=(None, None),
        participant_status="active", reassigned=False, check=None, skipped=None,
        score_1=None, score_2=None, preferred=None, irrelevant=False, reason=None, revision=0,
        served_at=None, first_interaction_at=None, submitted_at=None, active_seconds=None,
        failed_checks=None, images=None, text_version=None,
    )  # fmt: skip


questions = st.lists(
    st.tuples(
        st.sampled_from(["p1", "p2", "p3", "p4", "p5"]),
        st.sampled_from([f"shirt.val.{number}" for number in range(8)]),
        st.sampled_from(["", "~", "#1"]),
    ),
    min_size=1,
    max_size=40,
).map(lambda drawn: QuestionRows(question(*values, number) for number, values in enumerate(drawn)))


splits = st.builds(
    Split,
    st.sampled_from(["triplet", "participant", "both"]),
    st.integers(),
    st.floats(0.05, 0.95),
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


def test_the_split_is_drawn_after_the_filters(split_study: Database) -> None:
    release = release_of(split_study, HALF["triplet"], Filters(invalid=True))
    kept = [row["question_id"] for row in rows(release, "preferences")]
    assert len(kept) == 18
    assert [row["question_id"] for row in rows(release, "splits")] == kept


def test_card_croissant_and_manifest_describe_it(split_study: Database) -> None:
    release = release_of(split_study, HALF["both"])
    card = release.files["README.md"].decode()
    n = manifest_of(release)["split"]["n"]
    assert "- config_name: splits\n  data_files: splits.parquet\n" in card
    assert "By both, test share 0.5, seed 1; held out: 5 triplets, 2 participants." in card
    for part, count in n.items():
        assert f"| {part} | {count} |\n" in card
    croissant = json.loads(release.files["croissant.json"])
    assert "splits.parquet" in {file["name"] for file in croissant["distribution"]}
    (fields,) = [
        record_set["field"]
        for record_set in croissant["recordSet"]
        if record_set["name"] == "splits"
    ]
    assert [field["name"] for field in fields] == ["question_id", "part"]
    assert {"splits.parquet", "splits.jsonl"} <= set(manifest_of(release)["files"])
    parquet = pq.read_table(io.BytesIO(release.files["splits.parquet"])).to_pylist()
    assert parquet == rows(release, "splits")


def test_a_release_without_a_split_does_not_mention_one(split_study: Database) -> None:
    release = release_of(split_study)
    assert "split" not in manifest_of(release)
    assert not [name for name in release.files if name.startswith("splits")]
    assert b"splits" not in release.files["README.md"] + release.files["croissant.json"]


def test_equal_options_give_equal_content_and_others_do_not(split_study: Database) -> None:
    for split in HALF.values():
        assert release_of(split_study, split).files == release_of(split_study, split).files
    digests = [
        release_of(split_study, split).content_sha256
        for split in (
            None,
            *HALF.values(),
            Split("triplet", 2, 0.5),
            # The same triplets are held out as with 0.5: what was asked for counts.
            Split("triplet", 1, 0.51),
        )
    ]
    assert len(set(digests)) == 6


# ----------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2, 2.0, float("nan"), float("inf")])
def test_invalid_shares_are_refused(share: float) -> None:
    with pytest.raises(UnreadableInput, match="is not between 0 and 1"):
        Split("triplet", 0, share)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (Split("triplet", 0, 0.5), "--split triplet: a split needs two triplets, and there is one"),
        (
            Split("participant", 0, 0.01),
            "--test-share: 0.01 of 3 participants leaves none to test",
        ),
        (
            Split("participant", 0, 0.99),
            "--test-share: 0.99 of 3 participants leaves none to train",
        ),
        (Split("both", 0, 0.5), "--split both: a split needs two triplets"),
    ],
)
def test_too_little_to_split(split: Split, message: str) -> None:
    """One triplet in three queries, judged by three participants."""
    questions = QuestionRows(
        question(f"p{n}", "a.val.0", suffix, n) for n, suffix in enumerate(["", "~", "#1"])
    )
    with pytest.raises(NothingToDo) as error_info:
        draw_split([questions], split)
    assert str(error_info.value).startswith(message)


def test_a_part_that_would_be_empty() -> None:
    """Two participants judge one triplet each: some draws hold out one's triplet and the other."""
    questions = QuestionRows([question("p1", "a.val.0", "", 0), question("p2", "a.val.1", "", 0)])
    outcomes: set[str] = set()
    for seed in range(20):
        try:
            drawn = draw_split([questions], Split("both", seed, 0.5))
            counts = Counter(drawn.parts_of(questions))
            drawn.summary(counts)
            outcomes.update(counts)
        except NothingToDo as refusal:
            outcomes.add(str(refusal))
    message = "--split both: no question is left to {}; choose another --test-share or --split-seed"
    assert outcomes == {"train", "test", message.format("train")}
