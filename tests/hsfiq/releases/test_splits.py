"""Splits: drawn after the filters by triplet, participant or both, and nothing may leak."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.errors import HsfiqError, NothingToDo, UnreadableInput
from hsfiq.releases import Filters, Release, Split, build, write_release
from hsfiq.releases.rows import QueryRow, QuestionRow, RetrievedSetRow
from hsfiq.releases.splits import SplitBy, draw_split, held_out, verify_no_leak
from hsfiq.study.config import Design
from tests.hsfiq.samples import HPFIQ, hsfiq, rows
from tests.studies import OTHER, Seat, draw, make_queries, own_environment

HALF: dict[SplitBy, Split] = {
    unit: Split(unit, seed=1, test_share=0.5) for unit in ("triplet", "participant", "both")
}


@pytest.fixture(scope="module")
def study(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Ten triplets, their captions in either order, judged by five participants.

    Four questions each, three for the last: nobody meets a triplet twice. One question is flagged.
    """
    path = tmp_path_factory.mktemp("split") / "study.db"
    shutil.copyfile(migrated_sqlite, path)
    database = open_database(f"sqlite:///{path}")
    queries = make_queries(database, {"shirt": 10}, both_orders=True, length=5)
    key = draw(database, queries, Design(questions_per_form=2, forms_per_participant=2, seed=1))
    for number in range(5):
        seat = Seat.taken(database, key)
        if number == 0:
            seat.submit(seat.question_ids[0], OTHER)
        seat.answer_all()
    yield database
    database.close()


def release_of(
    database: Database, split: Split | None = None, filters: Filters | None = None
) -> Release:
    with database.reading() as session:
        (study,) = list_studies(session)
        return build(session, study, "hp", filters or Filters(), split, schema_revision="test")


def manifest_of(release: Release) -> Any:
    return json.loads(release.files["manifest.json"])


@dataclass
class Side:
    """What the questions of a part are about, and who answered them."""

    triplets: set[str]
    participants: set[str]


def sides(read: Callable[[str], list[dict[str, Any]]]) -> dict[str, Side]:
    """What `read` finds in the tables for each part, knowing nothing of how it was drawn."""
    triplets = {row["query_id"]: row["triplet_id"] for row in read("queries")}
    answered = {row["question_id"]: row for row in read("preferences")}
    by_part: dict[str, Side] = defaultdict(lambda: Side(set(), set()))
    for row in read("splits"):
        question = answered[row["question_id"]]
        by_part[row["part"]].triplets.add(triplets[question["query_id"]])
        by_part[row["part"]].participants.add(question["participant_id"])
    return by_part


# ---------------------------------------------------------------------------------- what is drawn


def test_every_question_of_the_release_has_a_part_in_its_order(study: Database) -> None:
    for split in HALF.values():
        release = release_of(study, split)
        question_ids = [row["question_id"] for row in rows(release, "preferences")]
        assert [row["question_id"] for row in rows(release, "splits")] == question_ids
        assert len(question_ids) == 19


def test_by_triplet_both_orders_of_the_captions_are_in_one_part(study: Database) -> None:
    release = release_of(study, HALF["triplet"])
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


def test_by_participant_nobody_is_in_both_parts(study: Database) -> None:
    release = release_of(study, HALF["participant"])
    parts = sides(partial(rows, release))
    assert set(parts) == {"train", "test"}
    assert parts["train"].participants.isdisjoint(parts["test"].participants)
    assert manifest_of(release)["split"]["held_out_participants"] == 2
    assert manifest_of(release)["split"]["n"] == {"train": 12, "test": 7, "unused": 0}


def test_by_both_train_and_test_share_neither(study: Database) -> None:
    release = release_of(study, HALF["both"])
    parts = sides(partial(rows, release))
    assert set(parts) == {"train", "test", "unused"}
    assert parts["train"].triplets.isdisjoint(parts["test"].triplets)
    assert parts["train"].participants.isdisjoint(parts["test"].participants)
    facts = manifest_of(release)["split"]
    assert (facts["held_out_triplets"], facts["held_out_participants"]) == (5, 2)
    assert sum(facts["n"].values()) == 19


def question(participant: str, triplet: str, suffix: str, number: int) -> QuestionRow:
    """A question of which only the participant and the triplet matter."""
    query = QueryRow(
        0, triplet + suffix, triplet, "small", "", None, "r", "t", "is red", "is red", []
    )
    retrieved = RetrievedSetRow(None, [])
    return QuestionRow(
        question_id=f"{participant}.form.{number}", participant_id=participant, form="form",
        category="", place=number, pair_id=f"{triplet}{suffix}/0", swapped=False, query=query,
        text="is red", sets=(retrieved, retrieved), orders=(None, None),
        participant_status="active", reassigned=False, check=None, skipped=None,
        score_1=None, score_2=None, preferred=None, irrelevant=False, reason=None, revision=0,
        served_at=None, first_interaction_at=None, submitted_at=None, active_seconds=None,
        failed_checks=None,
    )  # fmt: skip


