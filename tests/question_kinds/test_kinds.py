"""Each kind of question, from a study's file to a report, over HTTP with simulated annotators."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median_low
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.texts import study_texts
from hsfiq.collect.checks import question_checks
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.progress import answers_of, participants_of
from hsfiq.collect.question_history import question_history
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, System, Triplet
from hsfiq.db.tables import Pair, Question
from hsfiq.errors import ConfigErrors, Refused
from hsfiq.kinds import KINDS, Rules
from hsfiq.kinds.query import VERDICTS
from hsfiq.releases.card import instrument_section
from hsfiq.releases.content import Source, explain
from hsfiq.study.config import config_of
from hsfiq.study.config_file import read_config
from hsfiq.study.filters import Filters
from hsfiq.study.images import shown_pairs
from hsfiq.study.languages import standard_texts
from hsfiq.study.practice import practice_pair, sets_of
from tests.annotate.page_requests import begin_form, token_of
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import FOUR_DRESSES, STUDY, Catalogue

QUESTIONS, ANSWERS, K = 4, 8, 3


def test_a_study_of_single_sets_becomes_a_report(catalogue: Catalogue, tmp_path: Path) -> None:
    study = catalogue.answered("single")
    progress = catalogue.hsfiq("study", "status", "--study", study)
    assert (progress["questions"], progress["answered"]) == (ANSWERS, ANSWERS)
    assert progress["images_painted"] == ANSWERS
    folder, report = tmp_path / "release", tmp_path / "report"
    options = ("--release", "single", "--split", "triplet", "--out", folder)
    exported = catalogue.hsfiq("export", "--study", study, *options)
    assert exported["releases"][0]["kept"] == ANSWERS
    release = catalogue.release(study, "single")
    scores, sets = rows(release, "scores"), rows(release, "sets")
    assert len(scores) == len(sets) == ANSWERS
    assert len({row["item_id"] for row in scores}) == QUESTIONS
    assert {row["score"] for row in scores} <= set(range(1, 6))
    assert [row["score"] for row in sets] == [row["score"] for row in scores]
    assert [row["set_id"] for row in scores] == [f"{row['question_id']}.1" for row in scores]
    assert {len(row["image_ids"]) for row in sets} == {3}
    result = catalogue.analyzed(folder, "--metric", "recall@3", "--report", report)
    assert result == json.loads((report / "results.json").read_text())
    assert catalogue.unplotted(study, result) == []
    overall = result["mean_scores"]["rows"]["all"]["mean score"]
    assert overall["value"] == pytest.approx(sum(row["score"] for row in scores) / ANSWERS)
    assert (overall["n"], overall["ci_method"]["n_clusters"]) == (ANSWERS, 2)
    assert result["agreement"]["rows"]["scores"]["alpha"]["n"] == ANSWERS
    assert result["correlation"]["rows"]["recall@3"]["rho"]["n"] == ANSWERS
    assert "simulated annotators" in (report / "report.html").read_text()
    assert (report / "tables" / "mean_scores.csv").is_file()
    text = hsfiq("analyze", folder, "--resamples", "50", "--part", "test").out
    assert "part test" in text
    assert "Mean score by system" in text


def test_one_system_is_enough(catalogue: Catalogue) -> None:
    catalogue.create("single", name="one-system", queries=FOUR_DRESSES + 'systems = ["sharp"]')
    status = catalogue.hsfiq("study", "status", "--study", "one-system")
    assert status["questions"] == ANSWERS
    catalogue.hsfiq("study", "close", "--study", "one-system")


def test_a_study_of_images_becomes_a_report(catalogue: Catalogue, tmp_path: Path) -> None:
    design = 'levels = 4\nimage_order = "shuffled"\n'
    study = catalogue.answered("images", design=design)
    assert catalogue.hsfiq("study", "status", "--study", study)["answered"] == ANSWERS
    folder = tmp_path / "release"
    result = catalogue.exported(study, "images", folder)
    release = catalogue.release(study, "images")
    images = rows(release, "relevance")
    assert len(images) == ANSWERS * K
    assert {row["relevance"] for row in images} <= set(range(4))
    assert [row["rank"] for row in images] == [1, 2, 3] * ANSWERS
    members = {row["set_id"]: row["image_ids"] for row in rows(release, "sets")}
    assert all(members[row["set_id"]][row["rank"] - 1] == row["image_id"] for row in images)
    given: dict[tuple[str, str], list[int]] = {}
    for row in images:
        given.setdefault((row["query_id"], row["image_id"]), []).append(row["relevance"])
    lines = [line.split() for line in (folder / "qrels.txt").read_text().splitlines()]
    qrels = {(query, image): int(level) for query, _, image, level in lines}
    assert qrels == {key: median_low(levels) for key, levels in given.items()}
    assert catalogue.unplotted(study, result) == []
    share = result["share_that_fits"]["rows"]["all"]["share"]
    assert share["value"] == pytest.approx(sum(row["relevance"] > 0 for row in images) / 24)
    for figures in result["retrieval_quality"]["rows"].values():
        assert set(figures) == {"P@3", "nDCG@3"}
        assert 0 <= figures["nDCG@3"]["value"] <= 1
    assert result["agreement"]["rows"]["images"]["alpha"]["n"] == ANSWERS * K
    assert "labelled targets that fit" in result["false_negatives"]["rows"]


def test_a_study_of_rankings_becomes_a_report(catalogue: Catalogue, tmp_path: Path) -> None:
    study = catalogue.answered("ranking", design='sets = 4\nimage_order = "shuffled"\n')
    assert catalogue.hsfiq("study", "status", "--study", study)["answered"] == ANSWERS
    folder, report = tmp_path / "release", tmp_path / "report"
    options = ("--metric", "recall@3", "--report", str(report))
    result = catalogue.exported(study, "ranking", folder, *options)
    release = catalogue.release(study, "ranking")
    rankings, sets = rows(release, "rankings"), rows(release, "sets")
    assert len(rankings) == ANSWERS
    assert all(sorted(row["ranks"]) == [1, 2, 3, 4] for row in rankings)
    assert all(len(set(row["systems"])) == 4 for row in rankings)
    assert len({tuple(row["systems"]) for row in rankings}) > 1, "the order of the sets is drawn"
    assert [row["rank"] for row in sets] == [rank for row in rankings for rank in row["ranks"]]
    assert [row["set_id"] for row in sets] == [name for row in rankings for name in row["set_ids"]]
    assert {len(row["image_ids"]) for row in sets} == {3}
    assert all(row["shown_order"] for row in sets)
    assert catalogue.unplotted(study, result) == []
    assert set(result["mean_ranks"]["rows"]) == {"sharp", "blurred", "text-heavy", "image-heavy"}
    means = [row["mean rank"]["value"] for row in result["mean_ranks"]["rows"].values()]
    assert sum(means) == pytest.approx(1 + 2 + 3 + 4)
    rates = result["pairwise_rates"]["rows"]
    assert len(rates) == 6
    before = rates["blurred before sharp"]["rate"]
    ranked = [dict(zip(row["systems"], row["ranks"], strict=True)) for row in rankings]
    share = sum(ranks["blurred"] < ranks["sharp"] for ranks in ranked) / ANSWERS
    assert (before["value"], before["n"]) == (share, ANSWERS)
    assert result["agreement"]["rows"]["ranks"]["alpha"]["n"] == 4 * ANSWERS
    concordance = result["concordance"]["rows"]["all"]["Kendall's W"]
    assert (concordance["value"], concordance["n"]) == (None, 4)
    assert "only 4 things" in concordance["reason"]
    assert (report / "figures" / "mean_ranks_chart.svg").read_text().count("n = 8") == 4
    assert (report / "report.html").read_text().count("<svg") == 3
    assert set(result["strengths"]["rows"]) == set(result["mean_ranks"]["rows"])


def test_the_images_of_every_set_are_checked_and_made_ahead(catalogue: Catalogue) -> None:
    name = catalogue.create("ranking", name="five-of-four", design="sets = 4\n")
    with catalogue.database.reading() as session:
        study = catalogue.study(session, name)
        shown = list(shown_pairs(session, study))
        pairs = session.scalars(select(Pair).where(Pair.study_id == study.id).order_by(Pair.id))
        for pair, row in zip(shown, pairs, strict=True):
            sets = [row.first, row.second, *(further.retrieved for further in row.further)]
            names = {member.image.name for each in sets if each for member in each.images}
            assert len(sets) == 4
            assert pair.candidates == names
    catalogue.close(name)


@pytest.mark.parametrize("shows_target", [True, False])
def test_a_study_of_queries_becomes_a_report(
    catalogue: Catalogue, tmp_path: Path, *, shows_target: bool
) -> None:
    name = f"query-{shows_target}".lower()
    design = f"show_target = {str(shows_target).lower()}\n"
    study = catalogue.answered("query", name=name, design=design)
    progress = catalogue.hsfiq("study", "status", "--study", study)
    assert (progress["answered"], progress["images_painted"]) == (ANSWERS, ANSWERS)
    folder = tmp_path / "release"
    result = catalogue.exported(study, "query", folder)
    given = [row["verdict"] for row in rows(catalogue.release(study, "query"), "query_ratings")]
    assert len(given) == ANSWERS
    assert set(given) <= set(VERDICTS)
    assert not (folder / "sets.parquet").exists()
    assert catalogue.unplotted(study, result) == []
    share = result["verdicts"]["rows"]["VALIDATED"]["share"]
    assert (share["value"], share["n"]) == (given.count("VALIDATED") / ANSWERS, ANSWERS)
    assert set(result["well_formed"]["rows"]) == {"by more than half", "by everybody"}
    alpha = result["agreement"]["rows"]["verdicts"]["alpha"]
    assert alpha["value"] is not None or alpha["reason"]
    card = (folder / "README.md").read_text()
    assert "sets" not in card.partition("## Dropped questions")[0]
    refused = hsfiq("analyze", folder, "--metric", "recall@1")
    assert (refused.code, "--metric" in refused.err, "query" in refused.err) == (2, True, True)


@pytest.mark.parametrize("kind", ["single", "images", "ranking", "query"])
def test_checks_are_asked_counted_and_dropped(catalogue: Catalogue, kind: str) -> None:
    gold = int(KINDS[kind].gold is not None)
    study = catalogue.answered(
        kind,
        name=f"checks-{kind}",
        design="forms_per_participant = 1\n",
        queries=f"[checks]\ngold = {gold}\nrepeated = 1\n",
    )
    with catalogue.database.reading() as session:
        row = catalogue.study(session, study)
        results = list(question_checks(session, StudyRow.of(row)))
        assert [result.kind for result in results].count("repeat") == 2
        assert [result.kind for result in results].count("gold") == 2 * gold
        people = participants_of(session, row)
        assert [person.checks for person in people] == [1 + gold] * 2
        n_failed = [person.failed_checks for person in people]
        assert sum(n_failed) == sum(not result.passed for result in results)

        funnel, _ = explain(Source(session, row, kind, Filters(failed_checks=True)))
        steps = {step.rule: step.dropped for step in funnel.steps}
        assert steps["check"] == 2 * (1 + gold)
        assert steps["failed-checks"] == 2 * sum(failed > 0 for failed in n_failed)

        golds = [answer for answer in answers_of(session, row) if answer.check == "gold"]
        for answer in golds:
            history = question_history(session, row, answer.question_id)
            assert history is not None
            assert history.expected


def test_a_release_of_another_kind_is_refused(catalogue: Catalogue, tmp_path: Path) -> None:
    name = catalogue.create("single", name="single-alone")
    for release in ("hs", "hp", "images"):
        options = ("--study", name, "--release", release, "--out", tmp_path / "out")
        refused = hsfiq("export", *options, "--database", catalogue.place.url)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        for word in ("--release", name, release, "its releases: single"):
            assert word in refused.err
        assert not (tmp_path / "out").exists()
    catalogue.close(name)


def test_queries_need_a_target_if_it_is_shown(catalogue: Catalogue, tmp_path: Path) -> None:
    table = tmp_path / "queries.csv"
    table.write_text("query_id,text\nq1,a red dress\nq2,a blue dress\n")
    catalogue.hsfiq(
        *("import", "queries", table, "--images", catalogue.folder / "images"),
        *("--dataset", "texts"),
    )
    text = """\
