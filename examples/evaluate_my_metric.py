"""Measure how well your own metric agrees with people.

A metric is a number for each retrieved set. This one is the reciprocal rank of the target. The
annotators of this example are simulated.
"""

from __future__ import annotations

from hsfiq import analysis
from hsfiq.atomic_files import write_report
from hsfiq.cli import run


def reciprocal_rank(target: str, images: list[str]) -> float:
    """Return 1 / rank of the target, or 0 if the set does not contain it."""
    return 1 / (images.index(target) + 1) if target in images else 0.0


def main() -> None:
    """Make a release, compute the metric for its sets, and write a report."""
    run(["demo", "--answers", "150", "--seed", "3", "--dir", "study"])
    run(["export", "--database", "sqlite:///study/hsfiq.db", "--release", "hp", "--out", "release"])

    release = analysis.read_release("release")
    targets = release.queries.set_index("query_id")["target_id"]
    sets = release.sets
    scores = [
        reciprocal_rank(targets[query], list(images))
        for query, images in zip(sets["query_id"], sets["image_ids"], strict=True)
    ]
    mine = sets.assign(score=scores)[["set_id", "score"]]

    report = analysis.report(
        release, metrics=["recall@5", "reciprocal-rank"], scores={"reciprocal-rank": mine}
    )
    print(report.to_frame()[["rho", "rho_low", "rho_high"]].round(3))
    write_report(report.files(), "report")
    print("report/report.html written")


if __name__ == "__main__":
    main()
