"""The rules for preference rates, with their labels and base rates."""

from __future__ import annotations

from hsfiq.analysis.statistics.preference import PreferenceRates, Rate

RULES = {
    "ge": "ge",
    "gt": "gt",
    "ge_swapped": "ge, labels swapped",
    "gt_swapped": "gt, labels swapped",
    "symmetric": "symmetric",
    "tie_half": "tie_half",
}
SOURCES = {"ge": " (CIRQRS eq. 8)", "gt": " (QuRe eq. 9)"}


def rates_by_rule(rates: PreferenceRates) -> dict[str, Rate]:
    return {rule: getattr(rates, rule) for rule in RULES}


def base_rates(rates: PreferenceRates) -> dict[str, float]:
    """The rate of an uninformative metric, by rule; NaN if there are no pairs."""
    base = rates.base_rate.rate
    by_rule = {"ge": base, "gt": base, "ge_swapped": 1 - base, "gt_swapped": 1 - base}
    half = 0.5 if rates.base_rate.n else base
    return {rule: by_rule.get(rule, half) for rule in RULES}
