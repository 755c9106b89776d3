"""A run that was killed and resumed equals an uninterrupted run exactly."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hsfiq.cli.training_bar import TrainingBar
from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import Checkpoint, read
from hsfiq.model.scorer.run import judgements
from tests.model.scorer.helpers import (
    SMALL,
    CommandResult,
    Drawn,
    FinishedRun,
    files_below,
    hsfiq,
    is_killed,
    logged,
    options,
    train,
    train_until_killed,
)
from tests.processes import Fork, run_command_line

pytestmark = pytest.mark.usefixtures("one_thread")

N_STEPS = 5
"""Of an epoch: 60 triplets in batches of 13."""


@pytest.fixture(scope="module")
def uninterrupted_run(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A run without interruption."""
    torch.set_num_threads(1)
    return train(drawn, tmp_path_factory.mktemp("whole") / "run")


def assert_the_same_run(out: Path, expected: Path) -> None:
    """Compare the checkpoints' bytes, the history and TensorBoard's log."""
    for name in ("last.json", "best.json", "missing_images.txt"):  # the JSON: sha256 and history
        assert (out / name).read_bytes() == (expected / name).read_bytes()
    assert logged(out) == logged(expected)
    names = {path.name for path in out.iterdir()}
    assert names == {path.name for path in expected.iterdir()}  # no drafts, nothing left over
    for part in ("scorer", "state"):
        ours, theirs = (read(folder / "last.json").tensors(part) for folder in (out, expected))
        assert ours.keys() == theirs.keys()
        assert all(ours[name].equal(theirs[name]) for name in ours)


ALWAYS, AT_EPOCHS = 0.0, 600.0


@pytest.mark.parametrize(
    ("method", "nth", "save_every", "epoch", "step"),
    [
        ("stepped", 3, AT_EPOCHS, None, None),  # in the first epoch, before any checkpoint
        ("stepped", 3, ALWAYS, 0, 2),
        ("stepped", N_STEPS + 4, ALWAYS, 1, 3),
        ("ended", 2, AT_EPOCHS, 1, 0),  # between the log and the checkpoint
        ("ended", 2, ALWAYS, 1, N_STEPS - 1),
        ("defined", 2, AT_EPOCHS, 2, 0),  # when sets were defined anew and nothing drawn yet
        ("stepped", 2 * N_STEPS + 3, AT_EPOCHS, 2, 0),  # the definition is lost, and made again
        ("stepped", 2 * N_STEPS + 3, ALWAYS, 2, 2),  # it is kept
        ("stepped", 3 * N_STEPS + 2, AT_EPOCHS, 3, 0),  # in the second epoch of its draws
        ("saving", 4, AT_EPOCHS, 3, 0),
    ],
)
def test_a_run_killed_anywhere_resumes(
    drawn: Drawn,
    uninterrupted_run: FinishedRun,
    tmp_path: Path,
    method: str,
    nth: int,
    save_every: float,
    epoch: int | None,
    step: int | None,
) -> None:
    out = tmp_path / "run"
    assert is_killed(train_until_killed, SMALL, drawn, out, method, nth, save_every)
    progress = read(out / "last.json").about["progress"] if (out / "last.json").is_file() else {}
    assert (progress.get("epoch"), progress.get("step")) == (epoch, step)
    resumed = train(drawn, out)
    n_done = (epoch or 0) * N_STEPS + (step or 0)
    assert resumed.recorder.losses == uninterrupted_run.recorder.losses[n_done:]
    assert_the_same_run(out, uninterrupted_run.out)


