"""A run that diverges stops, names the location, and keeps its last checkpoint intact."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import read
from hsfiq.model.image_tokens import TokenSource
from hsfiq.model.runtime import Diverged, first_not_finite, prefetched
from hsfiq.model.scorer.job import RunFolder, Step, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths, new_scorer
from hsfiq.model.scorer.scorer import Scorer
from hsfiq.model.scorer.training import Trainer
from tests.model.retrieval.helpers import StopAt, Stopped
from tests.model.scorer.helpers import (
    ONE_PROCESS,
    SMALL,
    Drawn,
    Recorder,
    files_below,
    hsfiq,
    options,
    train,
)

pytestmark = pytest.mark.usefixtures("one_thread")


class Saboteur(Recorder):
    """Makes a weight NaN after some step."""

    def __init__(self, weight: Tensor, epoch: int, index: int) -> None:
        super().__init__()
        self._weight, self._place = weight, (epoch, index)

    def stepped(self, step: Step) -> None:
        super().stepped(step)
        if (step.epoch, step.index) == self._place:
            with torch.no_grad():
                self._weight.view(-1)[0] = torch.nan


def trainer_of(
    drawn: Drawn, tokens: TokenSource, folder: Path, place: tuple[int, int] = (99, 0)
) -> tuple[Trainer, Scorer]:
    scorer = new_scorer(SMALL, None)
    saboteur = Saboteur(scorer.encoder.get_parameter("vision_proj.weight"), *place)  # type: ignore[attr-defined]
    run_folder = RunFolder(folder, {"recipe": SMALL.to_json()}, {})
    job = TrainingJob(drawn.data, folder, ScorerPaths(), ONE_PROCESS, saboteur)
    return Trainer(scorer, SMALL, job, tokens, run_folder), scorer


def test_a_nan_weight_is_named(drawn: Drawn, tokens: TokenSource, tmp_path: Path) -> None:
    trainer, _ = trainer_of(drawn, tokens, tmp_path, (1, 2))
    with pytest.raises(Diverged) as error_info:
        trainer.train()
    assert re.fullmatch(
        r"epoch 1, step 3: the loss is not finite; first seen in the weights of "
        r"encoder\.vision_proj\.weight, triplets \w+\.train\.\d+, \w+\.train\.\d+, "
        r"\w+\.train\.\d+, \.\.\.; the last checkpoint is intact; try a lower lr, clip_norm=1, or "
        r"precision=fp32",
        str(error_info.value),
    )
    assert error_info.value.exit_code == 1
    last = read(tmp_path / "last.json")
    assert last.about["progress"]["epoch"] == 1
    for part in ("scorer", "state"):
        assert all(tensor.isfinite().all() for tensor in last.tensors(part).values())
    assert not any("draft" in name for name in files_below(tmp_path))


def test_divergence_before_any_checkpoint(
    drawn: Drawn, tokens: TokenSource, tmp_path: Path
) -> None:
    trainer, _ = trainer_of(drawn, tokens, tmp_path, (0, 0))
    with pytest.raises(Diverged, match=r"epoch 0, step 1: .*; no checkpoint was written; try"):
        trainer.train()
    assert [path.name for path in tmp_path.iterdir()] == ["tensorboard"]


def test_the_last_step_is_checked_too(drawn: Drawn, tokens: TokenSource, tmp_path: Path) -> None:
    trainer, _ = trainer_of(drawn, tokens, tmp_path, (1, 4))
    with pytest.raises(
        Diverged,
        match=r"epoch 1, step 5: the weights of encoder\.vision_proj\.weight are not finite",
    ):
        trainer.train()
    assert read(tmp_path / "last.json").about["progress"]["epoch"] == 1


def test_broken_weights_are_never_saved_within_an_epoch(
    drawn: Drawn, tokens: TokenSource, tmp_path: Path
) -> None:
    trainer, _ = trainer_of(drawn, tokens, tmp_path, (0, 2))
    trainer.save_every = 0
    with pytest.raises(Diverged, match=r"epoch 0, step 3: the weights of .*; the last checkpoint "):
        trainer.train()
    assert read(tmp_path / "last.json").about["progress"]["step"] == 2


class BrokenTokens:
    """Tokens, NaN for one image."""

    def __init__(self, tokens: TokenSource, image: str) -> None:
        self._tokens, self._image = tokens, image

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        tokens = self._tokens.tokens(image_ids)
        for i, image in enumerate(image_ids):
            if image == self._image:
                tokens[i, 0, 0] = torch.nan
        return tokens


def test_the_first_nan_module_is_named(drawn: Drawn, tokens: TokenSource, tmp_path: Path) -> None:
    target = drawn.data.train[17].target
    broken = BrokenTokens(tokens, target)
    trainer, scorer = trainer_of(drawn, broken, tmp_path)
    with pytest.raises(
        Diverged, match=r"epoch 0, step \d: the loss is not finite; first seen in encoder\.\w+, "
    ):
        trainer.train()
    assert not any(module._forward_hooks for module in scorer.modules())  # none is left behind


class Faulty(nn.Module):
    """Divides by zero in its second layer, or after both."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.first, self.second, self.fault = nn.Linear(2, 2), nn.Linear(2, 2), fault

    def forward(self, values: Tensor) -> Tensor:
        if self.fault == "second":
            return self.second(self.first(values) / 0 * 0)
        return self.second(self.first(values)) / (0 if self.fault == "after" else 1)


