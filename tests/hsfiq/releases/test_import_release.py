"""`hsfiq import release`: study -> release -> import -> release is the same release.

So it is with layouts, images, splits, parts left out, and questions dropped before the import.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from PIL import Image as Picture
from sqlalchemy import select

from hsfiq.annotate.leaderboard import standings_of
from hsfiq.answer_rules import ImageStates
from hsfiq.collect.owner import forget
from hsfiq.collect.participants import by_name
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import SearchTurn, SearchUpload
from hsfiq.db.source_tables import Dataset, Image
from hsfiq.db.tables import Participant, QuestionnaireAnswers
from hsfiq.errors import NothingToDo
from hsfiq.releases.import_release import open_valid, restore
from hsfiq.releases.layouts.layouts import Extras
from hsfiq.releases.splits import Split
from hsfiq.study.config import Checks, Design, Questionnaire
from hsfiq.study.design import draw_study
from hsfiq.study.filters import Filters
from hsfiq.study.instrument import ExtraQuestion
from hsfiq.study.publication import Publication, without_answers_of
from tests.databases import ReusedPostgres
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.releases.random_searches import random_searches
from tests.hsfiq.releases.small_releases import (
    WITHOUT_SUMS,
    OnDisk,
    imported,
    only_study,
    small_release,
    small_study_at,
    write_release,
)
from tests.hsfiq.samples import HPFIQ, hsfiq, new_database
from tests.studies import NOW, Seat, config, make_queries, pair_answer, set_status

KINDS = {"pair": "hp", "single": "single", "ranking": "ranking", "images": "images",
         "query": "query", "search": "search", "arena": "arena"}  # fmt: skip
ASKED = (
    ExtraQuestion("sure", "scale", "How sure are you?", ("not at all", "very")),
    ExtraQuestion("why", "choices", "What decided?", ("colour", "shape", "logo"), other=True),
    ExtraQuestion("seconds", "number", "How long did it feel?", min=0, max=60),
    ExtraQuestion("words", "text", "Anything else?"),
)


def released_again(before: Path, database: Database, folder: Path, filters: Filters) -> Path:
    """Import a release, and export the study."""
    opened = open_valid(before)
    with database.writing() as session:
        restore(session, opened)
    kind = opened.kind.name
    return write_release(database, only_study(database), kind, folder, filters=filters)


def manifest_of(release: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    return manifest


def require_same(before: Path, after: Path) -> None:
    """All files have the same bytes, and the manifest says only where the study comes from."""
    first, second = (
        {path.name: path.read_bytes() for path in folder.iterdir()} for folder in (before, after)
    )
    assert first | {"manifest.json": b""} == second | {"manifest.json": b""}
    source = manifest_of(after)["imported_from"]
    assert source == {name: manifest_of(before)[name] for name in source}
    assert manifest_of(after) == manifest_of(before) | {"imported_from": source}


@pytest.mark.parametrize("question_kind", KINDS)
def test_every_kind_comes_back(question_kind: str, database: Database, tmp_path: Path) -> None:
    own, study = small_study_at(tmp_path / "own.db", question_kind)
    before = write_release(own, study, KINDS[question_kind], tmp_path / "before")
    own.close()
    require_same(before, released_again(before, database, tmp_path / "after", Filters()))


@pytest.mark.parametrize("kind", ["search", "arena"])
@settings(max_examples=4)
@given(data=st.data())
def test_random_searches_come_back(kind: str, data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        own = new_database(folder / "own.db")
        study = random_searches(own, kind, data)
        try:
            before = write_release(own, study, kind, folder / "before")
        except NothingToDo:  # nobody has begun a search
            reject()
        finally:
            own.close()
        target = new_database(folder / "other.db")
        after = released_again(before, target, folder / "after", Filters())
        target.close()
        require_same(before, after)


def rich_study(database: Database) -> int:
    """Of pairs with shuffled images, sums, repeated questions and extra questions; ties allowed."""
    queries = make_queries(database, {"shirt": 12, "dress": 12}, length=4, separate=True)
    design = Design(
        k=3, questions_per_form=3, forms_per_participant=2, annotators_per_query=2,
        image_order="shuffled", preference_ties=True, seed=3,
    )  # fmt: skip
    wanted = replace(
        config(design, checks=Checks(arithmetic=True, repeated=1)),
        questionnaire=Questionnaire(after_each=ASKED),
    )
    with database.writing() as session:
        return draw_study(session, wanted, queries).id


ANSWERS = st.fixed_dictionaries(
    {
        "score_1": st.integers(1, 5),
        "score_2": st.integers(1, 5),
        "preferred": st.integers(0, 2),
        "irrelevant": st.booleans(),
        "reason": st.none()
        | st.text(
            st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=3, max_size=9
        ),
    }
)
STATES = st.sampled_from(["unloaded", "loaded", "shown", "enlarged"])


def answer_at_random(data: st.DataObject, database: Database) -> int:
    """A study that two people have answered; its key."""
    study = rich_study(database)
    for _ in range(2):
        seat = Seat.taken(database, study)
        while (step := seat.standing().current) is not None:
            if step.check_id is not None:
                for _ in range(data.draw(st.integers(0, 2))):
                    seat.try_check(step.check_id, "wrong")
                seat.pass_check(step.check_id)
                continue
            states = [data.draw(STATES) for _ in range(7)]
            images = ImageStates(states[0], (tuple(states[1:4]), tuple(states[4:7])))
            extra = {"sure": data.draw(st.sampled_from([1, 2, None])), "why": [1, "price"],
                     "seconds": 2.5, "words": "fine"}  # fmt: skip
            answer = pair_answer(**data.draw(ANSWERS), images=images, extra=extra)
            seat.submit(step.question_id, answer)
    set_status(database, study, "closed")
    return study


def require_that_it_comes_back(
    data: st.DataObject, opened: Callable[[str], AbstractContextManager[Database]]
) -> None:
    """`opened` opens an empty database; its argument is a name."""
    filters = Filters(invalid=data.draw(st.booleans()), failed_checks=data.draw(st.booleans()))
    with TemporaryDirectory() as name:
        folder = Path(name)
        with opened("own") as own:
            study = answer_at_random(data, own)
            try:
                before = write_release(own, study, "hp", folder / "before", filters=filters)
            except NothingToDo:  # every question was dropped
                reject()
        with opened("other") as target:
            after = released_again(before, target, folder / "after", filters)
        require_same(before, after)


@settings(max_examples=6)
@given(data=st.data())
def test_random_answers_come_back(data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        require_that_it_comes_back(
            data, lambda database: closing(new_database(Path(name) / f"{database}.db"))
        )


@pytest.mark.postgres
@settings(max_examples=2)
@given(data=st.data())
def test_random_answers_come_back_in_postgresql(
    reused_postgres: ReusedPostgres, data: st.DataObject
) -> None:
    """The study, and the one that its release is imported as, are both in PostgreSQL."""

    @contextmanager
    def opened(_name: str) -> Iterator[Database]:
        try:
            yield Database(reused_postgres.engine)
        finally:
            reused_postgres.clean()

    require_that_it_comes_back(data, opened)


def test_an_imported_arena_is_finished_and_has_its_leaderboard(tmp_path: Path) -> None:
    own, study = small_study_at(tmp_path / "own.db", "arena")
    before = write_release(own, study, "arena", tmp_path / "before")
    other = imported(before, tmp_path / "other.db")
    with other.reading() as session:
        assert set(session.scalars(select(SearchTurn.language))) == {None}
        assert session.scalars(select(SearchUpload)).all() == []
    first, second = standings_of(own, study), standings_of(other, only_study(other))
    assert first.arena is not None
    assert str(first.arena) == str(second.arena)  # NaN is not NaN
    own.close()
    other.close()
    url = f"sqlite:///{tmp_path / 'other.db'}"
    opened = hsfiq("study", "open", "--study", "arena", "--database", url)
    assert opened.code != 0
    assert "cannot accept more" in opened.err


def test_the_published_file_comes_back_by_command(database: Database, tmp_path: Path) -> None:
    write_imported_answers(tmp_path / "own.db")
    url = f"sqlite:///{tmp_path / 'own.db'}"
    other = f"sqlite:///{tmp_path / 'other.db'}"
    before, after = tmp_path / "before", tmp_path / "after"
    assert hsfiq("export", "--database", url, "--release", "hp", "--out", before).code == 0
    imported = hsfiq("import", "release", before, "--database", other)
    assert imported.code == 0, imported.err
    assert hsfiq("export", "--database", other, "--release", "hp", "--out", after).code == 0
    require_same(before, after)
    assert (after / "hpfiq.json").read_bytes() == HPFIQ.read_bytes()
    again = hsfiq("import", "release", before, "--database", other, "--json")
    assert again.code == 0
    refused = hsfiq("import", "release", before, "--database", url)
    assert refused.code == 2
    assert "already exists with other answers" in refused.err


def test_broken_and_older_releases_are_refused(tmp_path: Path) -> None:
    query = small_release("query", tmp_path / "query")
    arena = small_release("arena", tmp_path / "arena")
    (query.folder / "queries.jsonl").unlink()
    url = f"sqlite:///{tmp_path / 'new.db'}"
    broken = hsfiq("import", "release", query.folder, "--database", url)
    assert (broken.code, "queries.jsonl: is missing" in broken.err) == (1, True)
    arena.json("manifest.json", lambda manifest: manifest.pop("retrievers"))
    refused = hsfiq("import", "release", arena.folder, "--database", url)
    assert (refused.code, "does not describe the retrievers" in refused.err) == (2, True)
    assert not (tmp_path / "new.db").exists()


# ------------------------------------------------------- what was dropped before the import counts

INVALID = Filters(invalid=True)
EXCLUDED, FLAGGED = "p2", "p1"


@pytest.fixture
def original(tmp_path: Path) -> Iterator[Database]:
    """The small study of pairs: p1 flagged a question, and p2 is excluded."""
    database, _ = small_study_at(tmp_path / "original.db", "pair")
    with database.writing() as session:
        people = select(Participant).where(Participant.name == EXCLUDED)
        session.scalars(people).one().status = "excluded"
    yield database
    database.close()


def exported(database: Database, folder: Path, filters: Filters) -> Path:
    return write_release(database, only_study(database), "hs", folder, filters=filters)


def exclusions(release: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(release / "exclusions.parquet").to_pylist()
    return sorted(rows, key=lambda row: str(row["question_id"]))


def require_same_answers(first: Path, second: Path) -> None:
    for table in ("preferences", "sets", "queries"):
        name = f"{table}.jsonl"
        assert (first / name).read_bytes() == (second / name).read_bytes(), table
    assert exclusions(first) == exclusions(second)
    assert manifest_of(first)["funnel"] == manifest_of(second)["funnel"]
    verified = hsfiq("release", "verify", second)
    assert (verified.code, verified.out) == (0, f"{second}: valid\n")


def test_a_filter_after_the_import_is_one_before_it(original: Database, tmp_path: Path) -> None:
    direct = exported(original, tmp_path / "direct", INVALID)
    assert {row["rule"] for row in exclusions(direct)} == {"excluded", "irrelevant"}
    everything = exported(original, tmp_path / "all", Filters())
    database = imported(everything, tmp_path / "imported.db")
    with database.reading() as session:
        (study,) = list_studies(session)
        assert by_name(session, study, EXCLUDED).status == "excluded"
    later = exported(database, tmp_path / "later", INVALID)
    database.close()
    require_same_answers(direct, later)
    figures = []
    for folder in (direct, later):
        analyzed = hsfiq("analyze", folder, "--metric", "recall@5", "--resamples", "50", "--json")
        assert analyzed.code == 0, analyzed.err
        figures.append(analyzed.result | {"release": None})
    assert figures[0] == figures[1]


@pytest.mark.parametrize("name", [EXCLUDED, FLAGGED])
def test_forgetting_covers_what_was_dropped_before_the_import(
    original: Database, tmp_path: Path, name: str
) -> None:
    before = exported(original, tmp_path / "before", INVALID)
    database = imported(before, tmp_path / "imported.db")
    released = []
    for number, each in enumerate((original, database)):
        with each.writing() as session:
            (study,) = list_studies(session)
            forget(session, by_name(session, study, name))
        released.append(exported(each, tmp_path / str(number), INVALID))
    database.close()
    require_same_answers(released[0], released[1])
    rules = {row["rule"] for row in exclusions(released[1]) if row["participant_id"] == name}
    assert rules == {"unanswered"}


def test_counts_that_were_not_recorded_stay_unknown() -> None:
    def row(person: str, *rules: str) -> dict[str, Any]:
        return {"participant_id": person, "question_id": f"{person}.f.0", "rule": rules[0],
                "value": "x", "rules": [*rules], "values": ["x"] * len(rules)}  # fmt: skip

    design = {"imported_release": {
        "exclusions": [row("p1", "check", "failed-checks"), row("p1", "failed-checks"),
                       row("p2", "unanswered")],
        "repeats": [{"participant_id": "p1"}, {"participant_id": "p2"}],
        "steps": [
            {"rule": "unanswered", "dropped": 1, "left": 2, "broken_by": 1},
            {"rule": "irrelevant", "dropped": None, "left": 2, "broken_by": None},
            {"rule": "check", "dropped": 1, "left": 1, "broken_by": 1},
            {"rule": "failed-checks", "dropped": 1, "left": 0, "broken_by": 2},
        ],
    }}  # fmt: skip
    changed = without_answers_of(design, "p1")["imported_release"]
    assert [each["rules"] for each in changed["exclusions"]] == [
        ["check", "unanswered"], ["unanswered"], ["unanswered"]
    ]  # fmt: skip
    assert [each["value"] for each in changed["exclusions"]] == ["x", "no response", "x"]
    assert changed["repeats"] == [{"participant_id": "p2"}]
    counts = [(each["dropped"], each["broken_by"]) for each in changed["steps"]]
    assert counts == [(2, 3), (None, None), (1, 1), (0, 0)]
    assert without_answers_of({"k": 1}, "p1") == {"k": 1}


# ------------------------------------------------------------------------------ options come back

QUESTIONS = Questionnaire(
    after_each=(ExtraQuestion("words", "text", "Anything else?"),),
    at_end=(ExtraQuestion("age", "number", "How old?"), ExtraQuestion("job", "text", "Your job?")),
)
SPLIT = Split("triplet", seed=1, test_share=0.5)
Groups = tuple[Database, Database]


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Groups]:
    """Two groups with the same questions; their answers and authors differ, not their licence."""
    folder = tmp_path_factory.mktemp("groups")
    ours, theirs = (new_database(folder / f"{name}.db") for name in ("ours", "theirs"))
    answered_study(ours, "ours", folder)
    answered_study(theirs, "theirs", folder)
    yield ours, theirs
    ours.close()
    theirs.close()


def answered_study(database: Database, name: str, images: Path) -> None:
    queries = make_queries(database, {"shirt": 8}, length=5)
    design = Design(questions_per_form=2, forms_per_participant=2, seed=1)
    wanted = replace(
        config(design, checks=WITHOUT_SUMS),
        questionnaire=QUESTIONS,
        release=Publication(licence="MIT", authors=(name,), date="2026-11-23"),
    )
    with database.writing() as session:
        key = draw_study(session, wanted, queries).id
        session.scalars(select(Dataset)).one().image_root = str(images)
        for image in sorted(session.scalars(select(Image.name)))[:-1]:
            Picture.new("RGB", (4, 4)).save(images / f"{image}.png")
    for person in range(2):
        seat = Seat.taken(database, key)
        for place, question in enumerate(seat.question_ids):
            score = 1 + (person + place + len(name)) % 4
            scores = (score, 5 - score, 1 if score > 2 else 2)
            reason, words = ("too dark", None) if place == 0 else (None, "fine")
            answer = pair_answer(*scores, place == 1, reason, extra={"words": words})
            seat.submit(question, answer)
        with database.writing() as session:
            session.add(QuestionnaireAnswers(
                participant_id=seat.participant_id, submitted_at=NOW,
                answers={"age": 30 + person, "job": "nurse"},
            ))  # fmt: skip
    set_status(database, key, "closed")


def with_options(
    database: Database, folder: Path, extras: Extras, split: Split | None = None
) -> Path:
    return write_release(database, only_study(database), "hp", folder, split, extras=extras)


@pytest.mark.parametrize(
    ("extras", "split"),
    [
        (Extras(layouts=("csv", "trl"), without=("texts",)), SPLIT),
        (Extras(layouts=("hpfiq",), without=("participant-answers",)), None),
        (Extras(without=("texts", "participant-answers")), SPLIT),
    ],
)
def test_the_same_options_give_the_same_files(
    groups: Groups, tmp_path: Path, extras: Extras, split: Split | None
) -> None:
    before = with_options(groups[0], tmp_path / "before", extras, split)
    database = imported(before, tmp_path / "imported.db")
    require_same(before, with_options(database, tmp_path / "after", extras, split))
    # What was left out stays left out if nobody asks for it.
    plain = replace(extras, without=())
    require_same(before, with_options(database, tmp_path / "plain", plain, split))
    database.close()
    assert manifest_of(before)["without"] == sorted(extras.without)
    assert "left out by the owner: " in (before / "README.md").read_text(encoding="utf-8")


def test_packed_images_are_asked_for_again(groups: Groups, tmp_path: Path) -> None:
    """The images' files are in no folder of the new database until somebody names one."""
    extras = Extras(layouts=("webdataset", "trl", "csv"), images=True)
    before = with_options(groups[0], tmp_path / "before", extras, SPLIT)
    assert hsfiq("release", "verify", before).code == 0
    url = f"sqlite:///{tmp_path / 'by-command.db'}"
    done = hsfiq("import", "release", before, "--database", url)
    assert (done.code, "packed images were not imported" in done.err) == (0, True)
    database = imported(before, tmp_path / "imported.db")
    with pytest.raises(NothingToDo, match="none of the"):
        with_options(database, tmp_path / "none", extras, SPLIT)
    with groups[0].reading() as session:
        root = session.scalars(select(Dataset.image_root)).one()
    with database.writing() as session:
        session.scalars(select(Dataset)).one().image_root = root
    require_same(before, with_options(database, tmp_path / "after", extras, SPLIT))
    database.close()


