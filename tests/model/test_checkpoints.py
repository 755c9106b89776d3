"""A checkpoint is complete or absent, small in memory, and a broken one is refused in one line."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from hsfiq.atomic_files import sha256_of
from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import read, save
from hsfiq.model.scorer.job import Progress, RunFolder
from tests.model.scorer.helpers import Drawn, files_below, hsfiq, options
from tests.processes import forkserver_context

pytestmark = pytest.mark.usefixtures("one_thread")


def parts_of(value: int) -> dict[str, dict[str, torch.Tensor]]:
    """Tensors filled with one number."""
    return {
        "scorer": {"a": torch.full((300, 100), float(value)), "b": torch.full((3,), float(value))},
        "state": {"a": torch.full((70, 100), float(value)), "n": torch.tensor(value)},
    }


def value_of(folder: Path, name: str = "last") -> int:
    """The number in the JSON file and in every tensor."""
    checkpoint = read(folder / f"{name}.json")
    values = {
        value
        for part in checkpoint.about["files"]
        for tensor in checkpoint.tensors(part).values()
        for value in tensor.unique().tolist()
    }
    assert values == {checkpoint.about["value"]}
    return int(checkpoint.about["value"])


def test_a_saved_checkpoint_is_read_back(tmp_path: Path) -> None:
    saved = save(tmp_path / "run", "last", {"value": 3, "words": "é"}, parts_of(3))
    loaded = read(tmp_path / "run")
    assert loaded == saved
    assert loaded.about["words"] == "é"
    for part, tensors in parts_of(3).items():
        loaded_tensors = loaded.tensors(part)
        assert loaded_tensors.keys() == tensors.keys()
        assert all(loaded_tensors[name].equal(tensors[name]) for name in tensors)


def test_saving_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, "best", {"value": 0}, {"scorer": parts_of(0)["scorer"]})
    for value in (1, 2, 2, 3):
        save(tmp_path, "last", {"value": value}, parts_of(value))
        assert value_of(tmp_path) == value
    assert len(list(tmp_path.iterdir())) == 3 + 2
    assert value_of(tmp_path, "best") == 0


def test_a_folder_means_its_best_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, "last", {"value": 1}, parts_of(1))
    assert read(tmp_path).path.name == "last.json"
    save(tmp_path, "best", {"value": 0}, {"scorer": parts_of(0)["scorer"]})
    assert read(tmp_path).path.name == "best.json"


def test_tensors_have_the_permissions_of_other_files(tmp_path: Path) -> None:
    save(tmp_path, "last", {"value": 1}, parts_of(1))
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


def test_the_same_weights_have_the_same_name(tmp_path: Path) -> None:
    first = save(tmp_path / "a", "last", {"value": 1}, parts_of(1))
    second = save(tmp_path / "b", "best", {}, {"scorer": parts_of(1)["scorer"]})
    assert first.sha256 == second.sha256
    assert save(tmp_path / "b", "best", {}, {"scorer": parts_of(2)["scorer"]}) != second


def save_for_ever(folder: Path) -> None:
    torch.set_num_threads(1)
    value = 0
    while True:
        value += 1
        save(folder, "last", {"value": value}, parts_of(value))


def test_a_checkpoint_is_complete_whenever_the_process_is_killed(tmp_path: Path) -> None:
    moments = random.Random(5)
    reached = []
    for _ in range(10):
        process = forkserver_context().Process(target=save_for_ever, args=(tmp_path,), daemon=True)
        before = (tmp_path / "last.json").stat().st_mtime_ns if reached else 0
        process.start()
        while not (tmp_path / "last.json").is_file() or (
            (tmp_path / "last.json").stat().st_mtime_ns == before
        ):
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.03))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        process.close()
        reached.append(value_of(tmp_path))
    assert all(value >= 1 for value in reached)
    # What the dead left behind goes with the next checkpoint.
    save(tmp_path, "last", {"value": 0}, parts_of(0))
    assert value_of(tmp_path) == 0
    assert len(list(tmp_path.iterdir())) == 3


@contextmanager
def no_file_beyond(n_bytes: int) -> Iterator[None]:
    """Simulate a full disk: writing fails half-way."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("n_bytes", [0, 5000, 125_000])
def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path, n_bytes: int) -> None:
    save(tmp_path, "last", {"value": 1}, parts_of(1))
    before = files_below(tmp_path)
    with no_file_beyond(n_bytes), pytest.raises((UnreadableInput, OSError)) as failed:
        save(tmp_path, "last", {"value": 2, "long": "x" * 130_000}, parts_of(2))
    assert "\n" not in str(failed.value)
    remaining = files_below(tmp_path)
    assert before.items() <= remaining.items()
    assert not any("draft" in name for name in remaining)
    assert value_of(tmp_path) == 1


def tensors_file(folder: Path) -> Path:
    return next(folder.glob("last-scorer-*.safetensors"))


