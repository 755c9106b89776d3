"""The same seeds give the same catalogue, lists and answers in every process."""

import os
import subprocess
import sys
from pathlib import Path

import hsfiq

SCRIPT = """
import sys
from hashlib import sha256
from random import Random
from hsfiq.drawn import *

garments = catalogue(Random(0), 40)
triplets = draw_triplets(Random(1), garments, 40)
lists = [
    system.rank(triplet, corpus(garments, triplet.category), 7)
    for triplet in triplets for system in SYSTEMS
]
annotators = draw_annotators(Random(2), 5)
answers = [
    annotator.answer(generator(3, annotator.name, triplet.external_id), 0.6, 0.7)
    for annotator in annotators for triplet in triplets
]
worth = [utility(triplet, garment) for triplet in triplets for garment in garments]
parts = [[(t.record(), sorted(t.mentioned)) for t in triplets], lists, annotators, answers, worth]
assert not {"PIL", "numpy", "pandas", "torch", "sqlalchemy"} & set(sys.modules)
print(sha256(repr((garments, parts)).encode()).hexdigest())
"""


def _digest(hash_seed: str) -> str:
    root = str(Path(hsfiq.__file__).parents[1])
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_results_depend_neither_on_the_process_nor_on_the_hash_seed() -> None:
    assert _digest("1") == _digest("2") == _digest("random")
