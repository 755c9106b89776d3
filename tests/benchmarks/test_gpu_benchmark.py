"""The benchmark of a GPU, with small shapes on the CPU: every part runs."""

from __future__ import annotations

import pytest
import torch

from benchmarks import gpu

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def one_thread() -> None:
    torch.set_num_threads(1)


def test_every_part_runs_on_a_cpu() -> None:
    result = gpu.run(seed=0, full=False, device="cpu")
    parts = {case["part"] for case in result["cases"]}
    assert parts == {"step", "resume", "mine", "rank", "equal"}
    steps = [case for case in result["cases"] if case["part"] == "step"]
    assert {(case["dtype"], case["cached"]) for case in steps} == {
        (name, is_cached) for name in ("fp32", "bf16") for is_cached in (True, False)
    }
    assert all(case["triplets_per_s"] > 0 and case["peak_memory_mb"] is None for case in steps)
    by_part = {case["part"]: case for case in result["cases"]}
    assert by_part["resume"]["to_the_bit"] is True
    assert by_part["equal"] == {"part": "equal", "largest_difference": 0.0, "same_best": 1.0}


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so() -> None:
    with pytest.raises(SystemExit, match="this machine has no GPU; --device cpu"):
        gpu.run(seed=0, full=False)