def edited(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Change the content of the file of tensors."""
    return lambda folder: tensors_file(folder).write_bytes(
        change(tensors_file(folder).read_bytes())
    )


def described(content: bytes) -> Callable[[Path], object]:
    """Write another JSON file."""
    return lambda folder: (folder / "last.json").write_bytes(content)


def replaced(**values: object) -> Callable[[Path], object]:
    """Replace values of the JSON file."""

    def replace_values(folder: Path) -> None:
        about = json.loads((folder / "last.json").read_text())
        described(json.dumps({**about, **values}).encode())(folder)

    return replace_values


def write_rubbish(folder: Path) -> None:
    """A file that holds no tensors, with a JSON file whose digest matches it."""
    path = tensors_file(folder)
    path.write_bytes(b"rubbish")
    entry = {"file": path.name, "sha256": sha256_of(path), "bytes": 7}
    replaced(files={"scorer": entry})(folder)


CHANGED, FORMAT = "is not the file that last.json names", "is not a checkpoint of format 1"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (edited(lambda content: content[:-100]), CHANGED),
        (
            edited(lambda content: content[:-50] + bytes([content[-50] ^ 1]) + content[-49:]),
            CHANGED,
        ),
        (lambda folder: tensors_file(folder).unlink(), "is missing, and last.json needs it"),
        (write_rubbish, "holds no tensors"),
        (described(b'{"format": 1'), "is not the JSON file of a checkpoint"),
        (described(b"\xff\xfe\0"), "is not the JSON file"),
        (described(b"[1]"), FORMAT),
        (described(b"{}"), FORMAT),
        (replaced(format=2), FORMAT),
        (replaced(files={}), FORMAT),
        (replaced(files={"scorer": 1}), FORMAT),
        (replaced(files={"scorer": {"file": "x"}}), FORMAT),
        (lambda folder: (folder / "last.json").unlink(), "has no checkpoint"),
    ],
)
def test_a_broken_checkpoint_is_refused(
    tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    save(tmp_path, "last", {"value": 1}, parts_of(1))
    spoil(tmp_path)
    with pytest.raises(UnreadableInput) as error_info:
        read(tmp_path).tensors("scorer")
    assert message in str(error_info.value)
    assert "\n" not in str(error_info.value)


def test_a_checkpoint_of_another_encoder_is_refused(drawn: Drawn, tmp_path: Path) -> None:
    save(tmp_path / "init", "best", {}, {"scorer": parts_of(1)["scorer"]})
    for init in (tmp_path / "init", tmp_path / "init" / "best.json"):
        command = hsfiq(*options(drawn, tmp_path / "out", "--checkpoint", init))
        assert (command.code, command.out) == (2, "")
        assert "does not fit the encoder" in command.last_line
        assert not (tmp_path / "out").exists()


def test_a_file_of_tensors_is_not_a_checkpoint(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "it.safetensors")
    for name, message in (
        ("it.safetensors", "is not the JSON file of a checkpoint; name a run's folder"),
        ("absent.json", "there is no such checkpoint; name a run's folder"),
    ):
        with pytest.raises(UnreadableInput, match=message):
            read(tmp_path / name)


def saved_best(folder: Path, means: list[float]) -> int:
    """Save after every epoch with these mean recalls; the epoch kept as the best."""
    progress, run = Progress(), RunFolder(folder, {}, {})
    for value, mean in enumerate(means):
        progress.count(1, 0.0, 1.0)
        progress.end_epoch(val={"mean": mean})
        run.save(progress, {"a": torch.tensor(float(value))}, {})
    best = read(folder / "best.json")
    kept = int(best.tensors("scorer")["a"])
    assert best.about["progress"]["epochs"][-1]["epoch"] == kept
    assert int(read(folder / "last.json").tensors("scorer")["a"]) == len(means) - 1
    return kept


@pytest.mark.parametrize(
    ("means", "best"),
    [([0.5], 0), ([0, 0, 0], 0), ([0.1, 0.3, 0.2], 1), ([0.1, 0.3, 0.3], 1), ([0.1, 0.3, 0.4], 2)],
)
def test_the_best_is_the_first_with_the_highest_mean_recall(
    tmp_path: Path, means: list[float], best: int
) -> None:
    assert saved_best(tmp_path, means) == best


def test_the_best_changes_only_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    progress, run = Progress(), RunFolder(tmp_path, {}, {})
    progress.count(1, 0.0, 1.0)
    run.save(progress, {"a": torch.tensor(0.0)}, {})
    assert not (tmp_path / "best.json").exists()
    assert read(tmp_path).path.name == "last.json"


steps = st.lists(
    st.tuples(st.integers(1, 9), st.floats(0, 9), st.floats(0, 1)), min_size=1, max_size=6
)


@given(steps)
def test_an_epochs_loss_is_mean_over_its_triplets(batches: list[tuple[int, float, float]]) -> None:
    progress = Progress()
    for n, loss, accuracy in batches:
        progress.count(n, loss, accuracy)
    progress = Progress(**json.loads(json.dumps(vars(progress))))  # as a checkpoint keeps it
    progress.end_epoch()
    per_triplet = [(loss, accuracy) for n, loss, accuracy in batches for _ in range(n)]
    assert progress.epochs[0]["loss"] == pytest.approx(
        sum(values[0] for values in per_triplet) / len(per_triplet)
    )
    assert progress.epochs[0]["accuracy"] == pytest.approx(
        sum(values[1] for values in per_triplet) / len(per_triplet)
    )
    assert (progress.epoch, progress.step, progress.n) == (1, 0, 0)


def test_a_folder_copied_elsewhere_is_the_same_checkpoint(tmp_path: Path) -> None:
    saved = save(tmp_path / "here", "last", {"value": 7}, parts_of(7))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert value_of(tmp_path / "there") == 7
    assert read(tmp_path / "there").sha256 == saved.sha256


def test_tensors_are_written_without_a_copy_in_memory(tmp_path: Path) -> None:
    tensors = {"a": torch.ones(1_000_000), "b": torch.ones(1_000_000)}
    tracemalloc.start()
    try:
        save(tmp_path, "last", {}, {"scorer": tensors})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # bytes, of 8,000,000
