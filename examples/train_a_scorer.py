"""Train a small scorer, score a release with it, and compare it with recall@5.

Everything is drawn and the annotators are simulated. The scorer trains on 200 triplets for two
epochs, to end quickly; with `--set epochs=12` and without `--limit`, it becomes good in minutes.
"""

from __future__ import annotations

from pathlib import Path

from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.metrics import parse_metric
from hsfiq.analysis.data.release import read_release
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.cli import run


def main() -> None:
    """Train, make a release, score it and analyze both metrics."""
    short = ["--limit", "200", "--set", "epochs=2", "--set", "n_def=1"]
    run(
        [
            "train",
            "cirqrs-fashioniq",
            "--data",
            "drawn",
            "--out",
            "scorer",
            "--cache",
            "features",
            *short,
        ]
    )
    run(["demo", "--answers", "100", "--seed", "1", "--dir", "study"])
    run(["export", "--database", "sqlite:///study/hsfiq.db", "--release", "hp", "--out", "release"])
    run(
        [
            "score",
            "release",
            "--checkpoint",
            "scorer",
            "--images",
            "study/images",
            "--cache",
            "features",
        ]
    )

    release = read_release(Path("release"))
    result = analyze(
        release,
        [parse_metric("recall@5"), parse_metric("cirqrs")],
        Bootstrap.of_release(release, n_resamples=500, seed=1),
    )
    for name, metric in result.metrics.items():
        print(f"{name}: rho {metric.spearman.rho:.3f}, n {metric.spearman.n}")


if __name__ == "__main__":
    main()
