"""The ablation's result as tables, and as figures that tell colours apart by place and shape too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hsfiq.whole_files import write_whole
from model.recipes import DRAWN

TITLES = {
    "recall@1": "R@1",
    "recall@10": "R@10",
    "recall@50": "R@50",
    "rho": "Spearman's rho",
    "tie_half": "pairwise accuracy",
}
SPLITS = {"val": "validation triplets", "test": "held-out combinations (test)"}
MARKS = ("o", "s", "^", "D", "v")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
"""Of Okabe and Ito's palette, one for each seed, with a mark of its own."""
STYLE = {"svg.hashsalt": "ablation", "svg.fonttype": "none", "font.size": 9}


def markdown(result: dict[str, Any]) -> str:
    """The result for a person: settings, means over the seeds, then every seed."""
    lines = [
        "# Ablation of the negative sets (simulated annotators)",
        "",
        f"{result['triplets']:,} triplets, {result['epochs']} epochs, {result['seeds']} seed(s),"
        f" studies of {result['answers']:,} answers. Same warm-up: {result['same_warm_up']}.",
    ]
    lines += [f"Note: {result['note']}."] if "note" in result else []
    strategies = [it for it in result["summary"] if is_usual(it)]
    for split, title in SPLITS.items():
        lines += ["", f"## {title.capitalize()}: mean (lowest to highest seed)", ""]
        lines += table("strategy", [(way(it), it) for it in of(strategies, split)], together)
        lines += ["", "Above `corpus`; in brackets the seeds whose 95% interval omits 0:", ""]
        others = [it for it in of(strategies, split) if it["strategy"] != "corpus"]
        lines += table("strategy", [(way(it), it) for it in others], above)
    if len(result["summary"]) > len(strategies):
        lines += ["", "## Size of the set of `cirqrs` at first", ""]
        sizes = [it for it in result["summary"] if it["strategy"] == "cirqrs"]
        rows = sorted(sizes, key=lambda it: (it["split"] != "val", it["n_neg"]))
        lines += table("split, n_neg", [(f"{it['split']}, {it['n_neg']}", it) for it in rows], together)
    lines += ["", "## Each seed [95% interval]", ""]
    rows = [(f"{it['split']}, seed {it['seed']}, {way(it)}", it) for it in result["cases"]]
    rows += [(f"{it['split']}, seed {it['seed']}, *{it['metric']}*", it) for it in result["beside"]]
    lines += table("", sorted(rows, key=lambda row: place(row[1])), alone)
    lines += ["", *(f"- {name}: {of_what}" for name, of_what in result["intervals"].items())]
    lines += [f"{path}: written" for path in result.get("files", ())]
    return "\n".join(lines)
