"""The ablation's result as Markdown tables and as figures; seeds differ in mark and in colour."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hsfiq.atomic_files import write_whole
from hsfiq.model.recipes import DRAWN

Row = dict[str, Any]
Panels = dict[tuple[str, str], Axes]

TITLES = {
    "recall@1": "R@1",
    "recall@10": "R@10",
    "recall@50": "R@50",
    "rho": "Spearman's rho",
    "tie_half": "pairwise accuracy, ties half",
}
SPLITS = {"val": "Validation triplets", "test": "Held-out combinations (test)"}
MARKS = "os^Dv"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
"""From Okabe and Ito's palette, which colour-blind readers can distinguish."""


def markdown(result: dict[str, Any]) -> str:
    """Return the result as Markdown: the settings, the means over seeds, then every seed."""
    blocks = [["# Ablation of the negative sets, on the drawn catalogue"], about(result)]
    strategies = [case for case in result["summary"] if is_usual(case)]
    for split, title in SPLITS.items():
        rows = [case for case in strategies if case["split"] == split]
        strategy_rows = [case for case in rows if case["strategy"] != "corpus"]
        blocks += [
            [f"## {title}: mean (lowest to highest seed)"],
            table("strategy", [(way(case), case) for case in rows], over_seeds),
            ["Above `corpus` of the same start; in brackets how many seeds' 95% intervals omit 0:"],
            table("strategy", [(way(case), case) for case in strategy_rows], above),
        ]
    if sizes := sizes_of(result["summary"]):
        blocks += [
            ["## `cirqrs` by the size of its sets at first: mean (lowest to highest seed)"],
            table(
                "split", [(f"{case['split']}, {case['n_neg']}", case) for case in sizes], over_seeds
            ),
        ]
    rows = sorted(
        [*result["cases"], *result["beside"]], key=lambda case: (order(case), case["seed"])
    )
    blocks += [
        ["## Each seed [95% interval]"],
        table(
            "split, seed",
            [(f"{case['split']}, {case['seed']}: {way(case)}", case) for case in rows],
            with_interval,
        ),
        [f"- {figures}: {method}" for figures, method in result["intervals"].items()],
        [f"{path}: written" for path in result.get("files", ())],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def about(result: dict[str, Any]) -> list[str]:
    """Describe the settings."""
    n = f"{result['triplets']:,} triplets, {result['epochs']} epochs, {result['seeds']} seed(s)"
    lines = [
        f"{n}, studies of {result['answers']:,} answers by simulated annotators.",
        f"The strategies of a seed had the same warm-up: {result['same_warm_up']}.",
    ]
    return [*lines, f"Note: {result['note']}."] if "note" in result else lines


def table(first: str, rows: Iterable[tuple[str, Row]], cell: Callable[[Row], str]) -> list[str]:
    """A Markdown table with a column for each figure; missing figures are left empty."""
    lines = [f"| {first} | {' | '.join(TITLES.values())} |", "|---" * (1 + len(TITLES)) + "|"]
    for name, row in rows:
        cells = (cell(row[figure]) if figure in row else "" for figure in TITLES)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def over_seeds(figure: Row) -> str:
    """Format the figure of all seeds."""
    if len(figure["seeds"]) == 1:
        return f"{figure['mean']:.3f}"
    return f"{figure['mean']:.3f} ({figure['lowest']:.3f} to {figure['highest']:.3f})"


def above(figure: Row) -> str:
    """Format the difference to `corpus`."""
    difference = figure["above_corpus"]
    return f"{difference['mean']:+.3f} ({difference['n_clear']} of {len(difference['seeds'])})"


def with_interval(figure: Row) -> str:
    """Format a seed's figure with its interval."""
    low, high = figure["ci"]
    return f"{figure['value']:.3f} [{low:.3f}, {high:.3f}]"


def way(row: Row) -> str:
    """Return how a scorer was trained, or the name of another metric."""
    if "metric" in row:
        return f"*{row['metric']}*"
    name = row["strategy"] if row["n_neg"] is None else f"{row['strategy']}, {row['n_neg']}"
    return name if row["start"] == "nothing" else f"{name}, after {row['start']}"


def is_usual(row: Row) -> bool:
    """Whether a training had the recipe's default size, or a strategy without one."""
    return bool(row["strategy"] != "cirqrs" or row["n_neg"] == DRAWN["n_neg"])


def order(row: Row) -> int:
    """The position of a row's split in `SPLITS`."""
    return list(SPLITS).index(row["split"])


def sizes_of(rows: Iterable[Row]) -> list[Row]:
    """The rows of `cirqrs`, smaller sets first; empty if there is only one size."""
    sized = [case for case in rows if (case["strategy"], case["start"]) == ("cirqrs", "nothing")]
    if all(is_usual(case) for case in sized):
        return []
    return sorted(sized, key=lambda case: (order(case), case["n_neg"]))


def write(result: dict[str, Any], folder: Path) -> list[str]:
    """Write the result as JSON and Markdown and its figures as SVG and PNG; the files' paths.

    Raises:
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "ablation.json": (json.dumps(result, indent=2) + "\n").encode(),
        "ablation.md": (markdown(result) + "\n").encode(),
    }
    files |= figures(result["cases"])
    for name, content in files.items():
        write_whole(folder / name, content)
    return [str(folder / name) for name in files]


def figures(cases: Sequence[Row]) -> dict[str, bytes]:
    """Every figure's files; the same cases give the same SVG."""
    with rc_context({"svg.hashsalt": "ablation", "font.size": 9}):
        files = drawn("ablation", strategies_figure(cases))
        if sizes := sizes_of(cases):
            files |= drawn("ablation-sizes", sizes_figure(sizes))
    return files


def drawn(name: str, figure: Figure) -> dict[str, bytes]:
    """A figure as SVG and as PNG."""
    svg, png = BytesIO(), BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None})
    figure.savefig(png, format="png", dpi=150)
    return {f"{name}.svg": svg.getvalue(), f"{name}.png": png.getvalue()}


