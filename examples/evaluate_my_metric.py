"""Measure how well a metric of your own agrees with people.

A metric is a number for each retrieved set. This one is the reciprocal rank of the target. The
annotators of this example are simulated.
"""

from __future__ import annotations

from pathlib import Path

from hsfiq import analysis
from hsfiq.analysis.data.release import read_release
from hsfiq.cli import run
from hsfiq.report_folder import write_report


def reciprocal_rank(target: str, images: list[str]) -> float:
    """Return 1 / rank of the target, or 0 if the set does not contain it."""
    return 1 / (images.index(target) + 1) if target in images else 0.0


def main() -> None:
    """Make a release, compute the metric for its sets, and write a report."""
    run(["demo", "--answers", "150", "--seed", "3", "--dir", "study"])
    run(["export", "--database", "sqlite:///study/hsfiq.db", "--release", "hp", "--out", "release"])

    release = read_release(Path("release"))
    targets = release.queries.set_index("query_id")["target_id"]
    sets = release.sets
    scores = [
        reciprocal_rank(targets[query], list(images))
        for query, images in zip(sets["query_id"], sets["image_ids"], strict=True)
    ]
    sets.assign(score=scores)[["set_id", "score"]].to_csv("reciprocal-rank.csv", index=False)

    report = analysis.report(
        release, metrics=["recall@5", "reciprocal-rank"], scores=["reciprocal-rank.csv"]
    )
    for name, metric in report.analysis.metrics.items():
        interval = metric.spearman.ci  # None if undefined
        bounds = f" [{interval.low:.3f}, {interval.high:.3f}]" if interval else ""
        print(f"{name}: rho {metric.spearman.rho:.3f}{bounds}")
    write_report(report.files(), "report")
    print("report/report.html written")


if __name__ == "__main__":
    main()
