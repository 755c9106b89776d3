"""What a person reads of a retraining: the model card, and the lines on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hsfiq.model.checkpoints.lineage import EARLIER_RELEASES

SIMULATED = (
    "The answers come from simulated annotators: nothing here says what people would answer."
)


def notes(said: Mapping[str, Any]) -> list[str]:
    """What to know before the figures are believed; nothing where there is nothing.

    The same answers, learned from again, have the same held-out part: that teaches nothing of it.

    Args:
        said: the checkpoint's provenance.
    """
    digest = said["release"]["content_sha256"]
    others = [it for it in said[EARLIER_RELEASES] if it["content_sha256"] != digest]
    if not others:
        return []
    names = ", ".join(
        f"{it['name']} {it['version']} (content sha256 {str(it['content_sha256'])[:12]})"
        for it in others
    )
    return [
        (
            "Figures on what is held out may be too good where an earlier release taught the same "
            f"triplets or participants: {names}."
        )
    ]


def card(said: Mapping[str, Any], fitted: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """The text of MODEL_CARD.md.

    Args:
        said: the checkpoint's provenance.
        fitted: the answers' laws, as `answer_model.json` has them.
        report: as `report.json` has it.
    """
    release, recipe = said["release"], said["recipe"]
    settings = {key: value for key, value in said["preference"].items() if key != "name"}
    bias = fitted["after"]["side_bias"]
    name = f"{release.get('name')} {release.get('version')}"
    what = (
        "It scores how relevant an image is to a reference image and a text. Encoder "
        f"`{recipe['encoder']}`, first trained by `{recipe['name']}`, then by `preference` on "
        f"{report['n_train']:,} answers."
    )
    how = (
        "Intervals are 95%, participants (for recall, triplets) resampled; a difference is after - "
        "before; what got worse comes first. `report.json` has accuracy by margin and the "
        "reliability table."
    )
    side = (
        f"- side bias: {number(bias['value'])} logits for set 1 (standard error "
        f"{number(bias['se'])}); offsets and thresholds are in `answer_model.json`"
    )
    limits = (
        "It has learned what these annotators said of the sets of these systems. Other annotators, "
        "systems and images may be another matter. Its scores are on a scale of its own."
    )
    text = [
        "---",
        "library_name: hsfiq",
        "tags: [composed-image-retrieval, relevance-score, preference]",
        "---",
        "",
        f"# A scorer retrained on the answers of {name}",
        "",
        what,
        "",
        *([SIMULATED, ""] if report["simulated"] else []),
        "## Before and after, on what was held out",
        "",
        *(line for note in report["notes"] for line in (note, "")),
        *table(report),
        "",
        how,
        "",
        "## Where it comes from",
        "",
        f"- started from: sha256 `{said['init_sha256']}`",
        f"- release: {name}, content sha256 `{release.get('content_sha256')}`",
        f"- settings: {', '.join(f'{key} {value}' for key, value in settings.items())}",
        side,
        "",
        "## What to keep in mind",
        "",
        limits,
        "",
    ]
    return "\n".join(text)


def table(report: Mapping[str, Any]) -> Iterator[str]:
    """The figures as a table in Markdown, or why there are none."""
    figures = all_figures(report)
    if figures:
        yield "| figure | before | after | difference |"
        yield "|---|---|---|---|"
        for one in figures:
            cells = (measured(one[key]) for key in ("before", "after", "difference"))
            yield f"| {one['name']} ({one['better']} is better) | {' | '.join(cells)} |"
    if report["held_out"] is None:
        yield f"Agreement is not measured: {report['reason']}."


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The same for a terminal."""
    if report["simulated"]:
        yield SIMULATED
    yield from report.get("notes", ())  # a report of an earlier version has none
    for one in all_figures(report):
        yield (
            f"{one['name']} ({one['better']} is better): {measured(one['before'])} -> "
            f"{measured(one['after'])}, difference {measured(one['difference'])}"
        )
    if report["held_out"] is None:
        yield f"agreement is not measured: {report['reason']}"
    if report["n_left_out"]:
        yield f"{report['n_left_out']:,} questions lack an image and were left out"


def all_figures(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Agreement's figures and recall's, those that got worse before all others."""
    groups = [report[key]["figures"] for key in ("held_out", "retrieval") if report[key]]
    losses = [[it for it in group if worsened(it)] for group in groups]
    others = [[it for it in group if not worsened(it)] for group in groups]
    return [it for group in (*losses, *others) for it in group]


def worsened(one: Mapping[str, Any]) -> bool:
    """Whether a figure is on the wrong side of what it was."""
    change = one["difference"]["value"]
    if change is None:
        return False
    return bool(change < 0 if one["better"] == "higher" else change > 0)


def measured(one: Mapping[str, Any]) -> str:
    """A value with its interval: "0.512 [0.466, 0.559]"."""
    ends = ", ".join(map(number, one["ci"]))
    return f"{number(one['value'])} [{ends}]"


def number(value: float | None) -> str:
    """Three digits, or what stands for none."""
    return "undefined" if value is None else f"{value:.3f}"