questions = st.lists(
    st.tuples(
        st.sampled_from(["p1", "p2", "p3", "p4", "p5"]),
        st.sampled_from([f"shirt.val.{number}" for number in range(8)]),
        st.sampled_from(["", "~", "#1"]),
    ),
    min_size=1,
    max_size=40,
).map(lambda drawn: [question(*values, number) for number, values in enumerate(drawn)])
splits = st.builds(
    Split,
    st.sampled_from(["triplet", "participant", "both"]),
    st.integers(),
    st.floats(0.05, 0.95),
)


@given(questions, splits, st.randoms(use_true_random=False))
def test_the_parts_are_what_the_definition_says_in_any_order(
    questions: list[QuestionRow], split: Split, random: Random
) -> None:
    try:
        drawn = draw_split(questions, split)
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
        assert drawn.parts[row.question_id] == part
    assert {"train", "test"} <= set(drawn.parts.values())
    assert draw_split(random.sample(questions, len(questions)), split).parts == drawn.parts


@given(st.sets(st.integers(0, 500), min_size=10), st.integers(), st.data())
def test_a_study_that_grows_keeps_what_it_has_held_out(
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


def test_seeds_draw_different_splits_with_about_the_requested_shares() -> None:
    ids = [f"shirt.val.{number}" for number in range(1000)]
    drawn = {held_out(ids, "triplet", Split("triplet", seed)) for seed in range(20)}
    assert len(drawn) == 20
    assert {len(sample) for sample in drawn} == {200}
    # Each id is held out by one seed in five; 20 seeds x 1,000 ids, so 4,000 in all.
    counts = [sum(id_ in sample for sample in drawn) for id_ in ids]
    assert max(counts) <= 14


def test_the_draw_never_changes() -> None:
    """Whatever the version of Python: only `Random.random` is used, which promises it."""
    ids = [f"shirt.val.{number}" for number in range(10)]
    assert held_out(ids, "triplet", Split("triplet", 7)) == {"shirt.val.0", "shirt.val.6"}


# ---------------------------------------------------------------------------------- in the release


def test_the_split_is_drawn_after_the_filters(study: Database) -> None:
    release = release_of(study, HALF["triplet"], Filters(invalid=True))
    kept = [row["question_id"] for row in rows(release, "preferences")]
    assert len(kept) == 18
    assert [row["question_id"] for row in rows(release, "splits")] == kept


def test_card_croissant_and_manifest_describe_it(study: Database) -> None:
    release = release_of(study, HALF["both"])
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


def test_a_release_without_a_split_does_not_mention_one(study: Database) -> None:
    release = release_of(study)
    assert "split" not in manifest_of(release)
    assert not [name for name in release.files if name.startswith("splits")]
    assert b"splits" not in release.files["README.md"] + release.files["croissant.json"]


def test_same_options_same_bytes_and_other_options_other_content(study: Database) -> None:
    for split in HALF.values():
        assert release_of(study, split).files == release_of(study, split).files
    digests = [
        release_of(study, split).content_sha256
        for split in (
            None,
            *HALF.values(),
            Split("triplet", 2, 0.5),
            # The same triplets are held out as with 0.5: what was asked for counts.
            Split("triplet", 1, 0.51),
        )
    ]
    assert len(set(digests)) == 6


# --------------------------------------------------------------------------------------- refusals


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
    """One triplet in three spellings, judged by three."""
    questions = [
        question(f"p{n}", "a.val.0", suffix, n) for n, suffix in enumerate(["", "~", "#1"])
    ]
    with pytest.raises(NothingToDo) as error_info:
        draw_split(questions, split)
    assert str(error_info.value).startswith(message)


def test_a_part_that_would_be_empty() -> None:
    """Each of two judges a triplet of their own: some draws hold out one's and the other."""
    questions = [question("p1", "a.val.0", "", 0), question("p2", "a.val.1", "", 0)]
    outcomes: set[str] = set()
    for seed in range(20):
        try:
            outcomes.update(draw_split(questions, Split("both", seed, 0.5)).parts.values())
        except NothingToDo as refusal:
            outcomes.add(str(refusal))
    message = "--split both: no question is left to {}; choose another --test-share or --split-seed"
    assert outcomes == {"train", "test", message.format("train")}


# ------------------------------------------------------------------------------- nothing may leak


Change = Callable[[list[dict[str, Any]]], object]


def replant(folder: Path, name: str, change: Change) -> None:
    """Rewrite a table of the release with its rows changed."""
    path = folder / f"{name}.parquet"
    schema, rows = pq.read_schema(path), pq.read_table(path).to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


@pytest.fixture
def write(study: Database, tmp_path: Path) -> Callable[[SplitBy], Path]:
    """Write the study's release with a split; its folder."""
    return lambda unit: write_release(release_of(study, HALF[unit]), tmp_path / unit).folder


def set_part(question_id: str, part: str) -> Change:
    """Put a question into a part."""

    def change(rows: list[dict[str, Any]]) -> None:
        (row,) = [row for row in rows if row["question_id"] == question_id]
        row["part"] = part

    return change


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return rows


def test_a_drawn_split_has_no_leak(write: Callable[[SplitBy], Path]) -> None:
    for unit in HALF:
        folder = write(unit)
        expected = {row["question_id"]: row["part"] for row in table(folder, "splits")}
        assert verify_no_leak(folder) == expected


def test_a_planted_triplet_fails_loudly(write: Callable[[SplitBy], Path]) -> None:
    """A question about a held-out triplet with its captions in the other order goes to train."""
    folder = write("triplet")
    parts = verify_no_leak(folder)
    planted = next(
        row
        for row in table(folder, "preferences")
        if row["query_id"].endswith("~") and parts[row["question_id"]] == "test"
    )
    replant(folder, "splits", set_part(planted["question_id"], "train"))
    with pytest.raises(HsfiqError) as error_info:
        verify_no_leak(folder)
    triplet = planted["query_id"].removesuffix("~")
    assert f"triplet {triplet} leaks: question {planted['question_id']} is in train, question " in (
        str(error_info.value)
    )
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize("spelled", ["{}~", "{}#2", "another"])
def test_a_triplet_is_also_identified_by_its_queries(
    write: Callable[[SplitBy], Path], spelled: str
) -> None:
    """The reversed query claims a triplet of its own, and its question goes to the other part."""
    folder = write("triplet")
    parts = verify_no_leak(folder)
    question, query = next(
        (row["question_id"], row["query_id"])
        for row in table(folder, "preferences")
        if row["query_id"].endswith("~") and parts[row["question_id"]] == "train"
    )

    def rename(rows: list[dict[str, Any]]) -> None:
        (row,) = [row for row in rows if row["query_id"] == query]
        row["triplet_id"] = spelled.format(row["triplet_id"])

    replant(folder, "queries", rename)
    assert verify_no_leak(folder) == parts
    replant(folder, "splits", set_part(question, "test"))
    with pytest.raises(HsfiqError, match=f"triplet {query[:-1]} leaks"):
        verify_no_leak(folder)


def test_a_planted_participant_fails_loudly(write: Callable[[SplitBy], Path]) -> None:
    folder = write("participant")
    parts = verify_no_leak(folder)
    planted = next(
        row for row in table(folder, "preferences") if parts[row["question_id"]] == "train"
    )
    replant(folder, "splits", set_part(planted["question_id"], "test"))
    with pytest.raises(HsfiqError, match=f"participant {planted['participant_id']} leaks"):
        verify_no_leak(folder)


def test_by_both_a_triplet_and_a_participant_each_fail(write: Callable[[SplitBy], Path]) -> None:
    """Each question goes to each part: exactly what leaks by the tables is refused."""
    folder = write("both")
    before = (folder / "splits.parquet").read_bytes()
    leaks = set()
    for question in verify_no_leak(folder):
        for part in ("train", "test"):
            (folder / "splits.parquet").write_bytes(before)
            replant(folder, "splits", set_part(question, part))
            by_part = sides(partial(table, folder))
            leaking = {
                f"triplet {id_}" for id_ in by_part["train"].triplets & by_part["test"].triplets
            } | {
                f"participant {id_}"
                for id_ in by_part["train"].participants & by_part["test"].participants
            }
            if not leaking:
                verify_no_leak(folder)
                continue
            with pytest.raises(HsfiqError) as error_info:
                verify_no_leak(folder)
            named = str(error_info.value).split(": ")[1].removesuffix(" leaks")
            assert named in leaking
            leaks.add(named.split(" ")[0])
    assert leaks == {"triplet", "participant"}


def test_a_split_that_does_not_fit_its_release(write: Callable[[SplitBy], Path]) -> None:
    folder = write("triplet")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    first = table(folder, "splits")[0]["question_id"]
    changes: list[tuple[str, Change, str]] = [
        ("splits", lambda rows: rows.pop(0), f"lacks question {first}"),
        ("splits", lambda rows: rows.append(rows[0]), f"holds question {first} twice"),
        ("splits", set_part(first, "dev"), f"question {first} has part 'dev'"),
        ("splits", lambda rows: rows[0].update(part=None), "column part holds nulls"),
        ("preferences", lambda rows: rows.pop(0), f"{first} is not in the release"),
        ("queries", lambda rows: rows.clear(), "lacks query shirt.val."),
    ]
    for name, change, message in changes:
        replant(folder, name, change)
        with pytest.raises(UnreadableInput, match=message):
            verify_no_leak(folder)
        (folder / f"{name}.parquet").write_bytes(before[f"{name}.parquet"])


def test_a_split_that_cannot_be_read(write: Callable[[SplitBy], Path], study: Database) -> None:
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
    intact = write_release(release_of(study), folder.parent / "whole").folder
    with pytest.raises(UnreadableInput, match=r"manifest\.json: describes no split"):
        verify_no_leak(intact)


# ------------------------------------------------------------------------------------ the command


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test starts in a folder that holds a database with the hand-made study."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    assert hsfiq("import", "hpfiq", HPFIQ).code == 0


HALVED = ("export", "--release", "hp", "--split", "triplet", "--test-share", "0.5")


@pytest.mark.usefixtures("in_folder")
def test_export_writes_and_reports_the_split() -> None:
    command = hsfiq(*HALVED, "--split-seed", "3", "--json")
    (release,) = command.result["releases"]
    manifest = json.loads(Path(release["folder"], "manifest.json").read_text())
    assert release["split"] == manifest["split"]
    assert (release["split"]["seed"], release["split"]["test_share"]) == (3, 0.5)
    verify_no_leak(Path(release["folder"]))
    repeated = hsfiq(*HALVED, "--split-seed", "3")
    assert "unchanged, nothing written" in repeated.out
    assert "  split by triplet\n    train" in repeated.out


@pytest.mark.usefixtures("in_folder")
def test_another_split_is_changed_content() -> None:
    assert hsfiq("export", "--release", "hp").code == 0
    command = hsfiq(*HALVED)
    assert (command.code, command.out) == (2, "")
    assert "the answers, filters or split have changed since this release" in command.err
    assert hsfiq(*HALVED, "--version", "1.1.0").code == 0
    assert hsfiq(*HALVED).code == 0
    assert hsfiq(*HALVED, "--split-seed", "1").code == 2


@pytest.mark.usefixtures("in_folder")
def test_refusals_are_one_line() -> None:
    for options, code, message in (
        (("--split-seed", "1"), 2, "--split-seed: needs --split; give --split as well"),
        (("--test-share", "0.2"), 2, "--test-share: needs --split; give --split as well"),
        (("--split", "both", "--test-share", "1"), 2, "--test-share: 1.0 is not between"),
        (("--split", "triplet", "--test-share", "nan"), 2, "--test-share: nan is not between"),
        (("--split", "query"), 2, "--split"),
        (("--split", "participant"), 1, "--test-share: 0.2 of 2 participants leaves none to test"),
    ):
        command = hsfiq("export", *options)
        assert (command.code, command.out, command.err.count("\n")) == (code, "", 1)
        assert message in command.err
    assert not Path("releases").exists()


@pytest.mark.usefixtures("in_folder")
def test_every_process_draws_the_same() -> None:
    subprocess.run(
        [sys.executable, "-m", "hsfiq", *HALVED, "--out", "there"],
        env=own_environment(PYTHONHASHSEED="1"),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert hsfiq(*HALVED, "--out", "here").code == 0
    first, second = (
        {path.name: path.read_bytes() for path in Path(place).iterdir()}
        for place in ("there", "here")
    )
    assert "splits.parquet" in first
    assert first == second


# --------------------------------------------------------------------------- the published answers


@pytest.mark.shared
def test_repeated_published_triplets_stay_in_one_part(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    source = shared / "data" / "hpfiq" / "hpfiq_users_1_40.json"
    assert hsfiq("import", "hpfiq", source).code == 0
    assert hsfiq("export", "--release", "hp", "--split", "triplet", "--out", "mine").code == 0
    parts = verify_no_leak(Path("mine"))
    # By the file's own images and captions, knowing nothing of ids of triplets or queries.
    images, texts = defaultdict(list), defaultdict(set)
    for user, forms in json.loads(source.read_bytes()).items():
        for name, form in forms.items():
            for place, (reference, target, text) in enumerate(
                zip(form["ref_img_paths"], form["targ_img_paths"], form["sentences"], strict=True)
            ):
                part = parts[f"{user}.{name}.{place}"]
                images[reference, target].append(part)
                texts[reference, tuple(sorted(text.lower().split()))].add(part)
    repeated = [parts for parts in images.values() if len(parts) == 2]
    assert (len(images), len(repeated)) == (1710, 290)
    assert all(len(set(parts)) == 1 for parts in images.values())
    assert all(len(parts) == 1 for parts in texts.values())
    assert sum(parts[0] == "test" for parts in images.values()) == 342