def test_repeated_kills_resume(
    drawn: Drawn, uninterrupted_run: FinishedRun, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    for nth in (4, 3, 8):
        assert is_killed(train_until_killed, SMALL, drawn, out, "stepped", nth, ALWAYS)
    train(drawn, out)
    assert_the_same_run(out, uninterrupted_run.out)


def test_the_log_has_every_step_once(uninterrupted_run: FinishedRun) -> None:
    log = logged(uninterrupted_run.out)
    assert log["train/loss"] == [
        (i, pytest.approx(loss))
        for i, loss in enumerate(uninterrupted_run.recorder.losses, start=1)
    ]
    ends = [N_STEPS * epoch for epoch in range(1, 5)]
    for tag in ("train/lr", "train/temperature", "val/recall@1", "val/recall@5", "val/mean"):
        assert [step for step, _ in log[tag]] == ends
    rates = [epoch["lr"] for epoch in uninterrupted_run.recorder.epochs]
    assert rates == [SMALL.lr_at(epoch) for epoch in range(4)] == sorted(rates, reverse=True)
    # Sets are defined before the first step that draws from them.
    assert [step for step, _ in log["negatives/mean_size"]] == [1, 2 * N_STEPS + 1]


def test_the_card_says_what_was_trained_on_what(uninterrupted_run: FinishedRun) -> None:
    card = (uninterrupted_run.out / "README.md").read_text()
    best = uninterrupted_run.best
    epoch = best.about["progress"]["epochs"][-1]
    recipe = best.about["recipe"]
    assert f"A scorer trained on the drawn catalogue by `{recipe['name']}`" in card
    assert "without human or simulated judgements" in card
    assert f"| recall@5 | {epoch['val']['recall@5']:.4f} |" in card
    assert f"| training targets scored above their negative | {epoch['accuracy']:.4f} |" in card
    assert f"- variant `strategy`: {recipe['strategy']}" in card
    assert "- `encoder`: tiny instead of blip2-vit" in card
    assert f"- weights: sha256 `{best.sha256}`" in card


def test_a_finished_run_is_not_changed(drawn: Drawn, tmp_path: Path) -> None:
    recipe = replace(SMALL, epochs=2)
    first = train(drawn, tmp_path / "run", recipe)
    before = files_below(tmp_path / "run")
    second = train(drawn, tmp_path / "run", recipe)
    assert second.recorder.steps == []
    assert second.best == first.best
    assert files_below(tmp_path / "run") == before


def test_another_run_is_not_resumed(drawn: Drawn, tmp_path: Path) -> None:
    recipe = replace(SMALL, epochs=2)
    train(drawn, tmp_path / "run", recipe)
    before = files_below(tmp_path / "run")
    for other_recipe, data, message in (
        (replace(recipe, lr=1e-3), drawn.data, "other recipe;"),
        (recipe, drawn.first(50), "other data;"),
        (replace(recipe, seed=3), drawn.first(50), "other recipe, data;"),
    ):
        with pytest.raises(UnreadableInput, match=f"holds a run with {message} name another --out"):
            train(drawn, tmp_path / "run", other_recipe, data=data)
    with pytest.raises(UnreadableInput, match="holds a run with other init_sha256"):
        train(drawn, tmp_path / "run", recipe, init=tmp_path / "run")
    assert files_below(tmp_path / "run") == before


def test_only_the_last_checkpoint_can_be_resumed(drawn: Drawn, tmp_path: Path) -> None:
    train(drawn, tmp_path / "run", replace(SMALL, epochs=2))
    shutil.copy(tmp_path / "run" / "best.json", tmp_path / "run" / "last.json")
    with pytest.raises(UnreadableInput, match=r"last\.json: holds no state"):
        train(drawn, tmp_path / "run", replace(SMALL, epochs=2))


def test_a_run_may_start_from_the_checkpoint_of_another(drawn: Drawn, tmp_path: Path) -> None:
    recipe = replace(SMALL, epochs=1, n_def=1)
    first = train(drawn, tmp_path / "first", recipe)
    second = train(drawn, tmp_path / "second", recipe, init=first.out)
    assert second.last.about["init_sha256"] == first.best.sha256
    assert second.recorder.losses[0] != first.recorder.losses[0]


LONG = ("--set", "epochs=8")
"""Enough epochs for the run to be stopped before its end."""


def uninterrupted(drawn: Drawn, out: Path) -> CommandResult:
    return hsfiq(*options(drawn, out, *LONG))


@pytest.fixture(scope="module")
def commanded(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of the command without interruption."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("commanded") / "run"
    assert uninterrupted(drawn, out).code == 0
    return out


def signal_itself() -> None:
    """Run the command; it sends itself a signal when its second epoch has ended.

    The second epoch's checkpoint has not been written by then.
    """
    ended, number = TrainingBar.ended, int(sys.argv.pop(1))

    def ended_and_signalled(bar: TrainingBar, epoch: dict[str, Any]) -> None:
        ended(bar, epoch)
        if epoch["epoch"] == 1:
            os.kill(os.getpid(), number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingBar, "ended", ended_and_signalled)
        run_command_line()


def signalled(drawn: Drawn, out: Path, number: signal.Signals) -> tuple[int, str, str]:
    printed, errors = out.with_name("printed.txt"), out.with_name("errors.txt")
    words = [str(int(number)), *options(drawn, out, *LONG)]
    code = Fork(signal_itself, words, printed, errors, OMP_NUM_THREADS="1").wait()
    return code, printed.read_text(), errors.read_text()


def test_the_command_killed_and_repeated(drawn: Drawn, commanded: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, _, _ = signalled(drawn, out, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert read(out / "last.json").about["progress"]["epoch"] == 1
    command = uninterrupted(drawn, out)
    assert command.code == 0
    assert "resuming at epoch 1, step 0" in command.err
    assert_the_same_run(out, commanded)


def test_an_interrupted_command_resumes(drawn: Drawn, commanded: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, stdout, stderr = signalled(drawn, out, signal.SIGINT)
    assert (code, stdout) == (130, "")
    assert "Traceback" not in stderr
    assert uninterrupted(drawn, out).code == 0
    assert_the_same_run(out, commanded)


def test_answers_that_the_initial_scorer_learned_from_are_named() -> None:
    release = {"name": "drawn", "version": "1.0.0", "content_sha256": "0" * 64}
    started = Checkpoint(Path("best.json"), {"earlier_releases": [release]})
    (text,) = judgements(started)
    assert text.endswith("on the answers of drawn 1.0.0.")
    (text,) = judgements(Checkpoint(Path("best.json"), {"earlier_releases": []}))
    assert "without human or simulated judgements" in text
