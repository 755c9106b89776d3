"""A retraining in words: its model card, and the summary on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hsfiq.model.checkpoints.lineage import EARLIER_RELEASES
from hsfiq.model.checkpoints.model_card import write_card

SIMULATED = (
    "The answers come from simulated annotators: nothing here says what people would answer."
)
HOW_TO_READ = (
    "Intervals are 95%, resampling participants (for recall, triplets). A difference is after - "
    "before; figures that got worse come first. `report.json` has accuracy by margin and the "
    "reliability table."
)
LIMITS = (
    "The scorer was trained on the answers of these annotators to the sets of these systems. It "
    "may not carry over to other annotators, systems or images. Its scores have a scale of their "
    "own."
)


def earlier_release_notes(provenance: Mapping[str, Any]) -> list[str]:
    """A note if figures on the held-out part may be too good because of earlier releases.

    Training on the same answers again is no risk: they have the same held-out part.
    """
    digest = provenance["release"]["content_sha256"]
    names = ", ".join(
        f"{earlier['name']} {earlier['version']} (content sha256 {str(sha256)[:12]})"
        for earlier in provenance[EARLIER_RELEASES]
        if (sha256 := earlier["content_sha256"]) != digest
    )
    if not names:
        return []
    note = (
        "Figures on the held-out part may be too good if the scorer was trained on the same "
        f"triplets or participants in an earlier release: {names}."
    )
    return [note]


def write_retraining_card(
    folder: Path,
    provenance: Mapping[str, Any],
    fitted: Mapping[str, Any],
    report: Mapping[str, Any],
) -> None:
    """Write the card; `fitted` is as in `answer_model.json`."""
    release, recipe = provenance["release"], provenance["recipe"]
    name = f"{release.get('name')} {release.get('version')}"
    settings = ", ".join(
        f"{key} {value}" for key, value in provenance["preference"].items() if key != "name"
    )
    bias = fitted["after"]["side_bias"]
    introduction = (
        f"It scores how relevant an image is to a reference image and a text. Encoder "
        f"`{recipe['encoder']}`, first trained by `{recipe['name']}`, then by `preference` on "
        f"{report['n_train']:,} answers."
    )
    write_card(
        folder,
        f"A scorer retrained on the answers of {name}",
        [introduction, *([SIMULATED] if report["simulated"] else [])],
        {
            "Before and after, on the held-out part": [
                *[line for note in report["notes"] for line in (note, "")],
                *figure_table(report),
                "",
                HOW_TO_READ,
            ],
            "Provenance": [
                f"- started from: sha256 `{provenance['init_sha256']}`",
                f"- release: {name}, content sha256 `{release.get('content_sha256')}`",
                f"- settings: {settings}",
                (
                    f"- side bias: {rounded(bias['value'])} logits for set 1 (standard error "
                    f"{rounded(bias['se'])}); offsets and thresholds are in `answer_model.json`"
                ),
            ],
            "Limits": [LIMITS],
        },
        tags=("relevance-score", "preference"),
    )


def figure_table(report: Mapping[str, Any]) -> Iterator[str]:
    """The figures as a Markdown table, or why there are none."""
    figures = figures_worst_first(report)
    if figures:
        yield "| figure | before | after | difference |"
        yield "|---|---|---|---|"
        for entry in figures:
            cells = (with_interval(entry[key]) for key in ("before", "after", "difference"))
            yield f"| {entry['name']} ({entry['better']} is better) | {' | '.join(cells)} |"
    if report["held_out"] is None:
        yield f"Agreement is not measured: {report['reason']}."


def summary_lines(report: Mapping[str, Any]) -> Iterator[str]:
    if report["simulated"]:
        yield SIMULATED
    yield from report.get("notes", ())  # absent from reports of earlier versions
    for entry in figures_worst_first(report):
        yield (
            f"{entry['name']} ({entry['better']} is better): {with_interval(entry['before'])} -> "
            f"{with_interval(entry['after'])}, difference {with_interval(entry['difference'])}"
        )
    if report["held_out"] is None:
        yield f"agreement is not measured: {report['reason']}"
    if report["n_left_out"]:
        yield f"{report['n_left_out']:,} questions lack an image and were left out"


def figures_worst_first(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures of agreement, then of recall; all that got worse before all others."""

    def is_worse(entry: Mapping[str, Any]) -> bool:
        change = entry["difference"]["value"] or 0
        return bool(change < 0 if entry["better"] == "higher" else change > 0)

    groups = [report[key]["figures"] for key in ("held_out", "retrieval") if report[key]]
    figures = [entry for group in groups for entry in group]
    return sorted(figures, key=lambda entry: not is_worse(entry))


def with_interval(estimate: Mapping[str, Any]) -> str:
    """A value with its interval: "0.512 [0.466, 0.559]"."""
    ends = ", ".join(map(rounded, estimate["ci"]))
    return f"{rounded(estimate['value'])} [{ends}]"


def rounded(value: float | None) -> str:
    """Three decimals, or "undefined"."""
    return "undefined" if value is None else f"{value:.3f}"