[study]
name = "targetless"
title = "Queries"

[design]
kind = "query"
questions_per_form = 1
forms_per_participant = 1

[queries]
dataset = "texts"
"""
    study = tmp_path / "study.toml"
    study.write_text(text)
    refused = hsfiq("study", "create", study, "--database", catalogue.place.url)
    assert refused.code == 2
    assert "design.show_target: 2 queries have no labelled target; set it to false" in refused.err
    study.write_text(text.replace('kind = "query"', 'kind = "query"\nshow_target = false'))
    created = catalogue.hsfiq("study", "create", study, "--draft")
    assert created["questions"] == 2


SEVEN = ["Not at all", "", "", "Somewhat", "", "", "Completely"]
ANCHORS = '[wording]\nanchors = ["Not at all", "", "", "Somewhat", "", "", "Completely"]\n'
QUESTION = "How *elegant* is this set?"


def test_seven_points_reach_release_and_report(catalogue: Catalogue, tmp_path: Path) -> None:
    wording = ANCHORS + f'score = "{QUESTION}"\ntext = "Wish"\n'
    study = catalogue.answered("single", name="seven", queries=wording)
    release = catalogue.release(study, "single")
    about = json.loads(release.files["manifest.json"])
    assert about["scale"] == {"points": 7, "anchors": SEVEN}
    assert about["wording"] == {"score": QUESTION, "text": "Wish"}
    assert {row["score"] for row in rows(release, "scores")} <= set(range(1, 8))
    card = release.files["README.md"].decode()
    assert f"- score: {QUESTION}\n" in card
    assert "- score 7: Completely\n" in card
    catalogue.exported(study, "single", tmp_path / "release")
    with catalogue.database.reading() as session:
        texts = study_texts(session, StudyRow.of(catalogue.study(session, study)))
    assert texts.page["anchors"] == SEVEN
    for words in (r"How \*elegant\* is this set\?", "- 7: Completely\n", "**Wish**"):
        assert words in texts.guidelines


def test_pairs_on_three_points_have_no_published_layout(catalogue: Catalogue) -> None:
    study = catalogue.answered(
        "pair", name="three", queries='[wording]\nanchors = ["a", "b", "c"]\n'
    )
    release = catalogue.release(study, "hp")
    scores = {row[name] for row in rows(release, "preferences") for name in ("score_1", "score_2")}
    assert scores <= {1, 2, 3}
    assert "hpfiq.json" not in release.files
    assert "scores are from 1 to 3" in release.notes[0]


def test_levels_of_images_have_the_owners_names(catalogue: Catalogue) -> None:
    wording = '[wording]\nlevels = ["No", "Nearly", "Yes"]\nimage = "Would you buy it?"\n'
    name = catalogue.create("images", name="worded-levels", design="levels = 3\n", queries=wording)
    with catalogue.database.reading() as session:
        row = catalogue.study(session, name)
        page = study_texts(session, StudyRow.of(row)).page
        assert page["relevance_levels"]["3"] == ["No", "Nearly", "Yes"]
        assert page["how_well_image"] == "Would you buy it?"
        assert "- 3: Yes\n" in study_texts(session, StudyRow.of(row)).guidelines
        assert config_of(row).wording.points == 5
    catalogue.close(name)


def test_a_standard_study_has_no_section_about_wording() -> None:
    about = {"scale": {"points": 5, "anchors": None}, "languages": ["en"], "wording": {}}
    assert instrument_section(about) == ""


@pytest.mark.parametrize(("wording", "kind", "expected"), [
    ('anchors = ["a", "b"]', "pair", "2 points"),
    ('anchors = ["a", "b", ""]', "pair", "need a text"),
    ('anchors = ["a", "b", "a"]', "single", "same text"),
    ('anchors = ["a", "b", "c"]', "ranking", 'kind = "ranking"'),
    ('levels = ["a", "b", "c"]', "images", "3 levels; name 2"),
    ('levels = ["a", " "]', "images", "needs a text"),
    ('score = " "', "pair", "not blank"),
    ('score = "a\\nb"', "pair", "must be one line"),
])  # fmt: skip
def test_wrong_wordings_are_refused(tmp_path: Path, wording: str, kind: str, expected: str) -> None:
    path = tmp_path / "study.toml"
    head = f'[study]\nname = "a"\ntitle = "A"\n[design]\nkind = "{kind}"\n[wording]\n'
    path.write_text(head + wording, encoding="utf-8")
    with pytest.raises(ConfigErrors) as error_info:
        read_config(path)
    (line,) = error_info.value.lines
    assert f"line 7: wording.{wording.split(maxsplit=1)[0]}: " in line
    assert expected in line


EXTRA = """
[[questionnaire.after_each]]
name = "sure"
type = "scale"
text = "How sure are you?"
options = ["Not at all", "", "Very"]
required = true

