"""A run is the same with any number of processes, accumulated parts, and with or without cache."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hsfiq.model.checkpoints import read
from hsfiq.model.encoders.tiny import Tiny
from hsfiq.model.recipes import Recipe
from hsfiq.model.runtime import Distributed
from tests.model.scorer.helpers import (
    SMALL,
    Drawn,
    FinishedRun,
    hsfiq,
    in_processes,
    logged,
    options,
    train,
    train_shared,
)
from tests.processes import Fork

pytestmark = pytest.mark.usefixtures("one_thread")

TOLERANCE = 1e-4
"""Of losses about 0.7 that differ only in the order of float32 additions. Rounding differs at each
step, and AdamW, which divides a gradient by its size, amplifies it a little; measured below 3e-6.
A wrong weight of one triplet would make a difference above 1e-2."""


def assert_same_definitions(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    """The same sets, whose hardness depends on the weights and so on the order of additions."""
    for ours, theirs in zip(first, second, strict=True):
        assert ours == theirs | {"hardness": ours["hardness"]}
        assert ours["hardness"] == pytest.approx(theirs["hardness"], abs=1e-3)


def assert_same_course(first: list[float], second: list[float]) -> None:
    assert len(first) == len(second)
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) < TOLERANCE


@pytest.fixture(scope="module")
def plain(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """`SMALL`, trained by one process with the cache."""
    torch.set_num_threads(1)
    return train(drawn, tmp_path_factory.mktemp("plain") / "run")


def test_equal_seeds_give_equal_weights(drawn: Drawn, plain: FinishedRun, tmp_path: Path) -> None:
    repeated = train(drawn, tmp_path / "again")
    assert repeated.recorder.losses == plain.recorder.losses
    for name in ("best.json", "last.json"):  # which hold the sha256 of every tensor
        assert (repeated.out / name).read_bytes() == (plain.out / name).read_bytes()


def test_cached_and_uncached_training_are_identical(drawn: Drawn, tmp_path: Path) -> None:
    short = replace(SMALL, epochs=2)
    cached = train(drawn, tmp_path / "cached", short, data=drawn.first(30))
    encoded = train(drawn, tmp_path / "encoded", short, data=drawn.first(30), cached=False)
    assert cached.recorder.losses == encoded.recorder.losses
    assert cached.last.about == encoded.last.about


@pytest.mark.parametrize(("batch", "parts"), [(8, 2), (12, 3)])
def test_batch_in_parts_equals_batch(drawn: Drawn, tmp_path: Path, batch: int, parts: int) -> None:
    """2 x 4 is 8; the last batch of 37 has 5 or 1, which cannot be divided equally."""
    data = drawn.first(37)
    single = train(drawn, tmp_path / "whole", replace(SMALL, epochs=2, batch=batch), data=data)
    recipe = replace(SMALL, epochs=2, batch=batch, accumulate=parts)
    accumulated = train(drawn, tmp_path / "parts", recipe, data=data)
    assert_same_course(accumulated.recorder.losses, single.recorder.losses)


def test_two_processes_equal_one(drawn: Drawn, tmp_path: Path) -> None:
    """The last batch, of 53 triplets in 13s, has one: fewer than there are processes."""
    data = drawn.first(53)
    recipes = {
        "plain": replace(SMALL, epochs=3),
        "parts": replace(SMALL, batch=12, accumulate=4, strategy="qure", n_neg=None, epochs=2),
    }
    single_runs = {
        name: train(drawn, tmp_path / name, recipe, data=data) for name, recipe in recipes.items()
    }
    first, second = in_processes(2, train_shared, recipes, data, tmp_path / "two", drawn.cache)
    for name, single_run in single_runs.items():
        assert_same_course(first[name].losses, single_run.recorder.losses)
        together = read(tmp_path / "two" / name / "last.json").about["progress"]
        assert_same_definitions(
            together["definitions"], single_run.last.about["progress"]["definitions"]
        )
        for line, single_line in zip(together["epochs"], single_run.recorder.epochs, strict=True):
            assert line["loss"] == pytest.approx(single_line["loss"], abs=TOLERANCE)
            assert line["val"] == pytest.approx(single_line["val"], abs=0.03)  # one query of 36
        assert logged(tmp_path / "two" / name).keys() == logged(single_run.out).keys()
    assert not any(recorder.steps for recorder in second.values())  # only the first process speaks


def test_three_processes_equal_one(drawn: Drawn, tmp_path: Path) -> None:
    """Categories of few triplets: a process has none of some of them."""
    data = replace(
        drawn.data,
        train=tuple(example for i, example in enumerate(drawn.data.train) if i % 9 == 0),
        val=drawn.data.val[:1] + drawn.data.val[-2:],
    )
    data = replace(data, corpora={example.pool: data.corpora[example.pool] for example in data.val})
    recipe = replace(SMALL, epochs=2, batch=5)
    single_run = train(drawn, tmp_path / "alone", recipe, data=data)
    recorders, *_ = in_processes(3, train_shared, {"run": recipe}, data, tmp_path, drawn.cache)
    assert_same_course(recorders["run"].losses, single_run.recorder.losses)


def torchrun() -> None:
    """Do what the program of this name does; its workers are new interpreters."""
    from torch.distributed.run import main

    main()


def test_torchrun_equals_one_process(drawn: Drawn, tmp_path: Path) -> None:
    single = hsfiq(*options(drawn, tmp_path / "alone", "--device", "cpu", "--json"))
    command = options(drawn, tmp_path / "two", "--device", "cpu", "--json")
    words = ("--standalone", "--nproc-per-node", "2", "-m", "hsfiq", *command)
    out, errors = tmp_path / "out.txt", tmp_path / "err.txt"
    assert Fork(torchrun, words, out, errors).wait() == 0, errors.read_text()
    err = errors.read_text()
    result = json.loads(out.read_text())  # printed once, by the first
    assert result["loss"] == pytest.approx(single.result["loss"], abs=TOLERANCE)
    assert_same_definitions(result["definitions"], single.result["definitions"])
    assert [line for line in err.splitlines() if line.startswith("epoch")] == [
        line for line in single.err.splitlines() if line.startswith("epoch")
    ]


def combine(distributed: Distributed, sizes: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    results = []
    for n in sizes:
        complete = torch.arange(3 * n, dtype=torch.float32).reshape(n, 3)
        own_share = distributed.share(complete)
        total = torch.zeros(2, dtype=torch.float64)
        total += torch.tensor([len(own_share), own_share.sum().item()])
        results.append((distributed.gather(own_share, n), distributed.total(total)))
        assert distributed.gather(own_share.int(), n).equal(complete.int())
    return results


@pytest.mark.parametrize("processes", [2, 3])
def test_combined_shares_equal_the_complete_result(processes: int) -> None:
    sizes = [0, 1, 2, 3, 4, 5, 7, 12]
    for results in in_processes(processes, combine, sizes):
        for n, (together, total) in zip(sizes, results, strict=True):
            complete = torch.arange(3 * n, dtype=torch.float32).reshape(n, 3)
            assert together.equal(complete)
            assert total.tolist() == [n, complete.sum().item()]


def test_bf16_learns_on_cpu(drawn: Drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are in mixed precision; mining and validation are in fp32."""
    gallery, modes = Tiny.gallery, set()

    def recorded(encoder: Tiny, tokens: Tensor) -> Tensor:
        modes.add((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        return gallery(encoder, tokens)

    monkeypatch.setattr(Tiny, "gallery", recorded)
    recipe: Recipe = replace(SMALL, precision="bf16", epochs=6, n_def=2)
    finished = train(drawn, tmp_path / "run", recipe, data=drawn.first(26))
    losses = [epoch["loss"] for epoch in finished.recorder.epochs]
    assert losses[2] < losses[0] - 0.01  # the second half is on harder negatives
    assert modes == {(True, True), (False, False)}