@pytest.mark.parametrize(
    ("fault", "culprit"), [("second", "second"), ("after", "the scores"), ("nowhere", None)]
)
def test_first_not_finite(fault: str, culprit: str | None) -> None:
    module = Faulty(fault)
    assert first_not_finite(module, lambda: module(torch.ones(1, 2))) == culprit


def test_exploding_weights(drawn: Drawn, tmp_path: Path) -> None:
    """Each step multiplies every weight by about 1 - lr * weight_decay = -9."""
    values = ("lr=10", "weight_decay=1", "clip_norm=none", "epochs=12")
    words = [word for value in values for word in ("--set", value)]
    command = hsfiq(*options(drawn, tmp_path / "run", *words, "--json"))
    assert (command.code, command.out) == (1, "")
    assert re.match(
        r"hsfiq: epoch [1-9]\d*, step \d: the loss is not finite; first seen in encoder\.[\w.]+, "
        r"triplets \w+\.train\.\d+, .*; the last checkpoint is intact; try",
        command.last_line,
    )
    checkpoint = read(tmp_path / "run")
    assert all(tensor.isfinite().all() for tensor in checkpoint.tensors("scorer").values())
    assert not any("draft" in path.name for path in (tmp_path / "run").iterdir())


def test_fp16_needs_a_gpu(drawn: Drawn, tmp_path: Path) -> None:
    words = ("--device", "cpu", "--set", "precision=fp16")
    command = hsfiq(*options(drawn, tmp_path / "run", *words))
    assert (command.code, command.last_line) == (
        2,
        "hsfiq: precision=fp16: needs a GPU; on a CPU: bf16, fp32 or auto",
    )
    assert not (tmp_path / "run").exists()


def test_prefetching_changes_nothing() -> None:
    assert list(prefetched(iter(range(5)))) == list(range(5))
    assert list(prefetched(iter([None, 0]))) == [None, 0]
    assert list(prefetched(iter(()))) == []


def test_a_prefetching_error_is_raised_at_its_item() -> None:
    items = prefetched(1 / (2 - i) for i in range(9))
    assert [next(items), next(items)] == [0.5, 1]
    with pytest.raises(ZeroDivisionError):
        next(items)


def prefetching() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_no_thread_outlives_a_failed_run(drawn: Drawn, tokens: TokenSource, tmp_path: Path) -> None:
    trainer, _ = trainer_of(drawn, tokens, tmp_path)
    trainer.callbacks = [StopAt(1)]
    with pytest.raises(Stopped) as error:
        trainer.train()
    assert error.traceback  # which holds every frame of the run
    assert prefetching() == []


def test_a_failed_run_closes_its_files(drawn: Drawn, tmp_path: Path) -> None:
    image = drawn.data.train[3].target
    data = replace(drawn.data, images={**drawn.data.images, image: tmp_path / "absent.jpg"})
    threads = threading.active_count()
    with pytest.raises(UnreadableInput, match=r"absent\.jpg: cannot be read"):
        train(drawn, tmp_path / "run", data=data, cached=False)
    assert threading.active_count() == threads
