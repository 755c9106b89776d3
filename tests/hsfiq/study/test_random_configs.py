"""Random study.toml files: each is refused with line and remedy, or its planned counts hold.

200 files by default; `HSFIQ_STUDY_FILES=1000` checks as many.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from math import comb
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Dataset, Image, Query
from hsfiq.db.tables import Check, Form, Pair, PracticeQuestion, Question, RetrievedSet, Study
from hsfiq.errors import ConfigError, ConfigErrors
from hsfiq.kinds import KINDS
from hsfiq.study.capacity import (
    Capacity,
    capacity_of,
    planned_judgements,
    recruited,
    require_enough_forms,
)
from hsfiq.study.config import StudyConfig, config_of, n_sets_of
from hsfiq.study.config_file import OPTIONS, located, read_config
from hsfiq.study.design import chosen_queries, draw_study
from hsfiq.study.extension import MoreAnnotators, extend_study
from tests.databases import migrated_sqlite
from tests.studies import NOW, make_queries

N_FILES = int(os.environ.get("HSFIQ_STUDY_FILES", "200"))

TRIPLETS = {"dress": 12, "shirt": 17}
SYSTEMS = ("A", "B", "C")


class Undo(Exception):
    """Rolls the study back, so that all files use one database."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Path]]:
    """Twenty-nine triplets, their captions in either order, with lists of four images."""
    folder = tmp_path_factory.mktemp("random")
    (folder / "study.db").write_bytes(migrated_sqlite())
    database = open_database(f"sqlite:///{folder / 'study.db'}")
    make_queries(database, TRIPLETS, systems=SYSTEMS, both_orders=True, separate=True, length=4)
    with database.writing() as session:
        session.scalars(select(Dataset)).one().image_root = str(folder)
        for name in session.scalars(select(Image.name)):
            (folder / f"{name}.png").write_bytes(b"never decoded")
    (folder / "de.json").write_text('{"page": {"next": "Weiter"}}', encoding="utf-8")
    yield database, folder / "study.toml"
    database.close()


def mostly(usual: st.SearchStrategy[Any], *odd: Any) -> st.SearchStrategy[Any]:
    """Usual values, and now and then one that is wrong or extreme."""
    return st.integers(0, 39).flatmap(lambda n: st.sampled_from(odd) if n == 0 else usual)


STUDY = {"languages": mostly(st.sampled_from([["en"], ["ko", "en"], ["en", "de"]]), ["fr"], [])}
KIND_NAMES = ["pair"] * 4 + [name for name in KINDS if name != "pair"]
DESIGN = {
    "levels": mostly(st.integers(2, 5), 1, 6),
    "sets": mostly(st.just(3), 2, 4),
    "show_target": st.booleans(),
    "k": mostly(st.integers(1, 4), 0, 5, "two"),
    "questions_per_form": mostly(st.integers(1, 9), 0, 60, 2.5),
    "forms_per_participant": mostly(st.integers(1, 3), 0, 20),
    "annotators_per_query": mostly(st.integers(1, 4), 0, -1),
    "overlap_share": mostly(st.sampled_from([0.0, 0.2, 0.25, 0.5, 1, 1.0]), 1.5, -0.1),
    "categories": mostly(st.sampled_from(["one", "mixed"]), "two"),
    "image_order": st.sampled_from(["ranked", "shuffled"]),
    "preference_ties": st.booleans(),
    "confirm_contradictions": st.booleans(),
    "reason_every": st.integers(0, 5),
    "seed": st.integers(0, 9),
}
CHECKS = {
    "arithmetic": st.booleans(),
    "gold": mostly(st.integers(0, 2), 30, -1),
    "repeated": mostly(st.integers(0, 2), 9, "one"),
    "on_failure": mostly(st.sampled_from(["none", "none", "pause", "exclude"]), "stop"),
}
PRACTICE = {
    "query": mostly(st.sampled_from(["", "dress.val.3", "shirt.val.0~"]), "hat.val.0"),
    "systems": mostly(st.just(["B", "A"]), ["A"], []),
    "expected": mostly(st.sampled_from(["1", "2"]), "", "3"),
}
QUERIES = {
    "categories": mostly(st.sampled_from([[], ["dress"], ["shirt", "dress"]]), ["hat"], "dress"),
    "splits": mostly(st.sampled_from([[], ["val"]]), ["test"]),
    "systems": mostly(st.sampled_from([[], ["A", "B"], ["C", "A", "B"]]), ["A"], ["A", "D"]),
    "sample": mostly(st.sampled_from([0, 0, 3, 10]), 59, -1),
}
WORDING = {
    "anchors": mostly(st.sampled_from([[], list("abc"), ["a", *[""] * 5, "b"]]), ["a"], ["a"] * 3),
    "score": mostly(st.sampled_from(["", "How stylish?"]), " ", "two\\nlines", 3),
    "levels": mostly(st.just([]), ["no", "yes"]),
    "rank": mostly(st.sampled_from(["", "Which is best?"]), " "),
    "query": mostly(st.sampled_from(["", "Is it clear?"]), 3),
}
EXTRA = st.fixed_dictionaries(
    {
        "name": mostly(st.sampled_from(["age", "sure"]), "", "Age"),
        "type": mostly(st.sampled_from(["choice", "choices", "scale", "number", "text"]), "date"),
        "text": mostly(st.just("Which one?"), ""),
    },
    optional={
        "options": st.sampled_from([[], ["a", "b"], ["a", "", "b"], ["a", "b", "c"]]),
        "required": mostly(st.booleans(), "yes"),
        "min": mostly(st.sampled_from([0, 2.5]), 1e16, "0"),
        "max": mostly(st.sampled_from([10, 99.5]), 1),
        "other": mostly(st.booleans(), 1),
    },
)
RECRUITMENT = {
    "participants": mostly(st.sampled_from([0, 0, 1, 2]), 99, -1),
    "max_failed_checks": mostly(st.integers(-1, 2), -2),
    "quotas": mostly(
        st.sampled_from([{}, {"dress": 1}, {"dress": 1, "shirt": 2}]), {"hat": 1}, {"dress": -1}, 3
    ),
}


