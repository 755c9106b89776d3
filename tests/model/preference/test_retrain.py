"""Retraining: which answers it trains on, what it keeps fixed, and what it writes."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.lineage import trained_on
from hsfiq.model.data.texts import normalise
from hsfiq.model.features.cache import FeatureCache
from hsfiq.model.preference.answers import (
    PRIOR_ANSWERS,
    Question,
    ReleaseAnswers,
    answer_tensors,
    dropped_contradictions,
    read_answers,
    reliability_weights,
)
from hsfiq.model.preference.inputs import draw_negative, without_held_out
from hsfiq.model.preference.response_model import fit_answers
from hsfiq.model.preference.training_loop import Retraining, set_scores, split_parameters
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.loading import load_scorer
from hsfiq.releases.reader import ReleasedSet
from tests.model.preference.helpers import QUICK, Answered, rewrite, rows
from tests.model.training.helpers import CPU, ONE_PROCESS, Drawn, files_below, hsfiq, options

pytestmark = pytest.mark.usefixtures("one_thread")

BRIEF = replace(QUICK, epochs=1)


@pytest.fixture(scope="module")
def out(answered: Answered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A retraining's folder."""
    folder = tmp_path_factory.mktemp("retrained") / "out"
    answered.retrain(folder)
    return folder


@pytest.fixture(scope="module")
def later(answered: Answered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the same answers with another name and content digest."""
    folder = shutil.copytree(answered.release, tmp_path_factory.mktemp("released") / "later")
    rename(folder, "later-hp", "other content")
    return folder


@pytest.fixture(scope="module")
def retrained_twice(answered: Answered, out: Path, later: Path) -> Path:
    """The folder of the retraining's own retraining, on the later release."""
    folder = out.with_name("twice")
    replace(answered, init=out).retrain(folder, BRIEF, release=later)
    return folder


@pytest.fixture
def release(answered: Answered, tmp_path: Path) -> Path:
    """The same release, the test's own."""
    return shutil.copytree(answered.release, tmp_path / "hp")


def rename(release: Path, name: str, content_sha256: str) -> None:
    path = release / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, "name": name, "content_sha256": content_sha256}))


def source(release: Path) -> dict[str, str]:
    """What a checkpoint records about a release."""
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    return {key: manifest[key] for key in ("name", "version", "content_sha256")}


def drop_earlier_releases(out: Path) -> None:
    """Make the folder one of a version that did not record earlier releases."""
    for path, key in ((out / "last.json", "earlier_releases"), (out / "report.json", "notes")):
        content = json.loads(path.read_text(encoding="utf-8"))
        del content[key]
        path.write_text(json.dumps(content), encoding="utf-8")