def strategies_figure(cases: Sequence[Row]) -> Figure:
    """Like CIRQRS' Table 7: a mark and interval for each seed, and a line at their mean."""
    rows = [case for case in cases if is_usual(case)]
    variants = list(dict.fromkeys(way(case) for case in rows))
    seeds = seeds_of(rows)
    figure, axes = panels("How negative sets are defined", height=2 + 0.8 * len(variants))
    for (split, name), panel in axes.items():
        for place, variant in enumerate(variants):
            split_rows = [case for case in rows if (case["split"], way(case)) == (split, variant)]
            mean = fmean(case[name]["value"] for case in split_rows)
            panel.plot([mean, mean], [place - 0.38, place + 0.38], color="black", linewidth=1.2)
            for case, mark in zip(split_rows, marks(seeds), strict=True):
                height = place + 0.2 * (seeds.index(case["seed"]) - (len(seeds) - 1) / 2)
                panel.plot(case[name]["ci"], [height, height], color=mark["color"], linewidth=1)
                panel.plot(case[name]["value"], height, **mark)
        panel.set_yticks(range(len(variants)), variants)
        panel.set_ylim(len(variants) - 0.5, -0.5)
        panel.label_outer()
        panel.grid(axis="x", color="0.9")
    legend(figure, axes, "coloured lines: 95% intervals over targets or participants")
    return figure


def sizes_figure(cases: Sequence[Row]) -> Figure:
    """Like CIRQRS' Figure 4: every seed's figures by the initial size of a set."""
    seeds = seeds_of(cases)
    figure, axes = panels("cirqrs, by the size of a negative set at first", height=5.4)
    for (split, name), panel in axes.items():
        split_cases = [case for case in cases if case["split"] == split]
        sizes = sorted({case["n_neg"] for case in split_cases})
        values = {(case["n_neg"], case["seed"]): case[name]["value"] for case in split_cases}
        means = [fmean(values[size, seed] for seed in seeds) for size in sizes]
        panel.plot(sizes, means, color="black", linewidth=1.2)
        for place, (seed, mark) in enumerate(zip(seeds, marks(seeds), strict=True)):
            shift = 1.06 ** (place - (len(seeds) - 1) / 2)  # so that equal values do not overlap
            shifted = [size * shift for size in sizes]
            panel.plot(shifted, [values[size, seed] for size in sizes], **mark)
        panel.set_xscale("log")
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.set_xticks([], minor=True)
        panel.grid(axis="y", color="0.9")
    legend(figure, axes, "horizontally: n_neg")
    return figure


def panels(title: str, height: float) -> tuple[Figure, Panels]:
    """An empty figure with a panel for each split and figure."""
    figure = Figure(figsize=(13, height), layout="constrained")
    figure.suptitle(f"{title}: drawn catalogue, simulated annotators")
    grid = figure.subplots(len(SPLITS), len(TITLES), sharex="col")
    axes = {}
    for row, (split, of_split) in zip(grid, SPLITS.items(), strict=True):
        row[0].set_ylabel(of_split)
        for panel, (name, title_of) in zip(row, TITLES.items(), strict=True):
            panel.set_title(title_of)
            axes[split, name] = panel
    return figure, axes


def legend(figure: Figure, axes: Panels, explanation: str) -> None:
    """Explain marks and lines below the panels."""
    named = axes["val", "rho"].get_lines()
    handles = {
        str(case.get_label()): case for case in named if not str(case.get_label()).startswith("_")
    }
    title = f"black: mean of the seeds; {explanation}"
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=len(handles),
        title=title,
    )


def marks(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """How each seed's values are drawn."""
    pairs = zip(seeds, MARKS, COLOURS, strict=False)
    return [
        {"marker": mark, "color": colour, "linestyle": "", "markersize": 5, "label": f"seed {seed}"}
        for seed, mark, colour in pairs
    ]


def seeds_of(cases: Iterable[Row]) -> list[int]:
    return sorted({case["seed"] for case in cases})