[[questionnaire.after_each]]
name = "words"
type = "text"
text = "In your words?"

[[questionnaire.at_end]]
name = "age"
type = "number"
text = "How old are you?"
required = true
"""


def test_extra_answers_reach_the_release(catalogue: Catalogue) -> None:
    study = catalogue.answered("single", name="extra", queries=EXTRA)
    release = catalogue.release(study, "single")
    assert [(row["field"], row["type"], row["options"]) for row in rows(release, "fields")] == [
        ("sure", "scale", ["Not at all", "", "Very"]),
        ("words", "text", None),
        ("age", "number", None),
    ]
    answers = rows(release, "extra_answers")
    asked = {row["question_id"] for row in rows(release, "scores")}
    assert {(row["question_id"], row["field"]) for row in answers} == {
        (question, field) for question in asked for field in ("sure", "words")
    }
    assert {row["number"] for row in answers if row["field"] == "sure"} <= {1.0, 2.0, 3.0}
    assert {row["value"] for row in answers if row["field"] == "words"} <= {
        "written by a simulated annotator",
        None,
    }
    participants = {row["participant_id"] for row in rows(release, "scores")}
    at_end = rows(release, "participant_answers")
    assert {row["participant_id"] for row in at_end} == participants
    assert all(18 <= row["number"] <= 80 for row in at_end)
    described = json.loads(release.files["croissant.json"])["recordSet"]
    assert {"fields", "extra_answers", "participant_answers"} <= {
        table["name"] for table in described
    }
    assert "### extra_answers" in release.files["README.md"].decode()
    plain = catalogue.release(catalogue.answered("single", name="plain"), "single")
    assert "extra_answers.parquet" not in plain.files


@pytest.mark.parametrize(("kind", "options", "right", "field", "wrong"), [
    ("single", {}, {"score": 5}, "score", [None, 0, 6, 3.0, True]),
    ("images", {"levels": 4}, {"relevance": [0, 3, 1]}, "relevance",
     [None, [0, 1], [0, 1, 4], [0, 1, -1], [0, 1, True]]),
    ("ranking", {"n_sets": 3}, {"ranks": [3, 1, 2]}, "ranks",
     [None, [1, 2], [1, 2, 4], [0, 1, 2], [1, 2, 2], [1, 2, 3.0]]),
    ("query", {"k": 1}, {"verdict": "INVALID_TARGET_IMAGE"}, "verdict",
     [None, "GOOD", 1, ["VALIDATED"]]),
])  # fmt: skip
def test_other_judgements_are_refused(
    kind: str, options: dict[str, Any], right: dict[str, Any], field: str, wrong: list[object]
) -> None:
    rules = Rules(**({"points": 5, "k": 3, "n_sets": 1, "ties": False} | options))
    read = KINDS[kind].read
    assert read is not None
    assert read(right, rules) == right
    for given in ({}, right | {"more": 1}, *({field: each} for each in wrong)):
        with pytest.raises(Refused):
            read(given, rules)


def test_judgements_depend_on_what_the_study_has() -> None:
    query, ranking = KINDS["query"].read, KINDS["ranking"].read
    assert query is not None
    assert ranking is not None
    without_target = Rules(points=5, k=1, n_sets=0, ties=False)
    with pytest.raises(Refused, match="target"):
        query({"verdict": "INVALID_TARGET_IMAGE"}, without_target)
    # Tied sets share the better rank.
    ties = Rules(points=5, k=3, n_sets=4, ties=True)
    assert ranking({"ranks": [2, 4, 2, 4]}, ties) == {"ranks": [1, 3, 1, 3]}


SYSTEMS = ["sharp", "blurred", "text-heavy"]
EXPLANATION = "This is what the text asks for.\\n\\nThe rest is not."
EXPECTED: dict[str, tuple[int, str, dict[str, Any], str]] = {
    "pair": (2, "1", {"better": 1}, "Set 1 matches better"),
    "single": (1, "4-5", {"lowest": 4, "highest": 5}, "4 \N{EN DASH} 5"),
    "images": (1, "3 1", {"fitting": [1, 3]}, "1, 3"),
    "ranking": (3, "2 1 3", {"order": [2, 1, 3]}, "Set 2, Set 1"),
    "query": (0, "VALIDATED", {"verdict": "VALIDATED"}, "Well formed"),
}
"""For each kind the number of systems, `expected`, what the page gets, and words explaining it."""


def marked(
    query: str, kind: str, *, systems: list[str] | None = None, explanation: str = ""
) -> str:
    n_systems, expected, *_ = EXPECTED[kind]
    names = SYSTEMS[:n_systems] if systems is None else systems
    return (
        f'\n[practice]\nquery = "{query}"\nsystems = {names}\nexpected = "{expected}"\n'
        f'explanation = "{explanation}"\n'
    )


def a_query(database: Database) -> Query:
    """A query of the category that the studies are about."""
    with database.reading() as session:
        return session.scalars(
            select(Query).join(Triplet).where(Triplet.category == "dress").order_by(Query.id)
        ).first()  # type: ignore[return-value]


def id_of(database: Database, query: Query) -> str:
    with database.reading() as session:
        triplet = session.get_one(Triplet, query.triplet_id)
        return triplet.external_id + query.suffix


@contextmanager
def at_practice(catalogue: Catalogue, study: str) -> Iterator[tuple[TestClient, dict[str, Any]]]:
    """A participant who has agreed, and the view that they are shown."""
    app = plain_app(Services.of(catalogue.database))
    with catalogue.database.reading() as session:
        row = catalogue.study(session, study)
        key = row.id
    with TestClient(app, follow_redirects=False) as client:
        assert client.post("/enrol", data=begin_form(client, key)).status_code == 303
        yield client, client.post("/consent", json={"agrees": True}).json()


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_marked_query_is_practised_and_not_asked(catalogue: Catalogue, kind: str) -> None:
    query = a_query(catalogue.database)
    n_systems, _, expected, standard = EXPECTED[kind]
    queries = FOUR_DRESSES + marked(id_of(catalogue.database, query), kind, explanation=EXPLANATION)
    name = catalogue.create(kind, name=f"practice-{kind}", queries=queries)
    with at_practice(catalogue, name) as (client, view):
        assert (view["step"], view["assignment"]) == ("practice", "practice")
        assert view["text"] == query.text
        assert view["expected"] == expected
        assert view["explanation"] == ["This is what the text asks for.", "The rest is not."]
        images = [image for shown in view["sets"] for image in shown]
        tokens = [token_of(image) for image in images]
        assert len(tokens) == (n_systems * 3 or 1)
        assert tokens == tokens_of_lists(catalogue.database, query, n_systems) or kind == "query"
        for image in (view["reference"], *images):
            assert client.get(f"/image/{image['token']}").status_code == 200
        assert client.post("/practice", json={}).json()["step"] == "question"
    with catalogue.database.reading() as session:
        study = catalogue.study(session, name)
        practised = practice_pair(session, study.id)
        assert practised is not None
        assert len(sets_of(practised)) == max(n_systems, kind == "query")
        asked = select(Query.triplet_id).join(Pair).join(Question)
        assert query.triplet_id not in session.scalars(asked.where(Pair.study_id == study.id)).all()
    catalogue.close(name)

    queries = FOUR_DRESSES + marked(id_of(catalogue.database, query), kind)
    name = catalogue.create(kind, name=f"standard-{kind}", queries=queries)
    with at_practice(catalogue, name) as (_, view):
        assert standard in " ".join(view["explanation"])
    catalogue.close(name)


def tokens_of_lists(database: Database, query: Query, n_systems: int) -> list[str]:
    with database.reading() as session:
        of_query = (
            select(System.name, RankedList.image_ids)
            .join(System, RankedList.system_id == System.id)
            .where(RankedList.query_id == query.id)
        )
        lists = dict(session.execute(of_query).all())
        return [
            session.get_one(Image, key).token
            for system in SYSTEMS[:n_systems]
            for key in lists[system][:3]
        ]


@pytest.mark.parametrize("kind", EXPECTED)
def test_drawn_practice_has_a_right_answer_for_every_kind(catalogue: Catalogue, kind: str) -> None:
    name = catalogue.create(kind, name=f"drawn-{kind}")
    with at_practice(catalogue, name) as (_, view):
        assert set(view["expected"]) == set(EXPECTED[kind][2])
        assert view["explanation"]
        assert "{" not in " ".join(view["explanation"])
    catalogue.close(name)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_standard_explanations_have_their_placeholders(language: str) -> None:
    assert "{sets}" in standard_texts(language)["page"]["practice_expected"]


def test_what_is_not_there_is_refused_with_its_line(catalogue: Catalogue, tmp_path: Path) -> None:
    query = a_query(catalogue.database)
    known = id_of(catalogue.database, query)
    cases = {
        marked(
            "dress.none.0", "pair"
        ): "practice.query: dataset 'drawn' has no query 'dress.none.0'",
        marked(known, "pair", systems=["sharp", "dull"]): "practice.systems: 'dull' has no list",
    }
    for practice, message in cases.items():
        assert message in refused(catalogue, tmp_path, practice)

    other = Catalogue(tmp_path, catalogue.place, catalogue.server, catalogue.database)
    url = f"sqlite:///{tmp_path / 'copy.db'}"
    shutil.copyfile(catalogue.place.file, tmp_path / "copy.db")
    database = open_database(url)
    with database.writing() as session:
        dataset = session.scalars(select(Dataset).where(Dataset.name == "drawn")).one()
        dataset.image_root = str(tmp_path / "nowhere")
    database.close()
    assert "is missing" in refused(other, tmp_path, marked(known, "pair"), url)


def refused(catalogue: Catalogue, folder: Path, practice: str, url: str = "") -> str:
    text = STUDY.format(
        name="refused", kind="pair", design="", queries=FOUR_DRESSES + practice, k=3
    )
    path = folder / "refused.toml"
    path.write_text(text, encoding="utf-8")
    command = hsfiq("study", "create", path, "--database", url or catalogue.place.url)
    assert command.code == 2
    assert "refused.toml: line " in command.err
    return command.err