def test_the_release_says_how_alike_participants_are(groups: Groups, tmp_path: Path) -> None:
    release = OnDisk(with_options(groups[0], tmp_path / "release", Extras()))
    alike = {"table": "participant_answers", "fields": ["age"], "participants": 2, "k": 1,
             "unique": 2}  # fmt: skip
    assert manifest_of(release.folder)["k_anonymity"] == alike
    card = (release.folder / "README.md").read_text(encoding="utf-8")
    assert "answers to `age` in `participant_answers`" in card
    assert "has 1 of 2 (k = 1); 2 are unique" in card
    without = Extras(without=("participant-answers",))
    left_out = with_options(groups[0], tmp_path / "without", without)
    assert "k_anonymity" not in manifest_of(left_out)
    release.json("manifest.json", lambda manifest: manifest["k_anonymity"].update(k=2))
    verified = hsfiq("release", "verify", release.folder)
    assert verified.code == 1
    assert verified.out.startswith("manifest.json, k_anonymity: is {")
    release.json("manifest.json", lambda manifest: manifest.pop("k_anonymity"))
    verified = hsfiq("release", "verify", release.folder)
    assert (verified.code, "has no k_anonymity" in verified.out) == (0, True)


def test_merging_leaves_images_and_split_behind(groups: Groups, tmp_path: Path) -> None:
    extras = Extras(layouts=("csv", "trl"), images=True, without=("texts",))
    ours, theirs = (
        with_options(database, tmp_path / str(number), extras, SPLIT)
        for number, database in enumerate(groups)
    )
    merged = tmp_path / "merged"
    done = hsfiq("release", "merge", ours, theirs, "--out", merged)
    assert (done.code, "packed images are not in" in done.err) == (0, True)
    assert hsfiq("release", "verify", merged).code == 0
    manifest, own, other = map(manifest_of, (merged, ours, theirs))
    assert not {"images", "split", "layouts"} & manifest.keys()
    assert manifest["without"] == ["texts"]
    assert manifest["left_out"] == {
        what: n + other["left_out"][what] for what, n in own["left_out"].items()
    }
    assert manifest["rows"]["preferences"] == 2 * own["rows"]["preferences"]
    # Both stated the licence and the date, and each of them its own author.
    publication = manifest["publication"]
    assert (publication["licence"], publication["date"]) == ("MIT", "2026-11-23")
    assert publication["authors"] is None


def test_merging_what_lacks_texts_with_what_has_them_is_refused(
    groups: Groups, tmp_path: Path
) -> None:
    ours = with_options(groups[0], tmp_path / "ours", Extras(without=("texts",)))
    theirs = with_options(groups[1], tmp_path / "theirs", Extras())
    done = hsfiq("release", "merge", ours, theirs, "--out", tmp_path / "merged")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "without is None, but " in done.err
    assert not (tmp_path / "merged").exists()