def table(
    keys: dict[str, st.SearchStrategy[Any]], *always: str
) -> st.SearchStrategy[dict[str, Any]]:
    """A table with any of the keys, and `always` these: forms of 25 are too long here."""
    return st.fixed_dictionaries(
        {key: keys[key] for key in always},
        optional={key: values for key, values in keys.items() if key not in always},
    )


def file_of(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """The tables of a file for this question kind, with keys that such a study may have."""
    unused = OPTIONS - KINDS[kind].options

    def usable(name: str, keys: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
        return {key: values for key, values in keys.items() if f"{name}.{key}" not in unused}

    practice = table(PRACTICE, "query", "systems", "expected")
    design = {"kind": mostly(st.just(kind), "triple"), **usable("design", DESIGN)}
    return st.fixed_dictionaries(
        {
            "study": table(STUDY),
            "design": table(design, "kind", "k", "questions_per_form"),
            "checks": table(usable("checks", CHECKS)),
            "practice": st.one_of(st.just({}), practice) if kind == "pair" else st.just({}),
            "queries": table(QUERIES),
            "recruitment": table(RECRUITMENT),
            "wording": table(usable("wording", WORDING)),
            "questionnaire.after_each": st.lists(EXTRA, max_size=2),
            "questionnaire.at_end": st.lists(EXTRA, max_size=1),
        }
    )


FILES = st.sampled_from(KIND_NAMES).flatmap(file_of)


def toml(tables: dict[str, dict[str, Any]]) -> str:
    tables = tables | {"study": {"name": "random", "title": "T", **tables["study"]}}
    tables["queries"] = {"dataset": "small", **tables["queries"]}
    return "\n".join(
        line
        for name, content in tables.items()
        for values in (content if isinstance(content, list) else [content])
        for line in (
            f"[[{name}]]" if isinstance(content, list) else f"[{name}]",
            *(f"{key} = {literal(v)}" for key, v in values.items()),
        )
    )


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {literal(part)}" for key, part in value.items()) + "}"
    return repr(value).replace("'", '"')


@pytest.mark.slow
@settings(
    max_examples=N_FILES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tables=FILES)
def test_a_file_is_refused_or_its_counts_hold(
    drawn: tuple[Database, Path], tables: dict[str, dict[str, Any]]
) -> None:
    database, path = drawn
    path.write_text(toml(tables), encoding="utf-8")
    try:
        config = read_config(path)
        event(f"read: {config.design.kind}")
        with suppress(Undo), database.writing() as session:
            queries = chosen_queries(session, config)
            study = draw_study(session, config, queries)
            require_enough_forms(session, study, config)
            check_counts(session, config, study, queries)
            event(f"drawn: {config.design.kind}")
            check_extension(session, study, queries)
            event("extended")
            raise Undo
    except ConfigErrors as error:
        for line in error.lines:  # what is wrong with a value says what is right
            assert re.match(re.escape(str(path)) + r": line \d+: [\w.]+: .{8,}", line)
    except ConfigError as error:
        (line,) = located(path, error).lines
        assert re.match(re.escape(str(path)) + r": line \d+: [\w.]+: ", line)
        assert error.remedy  # noqa: PT017 (either result is right)


def check_counts(session: Session, config: StudyConfig, study: Study, queries: list[int]) -> None:
    """Compare the stored study with what its file asks for."""
    rows = session.execute(
        select(Form, Question, Pair, Check)
        .join(Question, Question.form_id == Form.id)
        .join(Pair, Question.pair_id == Pair.id)
        .outerjoin(Check, Check.question_id == Question.id)
        .where(Form.study_id == study.id)
        .order_by(Form.number, Question.place)
    ).all()
    with_triplets = select(Query).options(joinedload(Query.triplet))
    asked = {query.id: query for query in session.scalars(with_triplets)}
    own = [pair for _, _, pair, check in rows if check is None]
    if config.practice.query:
        practised = session.get_one(PracticeQuestion, study.id).pair.query.triplet_id
        assert practised not in {asked[pair.query_id].triplet_id for _, _, pair, _ in rows}
    check_overlap(config, Counter(pair.query_id for pair in own), queries, asked)
    check_pairs(session, config, {pair.id: pair for pair in own}, len(queries))
    batches: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        batches[row[0].batch].append(row)
    capacity = capacity_of(session, study)
    assert capacity.places == len(batches)
    check_recruitment(config, capacity)
    for batch in batches.values():
        check_batch(session, config, batch, asked)


def check_extension(session: Session, study: Study, queries: list[int]) -> None:
    """One more participant for each query, and as many more places for participants."""
    before = config_of(study)
    annotators = before.design.annotators_per_query + 1
    places = capacity_of(session, study).places
    added = extend_study(session, study, MoreAnnotators(annotators), NOW)
    config, capacity = config_of(study), capacity_of(session, study)
    assert list(planned_judgements(session, study).values()) == [annotators] * len(queries)
    assert capacity.places == places + added.capacity.places
    check_recruitment(config, capacity)
    limit = before.recruitment.participants
    assert config.recruitment.participants == (limit and limit + added.capacity.places)


def check_recruitment(config: StudyConfig, capacity: Capacity) -> None:
    """Exactly as many participants as the file asks for can be recruited."""
    recruitment, places = config.recruitment, capacity.by_category
    quotas = {category: recruitment.quotas.get(category, n) for category, n in places.items()}
    assert all(quotas[category] <= n for category, n in places.items())
    most = recruitment.participants or sum(quotas.values())
    assert recruited(recruitment, capacity) == most


def check_overlap(
    config: StudyConfig, times: Counter[int], queries: list[int], asked: dict[int, Query]
) -> None:
    """Of each category's queries exactly the planned share is judged by several participants."""
    design = config.design
    groups: dict[str, set[int]] = defaultdict(set)
    for query in queries:
        category = "" if design.categories == "mixed" else asked[query].triplet.category
        groups[category].add(query)
    assert set(times) == set(queries)
    for group in groups.values():
        shared = round(design.overlap_share * len(group))
        expected = Counter({1: len(group) - shared})
        expected[design.annotators_per_query] += shared
        assert Counter(times[query] for query in group) == +expected


def check_pairs(
    session: Session, config: StudyConfig, pairs: dict[int, Pair], n_queries: int
) -> None:
    """One pair a query, of different systems' sets of k images; each choice equally often."""
    assert len(pairs) == n_queries
    kind, used = config.design.kind, Counter[tuple[int, ...]]()
    with_images = select(RetrievedSet).options(selectinload(RetrievedSet.images))
    stored = {retrieved.id: retrieved for retrieved in session.scalars(with_images)}
    for pair in pairs.values():
        keys = [pair.first_id, pair.second_id, *(further.set_id for further in pair.further)]
        sets = [stored[key] for key in keys if key is not None]
        assert len(sets) == n_sets_of(config.design)
        used[tuple(sorted(retrieved.system_id or 0 for retrieved in sets))] += 1
        for retrieved in sets:
            n_images = 1 if kind == "query" else config.design.k  # the target
            assert len({member.image_id for member in retrieved.images}) == n_images
    if kind == "query":
        return
    assert all(len(set(systems)) == len(systems) for systems in used)
    n_choices = comb(len(config.queries.systems or SYSTEMS), n_sets_of(config.design))
    fewest = min(used.values()) if len(used) == n_choices else 0
    assert max(used.values()) - fewest <= 1


def check_batch(
    session: Session, config: StudyConfig, batch: list[Any], asked: dict[int, Query]
) -> None:
    """A participant: full forms but the last, one category, no triplet twice."""
    design = config.design
    forms: dict[int, list[Any]] = defaultdict(list)
    for form, question, pair, check in batch:
        forms[form.id].append((question, pair, check))
    sizes = [sum(check is None for *_, check in forms[key]) for key in sorted(forms)]
    assert len(sizes) <= design.forms_per_participant
    assert sizes[:-1] == [design.questions_per_form] * (len(sizes) - 1)
    assert 1 <= sizes[-1] <= design.questions_per_form
    shown = [
        asked[pair.query_id].triplet
        for _, _, pair, check in batch
        if check is None or check.kind == "gold"
    ]
    assert len({triplet.id for triplet in shown}) == len(shown)
    if design.categories == "one":
        assert len({triplet.category for triplet in shown}) == 1
    for key, questions in forms.items():
        check_form(session, config, key, questions)


def check_form(session: Session, config: StudyConfig, key: int, asked: list[Any]) -> None:
    """The planned checks, and the own pairs half of them swapped."""
    kinds = Counter(check.kind for *_, check in asked if check is not None)
    plain = [question for question, _, check in asked if check is None]
    assert kinds["gold"] == config.checks.gold
    assert kinds["repeat"] == min(config.checks.repeated, len(plain))
    if config.design.kind == "pair":
        assert abs(2 * sum(question.swapped for question in plain) - len(plain)) <= 1
    assert [question.place for question, *_ in asked] == list(range(len(asked)))
    sums = select(Check).where(Check.form_id == key, Check.kind == "arithmetic")
    assert len(session.scalars(sums).all()) == config.checks.arithmetic
