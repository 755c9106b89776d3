"""The published HP-FashionIQ layout: import and export give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.importing import dataset_named, import_published, import_source
from hsfiq.readers import hpfiq
from hsfiq.records import Source, Triplet
from hsfiq.releases.content import Release, build
from hsfiq.study.filters import Filters
from tests.hsfiq.samples import (
    HPFIQ,
    import_fashioniq,
    import_hpfiq,
    release_of,
    rows,
)


def test_reading_and_writing_the_hand_made_file() -> None:
    study = hpfiq.read(HPFIQ)
    assert study.image_path == "/-/image_data/{category}/{name}.jpg"
    forms = [(form.participant, form.name, len(form.questions)) for form in study.forms]
    sizes = {("user_1", 1): 2, ("user_1", 2): 1, ("user_2", 1): 2, ("user_2", 2): 0}
    assert forms == [(user, f"question_set_{n}", size) for (user, n), size in sizes.items()]
    first = study.forms[0].questions[0]
    assert (first.reference, first.target) == ("ref_a", "tgt_a")
    assert first.sets[0] == ("tgt_a", "s1", "s2", "s3", "s4")
    assert list(first.answer.values.values()) == [4, 2, 1, None]
    assert json.dumps(hpfiq.write(study), indent=2).encode() == HPFIQ.read_bytes()


@pytest.mark.parametrize("with_fashioniq", [False, True])
def test_the_database_round_trip_is_byte_identical(
    database: Database, with_fashioniq: bool
) -> None:
    if with_fashioniq:
        import_fashioniq(database)
    import_hpfiq(database)
    assert release_of(database).files["hpfiq.json"] == HPFIQ.read_bytes()


def test_queries_are_named_by_fashioniq_and_by_their_captions_order(database: Database) -> None:
    import_fashioniq(database)
    import_hpfiq(database)
    queries = [(r["query_id"], r["text"]) for r in rows(release_of(database), "preferences")]
    assert queries == [
        ("shirt.val.0", "is red and has no collar"),
        ("shirt.val.1~", "is it darkerquestionmark and is longerdotmark"),
        ("shirt.val.0~", "has no collar and is red"),
        ("shirt.val.0", "is red  and has no collar"),
        ("shirt.val.1#1", "something else altogether"),
    ]


def test_without_fashioniq_they_are_named_by_their_images(database: Database) -> None:
    """The same two sets are one pair in either order."""
    import_hpfiq(database)
    preferences = rows(release_of(database), "preferences")
    assert [row["query_id"].removeprefix("shirt.hpfiq.") for row in preferences] == [
        *("ref_a.tgt_a#1", "ref_b.tgt_b#1", "ref_a.tgt_a#2", "ref_a.tgt_a#1", "ref_b.tgt_b#2")
    ]
    pairs = [(row["pair_id"], row["swapped"]) for row in preferences]
    assert pairs[0] == ("shirt.hpfiq.ref_a.tgt_a#1/0", False)
    assert pairs[3] == ("shirt.hpfiq.ref_a.tgt_a#1/0", True)


# ------------------------------------------------------------------------------- arbitrary files

few = settings(max_examples=30)
"""Each example is imported and exported three times."""

TRICKY = "ab1 .~#{}'\"\\%\n\tßé\N{LINE SEPARATOR}\N{DRESS}"
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
ids = st.text(st.sampled_from(TRICKY), min_size=1, max_size=6)
CAPTIONS = ("is red.", "has  no collar?")
sentences = texts | st.sampled_from(
    [
        *("is red. and has  no collar?", "is reddotmark and has no collarquestionmark"),
        *("has no collarquestionmark and is red.", "  is red.   and has no collar? "),
        *("andmark starmark", "is red. and has no collar"),
    ]
)


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    """Files of the layout: few images and texts, so that triplets, queries and sets repeat."""
    root = draw(
        st.sampled_from(["/-/image_data/", "", "images/", "/{x}/}{/", "https://e.org/a b/"])
    )
    extension = draw(st.sampled_from([".jpg", ".png", ".JPEG"]))
    categories = draw(st.lists(ids, min_size=1, max_size=2, unique=True))
    names = draw(st.lists(ids, min_size=2, max_size=5, unique=True))
    sets = [draw(st.lists(st.sampled_from(names), min_size=5, max_size=5)) for _ in range(3)]

    def path(category: str, name: str) -> str:
        return f"{root}{category}/{name}{extension}"

    def question_set() -> dict[str, list[Any]]:
        category = draw(st.sampled_from(categories))
        length = draw(st.integers(0, 4))

        def column(values: st.SearchStrategy[Any]) -> list[Any]:
            return draw(st.lists(values, min_size=length, max_size=length))

        image = st.sampled_from(names).map(lambda name: path(category, name))
        retrieved = st.builds(
            lambda chosen, score: {
                "img_path": [path(category, name) for name in chosen],
                "user_score": score,
            },
            st.sampled_from(sets),
            st.sampled_from("12345"),
        )
        columns = (image, image, sentences, retrieved, retrieved, st.sampled_from("12"))
        return dict(zip(hpfiq.KEYS, map(column, columns), strict=True))

    value = {
        user: {name: question_set() for name in draw(st.lists(ids, min_size=1, unique=True))}
        for user in draw(st.lists(ids, min_size=1, max_size=3, unique=True))
    }
    first = next(iter(value.values()))
    if not any(form["sentences"] for forms in value.values() for form in forms.values()):
        only = {"img_path": [path(categories[0], name) for name in sets[0]], "user_score": "3"}
        image_paths = [path(categories[0], names[0])]
        columns = (image_paths, image_paths, ["is red"], [only], [only], ["1"])
        first["filled"] = dict(zip(hpfiq.KEYS, columns, strict=True))
    return value


def read_value(value: Any, folder: Path) -> hpfiq.PublishedStudy:
    path = folder / "hpfiq.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return hpfiq.read(path)


def fashioniq_of(study: hpfiq.PublishedStudy) -> Source:
    """Every second triplet of the study, in FashionIQ's format."""
    unique_triplets = dict.fromkeys(
        (form.category, question.reference, question.target)
        for form in study.forms
        for question in form.questions
    )
    triplets = tuple(
        Triplet(f"fiq.val.{number}", reference, target, CAPTIONS, category, "val")
        for number, (category, reference, target) in enumerate(unique_triplets)
        if number % 2 == 0
    )
    return Source(Path("fiq"), "val", (), triplets)


@pytest.fixture(scope="module")
def scratch() -> Iterator[Database]:
    """A database in memory, which each test leaves empty."""
    database = open_database("sqlite://")
    yield database
    database.close()


def exported(scratch: Database, *steps: hpfiq.PublishedStudy | Source) -> Release:
    """The release after these imports, in a transaction that is never committed."""
    with Session(scratch.engine) as session:
        for step in steps:
            if isinstance(step, Source):
                import_source(session, dataset_named(session, "fashioniq"), step)
            else:
                import_published(session, "hpfiq", step)
        (study,) = list_studies(session)
        return build(session, study, "hp", Filters(), schema_revision="test")


@few
@given(value=files())
def test_any_file_survives_the_round_trip(
    value: Any, scratch: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    study = read_value(value, tmp_path_factory.getbasetemp())
    fashioniq = fashioniq_of(study)
    without_fashioniq = exported(scratch, study)
    after = exported(scratch, fashioniq, study)
    before = exported(scratch, study, fashioniq)
    for release in (without_fashioniq, after, before):
        written = json.loads(release.files["hpfiq.json"])
        assert written == value
        assert list(written) == list(value)
    # FashionIQ takes its triplets over: nothing tells which of the two came first.
    assert after.files == before.files