def report_of(out: Path) -> Any:
    return json.loads((out / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def retraining(answered: Answered) -> Retraining:
    """One that has not started."""
    questions = read_answers(answered.release).part("train")
    loaded = load_scorer(answered.init, None, CPU)
    tokens = FeatureCache.open(answered.cache, loaded.scorer.encoder)
    files = {path.stem: path for path in answered.pictures.iterdir()}
    tokens.fill(files, device=CPU)
    answers = answer_tensors(questions, {question.participant: 1.0 for question in questions})
    return Retraining(
        loaded.scorer, loaded.recipe, QUICK, questions, answers, tokens, ONE_PROCESS, torch.float32
    )


# --------------------------------------------------------------------------------------- the steps


@torch.no_grad()
def literal(retraining: Retraining, released_set: ReleasedSet) -> float:
    """A set's score, image by image."""
    encoder = retraining.scorer.encoder
    query = encoder.query(
        retraining.tokens.tokens([released_set.reference]), [normalise(released_set.text)]
    )[0]
    return fmean(
        max((vector @ query).item() for vector in encoder.gallery(token)[0])
        for token in (retraining.tokens.tokens([image]) for image in released_set.images)
    )


def test_the_scores_of_sets_are_means_over_images(retraining: Retraining) -> None:
    places = torch.tensor([5, 0, 17])
    expected = [
        [literal(retraining, released_set) for released_set in retraining.questions[i].sets]
        for i in (5, 0, 17)
    ]
    retraining.scorer.eval()
    literally = torch.tensor(expected)
    torch.testing.assert_close(retraining.sets(places), literally, atol=1e-5, rtol=0)
    questions = [retraining.questions[i] for i in places.tolist()]
    scores = set_scores(questions, retraining.scorer, retraining.inference)
    torch.testing.assert_close(scores.float(), literally, atol=1e-5, rtol=0)


def test_a_steps_loss_is_the_answers_likelihood(retraining: Retraining) -> None:
    answers = retraining.fit()
    (slope, bias), scores = answers.preferences.values.tolist(), answers.scores.values.tolist()
    edges = [-math.inf, *scores[1:5], math.inf]
    expected = {"preference": 0.0, "score": 0.0}
    places = [3, 9, 30]
    for place in places:
        question = retraining.questions[place]
        first, second = (literal(retraining, set_) for set_ in question.sets)
        share = 1 / (1 + math.exp(-(slope * (first - second) + bias)))
        expected["preference"] -= math.log(share if question.preferred == 1 else 1 - share) / 3
        offset = scores[5 + answers.participants.index(question.participant)]
        for score, level in zip((first, second), question.scores, strict=True):
            cumulative = [
                1 / (1 + math.exp(scores[0] * score + offset - edge)) for edge in edges[1:-1]
            ]
            cumulative = [0.0, *cumulative, 1.0]
            expected["score"] -= math.log(cumulative[level] - cumulative[level - 1]) / 6
    before = {name: parameter.clone() for name, parameter in retraining.parameters.items()}
    losses = retraining.step(torch.tensor(places), answers, iter(()))
    with torch.no_grad():
        for name, parameter in retraining.parameters.items():
            parameter.copy_(before[name])
    expected["loss"] = expected["preference"] + QUICK.score_weight * expected["score"]
    assert losses == pytest.approx(expected, abs=1e-4)


def test_negatives_are_any_image_of_the_pool_but_the_target() -> None:
    pool = ["a", "b", "c", "d"]
    for target in pool:
        drawn = [draw_negative(pool, target, u) for u in (0.0, 0.32, 0.34, 0.65, 0.67, 0.999999)]
        negatives = [image for image in pool if image != target]
        assert drawn == [
            negatives[0],
            negatives[0],
            negatives[1],
            negatives[1],
            negatives[2],
            negatives[2],
        ]


def test_fixed_parameters(retraining: Retraining, answered: Answered, out: Path) -> None:
    assert set(retraining.held) == {"encoder.patches"}
    first, second = (checkpoints.read(path).tensors("scorer") for path in (answered.init, out))
    unchanged = {name for name, tensor in first.items() if tensor.equal(second[name])}
    assert unchanged == {"encoder.patches"}
    assert all(parameter.requires_grad for parameter in retraining.held.values())
    for fixed, message in (
        (("encoder.eyes",), "no parameter's name"),
        (("enc",), "leaves no para"),
    ):
        with pytest.raises(UnreadableInput, match=message):
            split_parameters(dict(retraining.scorer.named_parameters()), fixed)


# ------------------------------------------------------------------------------------ the training


def test_files_that_a_retraining_writes(answered: Answered, out: Path) -> None:
    loaded = load_scorer(out, None, CPU)
    init = checkpoints.read(answered.init)
    assert loaded.checkpoint.about["init_sha256"] == init.sha256 != loaded.checkpoint.sha256
    assert loaded.checkpoint.about["release"]["name"] == "drawn-hp"
    report = report_of(out)
    parts = [row["part"] for row in rows(answered.release, "splits")]
    assert report["simulated"]
    assert report["n_train"] == parts.count("train")
    held_out = report["held_out"]
    assert held_out["n_questions"] == parts.count("test")
    assert {figure["name"] for figure in held_out["figures"]} == {
        "spearman.rho",
        "tie_half",
        "brier",
    }
    assert [epoch["loss"] for epoch in report["epochs"]] == sorted(
        (epoch["loss"] for epoch in report["epochs"]), reverse=True
    )
    fitted = json.loads((out / "answer_model.json").read_text())["after"]
    assert len(fitted["offsets"]) == 3
    card = (out / "MODEL_CARD.md").read_text()
    assert init.sha256 in card
    assert "simulated" in card


def test_report_equals_the_scores_of_the_checkpoints(answered: Answered, out: Path) -> None:
    """The scores behind the report are those that the saved scorers give."""
    questions = read_answers(answered.release).part("test")
    tokens = FeatureCache.open(answered.cache, load_scorer(out, None, CPU).scorer.encoder)
    files = {path.stem: path for path in answered.pictures.iterdir()}
    tokens.fill(files, device=CPU)
    figures = {figure["name"]: figure for figure in report_of(out)["held_out"]["figures"]}
    for moment, path in (("before", answered.init), ("after", out)):
        scorer = load_scorer(path, None, CPU).scorer
        inference = Inference(scorer, tokens, ONE_PROCESS, torch.float32)
        sets = set_scores(questions, scorer, inference)
        right = [
            0.5 if first == second else float((first > second) == (question.preferred == 1))
            for question, (first, second) in zip(questions, sets.tolist(), strict=True)
        ]
        assert figures["tie_half"][moment]["value"] == pytest.approx(fmean(right))
        slope, bias = (
            json.loads((out / "answer_model.json").read_text())[moment][key]["value"]
            for key in ("slope", "side_bias")
        )
        errors = [
            (1 / (1 + math.exp(-(slope * (first - second) + bias))) - (question.preferred == 1))
            ** 2
            for question, (first, second) in zip(questions, sets.tolist(), strict=True)
        ]
        assert figures["brier"][moment]["value"] == pytest.approx(fmean(errors), abs=1e-6)


def test_the_same_again_gives_the_same_weights(
    answered: Answered, out: Path, tmp_path: Path
) -> None:
    second = answered.retrain(tmp_path / "again")
    assert second.sha256 == checkpoints.read(out).sha256
    before = files_below(out)
    assert answered.retrain(out).sha256 == second.sha256
    assert files_below(out) == before
    other_seed = answered.retrain(tmp_path / "other", replace(QUICK, seed=2))
    assert other_seed.sha256 != second.sha256


# ------------------------------------------------------------------------------- earlier releases


def test_checkpoint_records_every_release_it_was_trained_on(
    answered: Answered, out: Path, later: Path, retrained_twice: Path, tmp_path: Path
) -> None:
    """Retrained on one release, on another, on the first again, and once more on the other."""
    first, second = source(answered.release), source(later)
    checkpoint = checkpoints.read(retrained_twice)
    assert checkpoint.about["earlier_releases"] == [first]
    assert checkpoint.about["release"]["name"] == "later-hp"
    assert trained_on(checkpoint) == [first, second]
    chain = [retrained_twice, tmp_path / "thrice", tmp_path / "again"]
    for init, end, release in zip(chain, chain[1:], (answered.release, later), strict=False):
        replace(answered, init=init).retrain(end, BRIEF, release=release)
        assert checkpoints.read(end).about["earlier_releases"] == [first, second]
        assert trained_on(checkpoints.read(end)) == [first, second]
    for single in (answered.init, out):
        assert checkpoints.read(single).about.get("earlier_releases", []) == []
    assert trained_on(checkpoints.read(answered.init)) == []
    (note,) = report_of(tmp_path / "thrice")["notes"]
    assert note.endswith("earlier release: later-hp 1.0.0 (content sha256 other conten).")


def test_training_on_triplets_again_keeps_the_recorded_releases(
    answered: Answered, drawn: Drawn, out: Path, tmp_path: Path
) -> None:
    brief = ("--set", "epochs=1", "--set", "n_def=1")
    for name, init, releases in (
        ("retrained", out, [source(answered.release)]),
        ("plain", answered.init, []),
    ):
        assert hsfiq(*options(drawn, tmp_path / name, *brief, "--init", str(init))).code == 0
        assert trained_on(checkpoints.read(tmp_path / name)) == releases


def test_report_notes_earlier_releases(
    answered: Answered, out: Path, retrained_twice: Path
) -> None:
    first = source(answered.release)
    (note,) = report_of(retrained_twice)["notes"]
    assert note == (
        "Figures on the held-out part may be too good if the scorer was trained on the same "
        "triplets or participants in an earlier release: drawn-hp 1.0.0 (content sha256 "
        f"{first['content_sha256'][:12]})."
    )
    assert (retrained_twice / "MODEL_CARD.md").read_text().count(f"\n\n{note}\n\n| figure") == 1
    assert report_of(out)["notes"] == []
    assert "earlier release" not in (out / "MODEL_CARD.md").read_text()


def test_same_answers_again_give_no_note(answered: Answered, out: Path, tmp_path: Path) -> None:
    repeated = replace(answered, init=out).retrain(tmp_path / "again", BRIEF)
    assert repeated.about["earlier_releases"] == trained_on(repeated) == [source(answered.release)]
    assert report_of(tmp_path / "again")["notes"] == []


def test_checkpoints_without_recorded_releases(
    answered: Answered, out: Path, later: Path, retrained_twice: Path, tmp_path: Path
) -> None:
    """Recognised if there was nothing to record, else refused."""
    old, old_twice = (
        shutil.copytree(path, tmp_path / path.name) for path in (out, retrained_twice)
    )
    drop_earlier_releases(old)
    drop_earlier_releases(old_twice)
    before = files_below(tmp_path)
    assert answered.retrain(old).sha256 == checkpoints.read(out).sha256
    with pytest.raises(UnreadableInput, match="holds a run with other earlier_releases; name"):
        replace(answered, init=out).retrain(old_twice, BRIEF, release=later)
    assert files_below(tmp_path) == before


def test_invalid_earlier_releases_are_ignored(out: Path) -> None:
    """Only entries that describe a release count."""
    checkpoint = checkpoints.read(out)
    for invalid in (None, 3, "drawn-hp", {"name": "drawn-hp"}, ["drawn-hp", None]):
        about = {**checkpoint.about, "earlier_releases": invalid}
        assert trained_on(replace(checkpoint, about=about)) == trained_on(checkpoint)


# --------------------------------------------------------------------------------- what is held out


def test_held_out_answers_are_not_trained_on(answered: Answered, out: Path, release: Path) -> None:
    test = {row["question_id"] for row in rows(release, "splits") if row["part"] == "test"}

    def turn(row: dict[str, Any]) -> None:
        if row["question_id"] in test:
            row["preferred"] = 3 - row["preferred"]
            row["score_1"], row["score_2"] = row["score_2"], row["score_1"]

    rewrite(release, "preferences", turn)
    changed = answered.retrain(release.with_name("out"), release=release)
    assert changed.sha256 == checkpoints.read(out).sha256
    assert report_of(changed.path.parent)["held_out"] != report_of(out)["held_out"]


def test_triplets_are_mixed_in(answered: Answered, drawn: Drawn, out: Path, tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=1)
    mixed = answered.retrain(tmp_path / "mixed", replace(settings, mix=1.0), data=drawn.data)
    separate = answered.retrain(tmp_path / "apart", settings, data=drawn.data)
    assert mixed.sha256 != separate.sha256
    first = report_of(tmp_path / "mixed")
    assert first["epochs"][0]["triplet"] > 0
    assert first["epochs"][0]["loss"] == pytest.approx(
        first["epochs"][0]["preference"]
        + settings.score_weight * first["epochs"][0]["score"]
        + first["epochs"][0]["triplet"]
    )
    assert "triplet" not in report_of(tmp_path / "apart")["epochs"][0]
    assert first["retrieval"]["n_triplets"] == len(drawn.data.val)
    names = {figure["name"] for figure in first["retrieval"]["figures"]}
    assert names == {"recall@1", "recall@5"}
    assert report_of(out)["retrieval"] is None


def test_held_out_triplets_are_not_mixed_in(drawn: Drawn) -> None:
    first = drawn.data.train[0]
    answers = ReleaseAnswers(
        {}, (), has_splits=True, held_out=frozenset({(first.reference, first.target)})
    )
    remaining = without_held_out(drawn.data, answers)
    assert first in drawn.data.train
    assert first not in remaining.train
    assert len(remaining.train) == len(drawn.data.train) - 1


def test_without_a_split_nothing_is_held_out(answered: Answered, release: Path) -> None:
    (release / "splits.parquet").unlink()
    manifest = json.loads((release / "manifest.json").read_text())
    del manifest["split"]
    (release / "manifest.json").write_text(json.dumps(manifest))
    out = release.with_name("out")
    answered.retrain(out, replace(QUICK, epochs=1), release=release)
    report = report_of(out)
    assert report["n_train"] == 150
    assert report["held_out"] is None
    assert "no split" in report["reason"]


def test_images_that_are_missing(answered: Answered, release: Path, tmp_path: Path) -> None:
    pictures = shutil.copytree(answered.pictures, tmp_path / "pictures")
    missing = read_answers(release).part("train")[0].sets[0].images[0]
    next(pictures.glob(f"{missing}.*")).unlink()
    poorer = replace(answered, pictures=pictures)
    poorer.retrain(tmp_path / "out", replace(QUICK, epochs=1))
    lacking = [
        question.question_id
        for question in read_answers(release).questions
        if missing in question.images
    ]
    report = report_of(tmp_path / "out")
    assert sorted(report["left_out"]) == sorted(lacking)
    assert report["n_train"] + report["held_out"]["n_questions"] == 150 - len(lacking)
    for path in pictures.iterdir():
        path.unlink()
    with pytest.raises(NothingToDo, match="no training question has all its images"):
        poorer.retrain(tmp_path / "none")


def test_a_leak_is_refused(answered: Answered, release: Path) -> None:
    """A triplet is asked about in both parts: the first test question is trained on as well."""
    parts = rows(release, "splits")
    query = {row["question_id"]: row["query_id"] for row in rows(release, "preferences")}
    test = next(row["question_id"] for row in parts if row["part"] == "test")
    train = next(row["question_id"] for row in parts if row["part"] == "train")

    def plant(row: dict[str, Any]) -> None:
        if row["question_id"] == train:
            row["query_id"] = query[test]

    rewrite(release, "preferences", plant)
    with pytest.raises(UnreadableInput, match="leaks"):
        answered.retrain(release.with_name("out"), release=release)
    assert not release.with_name("out").exists()


def test_a_participant_in_both_parts_is_refused(answered: Answered, release: Path) -> None:
    """Split by participant, and one answer of those held out is trained on as well."""
    by_person = {row["question_id"]: row["participant_id"] for row in rows(release, "preferences")}
    people = sorted(set(by_person.values()))
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    manifest["split"]["by"] = "participant"
    (release / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")

    def part(row: dict[str, Any]) -> None:
        row["part"] = "test" if by_person[row["question_id"]] == people[0] else "train"

    rewrite(release, "splits", part)
    answered.retrain(release.with_name("sound"), replace(QUICK, epochs=1), release=release)
    planted = next(name for name, person in by_person.items() if person == people[0])

    def plant(row: dict[str, Any]) -> None:
        if row["question_id"] == planted:
            row["part"] = "train"

    rewrite(release, "splits", plant)
    with pytest.raises(UnreadableInput, match="leaks"):
        answered.retrain(release.with_name("out"), release=release)
    assert not release.with_name("out").exists()


# ---------------------------------------------------------------------------------------- weights


def question(name: str, scores: tuple[int, int], preferred: int) -> Question:
    released_set = ReleasedSet("s", "q", "r", "text", ("i",))
    return Question("q", name, (released_set, released_set), preferred, scores, "train")


def test_contradicting_participants_weigh_less() -> None:
    questions = [
        *(question("sure", (4, 2), 1) for _ in range(30)),
        *(question("random", (4, 2), 1 + i % 2) for i in range(30)),
        *(question("equal", (3, 3), 1) for _ in range(30)),
    ]
    share = 15 / 60
    prior = PRIOR_ANSWERS
    reliability = reliability_weights(questions, {})
    assert reliability == {
        "sure": pytest.approx(1 - 2 * prior * share / (30 + prior)),
        "random": pytest.approx(1 - 2 * (15 + prior * share) / (30 + prior)),
        "equal": pytest.approx(1 - 2 * share),
    }
    assert reliability["random"] < reliability["equal"] < reliability["sure"]
    # Answers that the filter dropped count too.
    assert reliability_weights(questions, {"sure": 20})["sure"] < reliability["sure"]
    weights = answer_tensors(questions, reliability).weights
    assert weights.mean().item() == pytest.approx(1)
    with pytest.raises(NothingToDo, match="every participant contradicts themself"):
        answer_tensors(questions, dict.fromkeys(reliability, 0.0))


def test_dropped_contradictions_are_counted(release: Path) -> None:
    path = release / "exclusions.parquet"
    row = {"question_id": "q", "query_id": "t", "value": "v"}
    dropped = [("a", "contradicts"), ("a", "contradicts"), ("b", "irrelevant")]
    table = [{**row, "participant_id": name, "rule": rule} for name, rule in dropped]
    pq.write_table(pa.Table.from_pylist(table, schema=pq.read_schema(path)), path)
    assert dropped_contradictions(release) == {"a": 2}


def test_reliability_changes_the_training(answered: Answered, out: Path, tmp_path: Path) -> None:
    weighed = answered.retrain(tmp_path / "out", replace(QUICK, reliability="on"))
    assert weighed.sha256 != checkpoints.read(out).sha256


def test_answer_model_is_fitted_to_the_current_scorer(retraining: Retraining) -> None:
    sets = set_scores(retraining.questions, retraining.scorer, retraining.inference)
    expected = fit_answers(sets, retraining.answers, QUICK.offset_sd)
    torch.testing.assert_close(retraining.fit().preferences.values, expected.preferences.values)
