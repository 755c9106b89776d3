"""The first part of a report: the verdict, all pairs, a sentence to paste, what could change it.

`view_of` phrases an answer once; the terminal, the page and the LaTeX section show the same view.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import floor, isnan, log10
from typing import TYPE_CHECKING

from hsfiq.analysis.analyze import Analysis, Details, MetricAnalysis
from hsfiq.analysis.answer import MOST_PEOPLE, Answer, DecisionRules, Doubt, Excluded
from hsfiq.analysis.reports import charts, document
from hsfiq.analysis.reports.people import overlap_section
from hsfiq.analysis.reports.systems import STATISTIC_NAMES as NAMES
from hsfiq.analysis.reports.systems import by_win_rate, systems_chart, win_matrix_table
from hsfiq.analysis.reports.tables import breakable, escape, to_latex
from hsfiq.analysis.reports.text import WIDTH
from hsfiq.analysis.resampling.intervals import ConfidenceInterval
from hsfiq.analysis.sensitivity import Sensitivity
from hsfiq.analysis.statistics.preference import Rate
from hsfiq.analysis.verdicts import NEUTRAL, Verdict
from hsfiq.text import count_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The words of statistics, verdicts and exclusions.

WHY = {
    "win_rate": "it uses preferences",
    "mean_score": "it uses scores instead of preferences",
    "strength": "it does not account for the side",
    "tie_half": "it uses preferences, with a metric's ties counted half",
    "spearman": "it uses scores instead of preferences",
    "symmetric": "it excludes all pairs on which a metric ties",
    "within_query": "it compares only sets of the same query",
}
"""What distinguishes a statistic from the primary one."""
CHANCE = {"tie_half": 0.5, "symmetric": 0.5, "spearman": 0.0}
RATES = ("tie_half", "symmetric", "win_rate")
HEADINGS = {
    "systems": {
        "better": ("People ", "prefer", " {a} to {b}"),
        "equivalent": ("People find {a} ", "as good as", " {b}"),
        "undecided": ("", "Undecided", " whether people prefer {a} to {b}"),
        "undefined": ("", "Undefined", " whether people prefer {a} to {b}: {reason}"),
    },
    "metrics": {
        "better": ("{a} agrees ", "better", " with people than {b}"),
        "equivalent": ("{a} agrees ", "as well", " with people as {b}"),
        "undecided": ("", "Undecided", " whether {a} agrees better with people than {b}"),
        "undefined": ("", "Undefined", " whether {a} agrees better with people than {b}: {reason}"),
    },
}
SENTENCES = {
    "systems": {
        "better": "people preferred {a} to {b}",
        "equivalent": "people found {a} and {b} equivalent within a margin of {margin:g}",
        "undecided": "it remained undecided whether people prefer {a} to {b}",
        "undefined": "whether people prefer {a} to {b} could not be determined",
    },
    "metrics": {
        "better": "{a} agreed with human preferences better than {b}",
        "equivalent": "{a} and {b} agreed with human preferences equally well, within a margin of "
        "{margin:g}",
        "undecided": "it remained undecided whether {a} or {b} agrees better with human "
        "preferences",
        "undefined": "whether {a} or {b} agrees better with human preferences could not be "
        "determined",
    },
}
WORDS = {
    "better": "better",
    "equivalent": "as good as",
    "undecided": "undecided",
    "undefined": "undefined",
}
EXCLUSION_RULES = {
    "handed-on": "reassigned to another participant",
    "check": "used as attention checks",
    "unanswered": "assigned but not answered",
    "skipped": "skipped because an image was missing",
    "excluded": "answered by excluded participants",
    "irrelevant": "flagged irrelevant",
    "contradicts": "whose preference contradicts the scores",
    "failed-checks": "in forms with a failed check",
    "unseen": "answered before all images were seen",
    "too-fast": "answered too fast",
    "straight-lining": "in a run of equal answers",
}
"""The rules in a release's funnel, in words."""
SHORT_RULE = re.compile(" of preference and scores| of each participant")
SIMULATED = (
    "SIMULATED",
    "These answers come from simulated annotators, not from people. Report no figure as a finding.",
)


# An answer in words.


def view_of(analysis: Analysis) -> document.AnswerView | None:
    """None without a result: no answers, or neither metrics nor two systems."""
    if analysis.answer is not None:
        return _view_of_pairs(analysis, analysis.answer)
    if not analysis.release.n_questions or len(analysis.metrics) != 1:
        return None
    return _view_of_metric(analysis, *next(iter(analysis.metrics.items())))


def _view_of_metric(analysis: Analysis, name: str, metric: MetricAnalysis) -> document.AnswerView:
    """The view of a single metric, which is compared with chance."""
    rates = {"tie_half": metric.preference.tie_half, "symmetric rate": metric.preference.symmetric}
    rows = [_rate_row(label, rate) for label, rate in rates.items()]
    ci, word = metric.preference.tie_half.ci, rows[0].word
    heading = (f"{name} agrees ", word, " with people than chance")
    if word in ("undecided", "undefined"):
        heading = ("", word.capitalize(), f" whether {name} agrees better with people than chance")
    figures = {**{label: document.estimate_cell(rate) for label, rate in rates.items()}}
    figures["rho"] = document.estimate_cell(metric.spearman)
    shown_figures = [
        (label, document.cell_text(cell), f"n = {cell.n:,}")
        for label, cell in figures.items()
        if not isnan(cell.value)
    ]
    places = [row.place for row in rows if row.place is not None]
    details = analysis.details
    doubts = [] if details is None else [*_doubts_of_metric(name, details.sensitivity)]
    said = "; ".join(f"{label} {text}" for label, text, _ in shown_figures)
    return document.AnswerView(
        title=title_of(analysis),
        facts=facts_of(analysis),
        excluded=excluded_text(analysis.excluded),
        plan="",
        notices=notices_of(analysis),
        kind=rows[0].kind,
        pair=f"{name} and chance",
        heading=heading,
        figures=shown_figures,
        caption=f"How often {name} predicts which set people prefer (chance: 0.5)",
        what="rate",
        rows=rows,
        axis=_axis(places, NEUTRAL, None),
        paper=f"{_compared(analysis)}, {name} was compared with human judgments ({said}; 95% CI).",
        intervals=intervals_of(ci),
        cautions=_cautions(ci),
        lead=_lead(doubts),
        doubts=doubts,
        doubt_axis=_axis([row.place for row in doubts if row.place is not None], NEUTRAL, None),
    )


AGAINST_CHANCE = {
    "above": "better",
    "below": "worse",
    "unclear": "undecided",
    "undefined": "undefined",
}


def _doubts_of_metric(name: str, sensitivity: Sensitivity) -> Iterator[document.DoubtRow]:
    """Its tie_half without the answers that each rule excludes, and without any one person."""
    base = sensitivity.rows[0].conclusions
    for row in sensitivity.rows[1:]:
        if row.conclusions is None or base is None or not row.n_dropped:
            continue
        estimate = row.conclusions.estimates["tie_half"][name]
        words = [each.verdicts["tie_half"][name] for each in (base, row.conclusions)]
        text, interval = document.value_and_interval(document.estimate_cell(estimate))
        about = f"{SHORT_RULE.sub('', row.rule)} ({row.n_dropped:,} fewer)"
        is_same = words[0] == words[1]
        place = None
        if estimate.ci is not None and not isnan(estimate.ci.low):
            place = document.Interval(estimate.ci.low, estimate.value, estimate.ci.high)
        kind, word = ("better", "unchanged") if is_same else ("changes", AGAINST_CHANCE[words[1]])
        yield document.DoubtRow(about, text, interval, word, kind, place)


def _rate_row(label: str, rate: Rate) -> document.PairRow:
    """A rate of a metric; chance is one half."""
    cell = document.estimate_cell(rate)
    if isnan(cell.value):
        reason = cell.why_undefined or ""
        return document.PairRow(
            label, "", document.DASH, "", "", "undefined", "undecided", "", None, reason
        )
    estimate, interval = document.value_and_interval(cell)
    low, high = cell.bounds or (cell.value, cell.value)
    word = "better" if low > NEUTRAL else "worse" if high < NEUTRAL else "undecided"
    if isnan(low):
        reason = (rate.ci and rate.ci.reason) or ""
        return document.PairRow(
            label, "", estimate, "", "", "undefined", "undecided", "", None, reason
        )
    kind = "undecided" if word == "undecided" else "better"
    return document.PairRow(
        label, "", estimate, interval, "", word, kind, "", document.Interval(low, cell.value, high)
    )


def _view_of_pairs(analysis: Analysis, answer: Answer) -> document.AnswerView:
    verdict, rules = answer.verdict, answer.rules
    is_systems = rules.question == "systems"
    others = [each for each in answer.verdicts if each is not verdict]
    rows = [_pair_row(answer, each) for each in (verdict, *others)]
    doubts = [*_doubt_rows(answer)]
    before, word, after = (
        part.format(a=verdict.a, b=verdict.b, reason=verdict.reason)
        for part in HEADINGS[rules.question][verdict.verdict]
    )
    if verdict.verdict == "better" and _is_within_margin(answer, verdict):
        after += ", by less than the margin"
    is_adjusted = verdict.ci is not None and verdict.ci.low > 0 and len(rows) > 1
    if verdict.verdict == "undecided" and is_adjusted:
        word += " after adjustment"
    neutral = NEUTRAL if rules.statistic == "win_rate" else 0.0
    places = [row.place for row in rows if row.place is not None]
    doubt_places = [row.place for row in doubts if row.place is not None]
    return document.AnswerView(
        title=title_of(analysis),
        facts=facts_of(analysis),
        excluded=excluded_text(analysis.excluded),
        plan=plan_text(rules, analysis),
        notices=notices_of(analysis),
        kind=KINDS[verdict.verdict],
        pair=f"{verdict.a} and {verdict.b}",
        heading=(before, word, after),
        figures=[*_figures(analysis, answer)],
        order=_order(answer.verdicts) if is_systems else (),
        flags=[_flag(each) for each in answer.disagreements(verdict)],
        caption=_caption(answer),
        what=NAMES[rules.statistic] if neutral else f"{NAMES[rules.statistic]}, difference",
        rows=rows,
        axis=_axis(places, neutral, rules.margin),
        lead=_lead(doubts),
        doubts=doubts,
        doubt_axis=_axis(doubt_places, neutral, rules.margin),
        not_tried=_not_tried(answer.doubts),
        paper=_paper(analysis, answer),
        intervals=intervals_of(verdict.ci),
        cautions=_cautions(verdict.ci),
    )


def _cautions(ci: ConfidenceInterval | None) -> list[str]:
    text = None if ci is None else ci.note or ci.reason
    return [f"{text[0].upper()}{text[1:]}"] if text else []


KINDS = {
    "better": "better",
    "equivalent": "same",
    "undecided": "undecided",
    "undefined": "undecided",
}
"""How verdicts are drawn."""


def title_of(analysis: Analysis) -> str:
    metrics = list(analysis.metrics)
    question = "Which system do people prefer?"
    if len(metrics) == 1:
        question = f"Does {metrics[0]} agree with people?"
    elif metrics:
        question = "Which metric agrees best with people?"
    return f"{question} {analysis.release.study}"


def facts_of(analysis: Analysis) -> list[str]:
    release, shared = analysis.release, analysis.shared_triplets
    people = ("simulated annotator", None) if release.simulated else ("person", "people")
    n_shared = {0: "none", shared.n_triplets: "all"}.get(shared.n_shared, f"{shared.n_shared:,}")
    facts = [
        f"{release.name} {release.version}",
        count_text(release.n_questions, "question"),
        count_text(release.n_participants, *people),
        f"{count_text(shared.n_triplets, 'triplet')} ({n_shared} judged by several people)",
    ]
    return facts if release.taken is None else [*facts, release.taken]


def excluded_text(excluded: Excluded | None) -> str:
    """The excluded answers, in words."""
    if excluded is None:
        return "Excluded: unknown."
    dropped = "; ".join(f"{n:,} {_rule_text(rule)}" for rule, n in excluded.dropped.items())
    text = f"Excluded: {dropped or 'nothing'}."
    if excluded.not_recorded:
        rules = ", ".join(map(_rule_text, excluded.not_recorded))
        text += f" Not recorded, so not excluded: {rules}."
    return text


def _rule_text(rule: str) -> str:
    """A rule in words, without its parameter."""
    return EXCLUSION_RULES.get(rule.split("(", maxsplit=1)[0], rule)


def plan_text(rules: DecisionRules, analysis: Analysis) -> str:
    """The rules for verdicts, and whether the study declared them."""
    statistic = f"Primary statistic {NAMES[rules.statistic]}"
    margin = "no margin" if rules.margin is None else f"margin {rules.margin:g}"
    when = "not declared by the study"
    if rules.exclusions is not None:
        when = "declared before the study opened" + (
            "" if rules.declared else ", but not the margin"
        )
    text = f"Plan: {when}. {statistic}, {margin}, alpha {rules.alpha:g}."
    if rules.pair is None:
        text += " Pair: the best two by these answers."
    elif not rules.has_pair:
        text += f" The declared pair, {' and '.join(rules.pair)}, is not among the compared pairs."
    answer = analysis.answer
    if answer is not None and answer.exclusions_as_declared is False:
        declared = ", ".join(rules.exclusions or ()) or "none"
        text += f" The export's filters differ from the declared ones ({declared})."
    return text


def notices_of(analysis: Analysis) -> list[tuple[str, str]]:
    notices = [SIMULATED] if analysis.release.simulated else []
    notices += [("NOTE", f"{note[0].upper()}{note[1:]}.") for note in analysis.notes]
    for name, metric in analysis.metrics.items():
        if metric.missing.n:
            more = " and more" if metric.missing.n > len(metric.missing.first) else ""
            sets = f"{count_text(metric.missing.n, 'set')}: {', '.join(metric.missing.first)}{more}"
            notices.append(("NOTE", f"{name} has no value for {sets}."))
    return notices


def p_text(p: float) -> str:
    """A p-value in the notation of papers, without a leading zero."""
    if isnan(p):
        return document.DASH
    if p < 0.001:
        return "< .001"
    text = f"{p:.3f}" if p < 0.0995 else f"{p:.2f}"
    return text.removeprefix("0")


def p_is(p: float) -> str:
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def intervals_of(ci: ConfidenceInterval | None) -> str:
    if ci is None:
        return "Intervals: none."
    df = "" if ci.df is None else f" with {count_text(round(ci.df), 'degree')} of freedom"
    unit = "both participants and triplets" if " x " in ci.unit else f"{ci.unit}s"
    if ci.unit == "row":
        unit = "rows, as if answers were independent,"
    how = f"resampled ({ci.n_resamples:,}, seed {ci.seed})" if ci.n_resamples else "as clusters"
    return f"Intervals: {ci.level:.0%}, Student's t{df}, {unit} {how}."


def shown(verdict: Verdict) -> tuple[str, str, document.Interval | None]:
    """The figure and its interval as text, and where they lie; a win rate is not a difference."""
    if isnan(verdict.difference):
        return document.DASH, "", None
    is_rate = verdict.statistic == "win_rate"
    base = NEUTRAL if is_rate else 0.0
    ci = verdict.ci
    value = verdict.difference + base
    text = document.number_text(value, "plain" if is_rate else "signed")
    if ci is None or isnan(ci.low):
        return text, "", document.Interval(value, value, value)
    low, high = ci.low + base, ci.high + base
    interval = f"[{document.number_text(low)}, {document.number_text(high)}]"
    return text, interval, document.Interval(low, value, high)


def _is_within_margin(answer: Answer, verdict: Verdict) -> bool:
    margin = answer.rules.margin
    return margin is not None and verdict.ci is not None and verdict.ci.high < margin


def _pair_row(answer: Answer, verdict: Verdict) -> document.PairRow:
    estimate, interval, place = shown(verdict)
    word = WORDS[verdict.verdict]
    disagreeing = [
        f"{_relation(verdict, each)} by {NAMES[each.statistic]}"
        for each in answer.disagreements(verdict)
    ]
    return document.PairRow(
        verdict.a,
        verdict.b,
        estimate,
        interval,
        p_text(verdict.p_holm),
        word,
        KINDS[verdict.verdict],
        ", ".join(disagreeing),
        place,
        verdict.reason or "",
    )


def _relation(verdict: Verdict, other: Verdict) -> str:
    return "better" if other.a == verdict.a else "worse"


def _flag(other: Verdict) -> str:
    estimate, interval, _ = shown(other)
    return (
        f"By {NAMES[other.statistic]}, {other.a} is better than {other.b} ({estimate} {interval}, "
        f"Holm {p_is(other.p_holm)}, n = {other.n:,}): {WHY[other.statistic]}."
    )


def _figures(analysis: Analysis, answer: Answer) -> Iterator[tuple[str, str, str]]:
    verdict = answer.verdict
    name = NAMES[verdict.statistic]
    estimate, interval, _ = shown(verdict)
    if isnan(verdict.difference):
        return
    if verdict.statistic == "win_rate":
        about = f"{verdict.a} preferred to {verdict.b}, adjusted for side; no preference is 0.500"
        yield name, f"{estimate} {interval}".strip(), about
    else:
        if analysis.metrics:
            both = [
                value_by(verdict.statistic, analysis.metrics[each]) for each in pair_of(verdict)
            ]
            chance = document.number_text(CHANCE[verdict.statistic])
            values = " and ".join(map(document.number_text, both))
            yield name, f"{values} (chance {chance})", ""
        yield "difference", f"{estimate} {interval}".strip(), ""
    if not isnan(verdict.p_holm):
        yield "Holm", p_is(verdict.p_holm), "adjusted for all pairs"
    if verdict.verdict == "undecided":
        people = answer.people_to_decide
        about = "for a power of 80%, if the true difference equals this estimate"
        most = f"more than {MOST_PEOPLE:,} people"
        yield TO_DECIDE, f"about {people:,} people" if people else most, about


TO_DECIDE = "To decide"


def pair_of(verdict: Verdict) -> tuple[str, str]:
    return verdict.a, verdict.b


def value_by(statistic: str, metric: MetricAnalysis) -> float:
    values: Mapping[str, float] = {
        "tie_half": metric.preference.tie_half.rate,
        "symmetric": metric.preference.symmetric.rate,
        "spearman": metric.spearman.rho,
    }
    return values[statistic]


def _order(verdicts: Sequence[Verdict]) -> list[str]:
    """The systems in groups, best first; each is better than all in later groups."""
    names = list(dict.fromkeys(name for each in verdicts for name in pair_of(each)))
    better = {pair_of(each) for each in verdicts if each.verdict == "better"}
    groups: list[list[str]] = [[]]
    for number, name in enumerate(names):
        earlier, later = names[:number], names[number:]
        if groups[-1] and all((x, y) in better for x in earlier for y in later):
            groups.append([])
        groups[-1].append(name)
    return [", ".join(group) for group in groups] if len(groups) > 1 else []


def _caption(answer: Answer) -> str:
    n = count_text(len(answer.verdicts), "pair")
    if answer.rules.statistic == "win_rate":
        return f"How often people prefer the first system to the second ({n}; adjusted for side)"
    what = "systems" if answer.rules.question == "systems" else "metrics"
    return f"{NAMES[answer.rules.statistic]} of the first less that of the second ({n} of {what})"


def _doubt_rows(answer: Answer) -> Iterator[document.DoubtRow]:
    first = answer.verdict
    for doubt in answer.doubts:
        if doubt.verdict is not None:
            yield _doubt_row(first, doubt, doubt.verdict)
    jackknife = answer.without_each
    base = NEUTRAL if first.statistic == "win_rate" else 0.0
    style: document.Style = "plain" if base else "signed"
    if jackknife is not None:
        low, high = jackknife.low + base, jackknife.high + base
        keeps_sign = jackknife.low > 0 or jackknife.high < 0
        is_reversed = first.verdict == "better" and not jackknife.low > 0
        text = f"{document.number_text(low, style)} to {document.number_text(high, style)}"
        yield document.DoubtRow(
            f"without any one person (lowest without {jackknife.low_without})",
            text,
            "",
            "reversed for some" if is_reversed else "same sign" if keeps_sign else "sign varies",
            "changes" if is_reversed else "range",
            document.Interval(low, (low + high) / 2, high),
        )
    for each in answer.worst_cases:
        if (each.a, each.b) == pair_of(first) and each.n_missing and each.change is not None:
            value = round(each.difference + base, 6)
            yield document.DoubtRow(
                f"if {each.n_missing:,} excluded or missing answers favored {each.b}",
                document.number_text(value, style),
                "",
                each.change,
                "range" if each.change == "unchanged" else "changes",
                document.Interval(value, value, value),
            )


def _not_tried(doubts: Sequence[Doubt]) -> str:
    by_reason: dict[str, list[str]] = {}
    for each in doubts:
        if each.verdict is None:
            about = SHORT_RULE.sub("", each.about)
            by_reason.setdefault(each.reason or "", []).append(about)
    return "; ".join(f"{', '.join(about)} ({reason})" for reason, about in by_reason.items())


def _doubt_row(first: Verdict, doubt: Doubt, again: Verdict) -> document.DoubtRow:
    estimate, interval, place = shown(again)
    about = SHORT_RULE.sub("", doubt.about)
    if doubt.n_dropped is None:
        about = f"{NAMES[again.statistic]} (n = {again.n:,})"
        place = place if first.kind == "metrics" else None
    else:
        about = f"{about} ({doubt.n_dropped:,} fewer)"
    word = doubt.change or ""
    if doubt.others:
        others = f"{count_text(len(doubt.others), 'other')} changed"
        word = (
            others if word == "unchanged" else f"{word}; {count_text(len(doubt.others), 'other')}"
        )
    kind = "changes" if doubt.changes else KINDS[again.verdict]
    return document.DoubtRow(about, estimate, interval, word, kind, place)


def _lead(doubts: Sequence[document.DoubtRow]) -> str:
    changing = [row for row in doubts if row.kind == "changes"]
    verb = "changes" if len(changing) == 1 else "change"
    reversing = sum(row.word.split(";")[0] in ("reversed", "worse") for row in changing)
    reversed_text = f", {reversing} of them reversed" if reversing else ""
    return f"{len(changing)} of {len(doubts)} {verb} a verdict{reversed_text}"


def _axis(
    places: Sequence[document.Interval], neutral: float, margin: float | None
) -> document.Axis:
    ends = [end for place in places for end in (place.low, place.high)]
    ends += [neutral] if margin is None else [neutral - margin, neutral + margin]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = neutral - 0.1, neutral + 0.1
    room = (high - low) * 0.06
    low, high = low - room, high + room
    rough = (high - low) / 4
    power = 10 ** floor(log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough * 0.75)
    first = floor(low / step) + 1
    ticks = [round(number * step, 10) for number in range(first, floor(high / step) + 1)]
    digits = max(1, -floor(log10(step)))
    return document.Axis(low, high, neutral, margin, ticks, digits)


def _paper(analysis: Analysis, answer: Answer) -> str:
    """A sentence or two to paste into a paper, with the statistics that disagree."""
    verdict, rules = answer.verdict, answer.rules
    said = SENTENCES[rules.question][verdict.verdict].format(
        a=verdict.a, b=verdict.b, margin=rules.margin or 0.0
    )
    text = f"{_compared(analysis)}, {said}"
    estimate, interval, _ = shown(verdict)
    if interval:
        figures = f"{NAMES[verdict.statistic]} {estimate}, 95% CI {interval}"
        if analysis.metrics:
            both = [
                value_by(verdict.statistic, analysis.metrics[each]) for each in pair_of(verdict)
            ]
            values = " vs. ".join(map(document.number_text, both))
            figures = (
                f"{NAMES[verdict.statistic]} {values}; difference {estimate}, 95% CI {interval}"
            )
        tests = f"Holm-adjusted {p_is(verdict.p_holm)}"
        if verdict.verdict == "equivalent":
            tests = f"two one-sided tests, Holm-adjusted p < {p_text(rules.alpha)}"
        text += f" ({figures}, {tests})"
    disagreeing = [
        f"by {NAMES[each.statistic]}, {each.a} was better than {each.b} "
        f"({' '.join(shown(each)[:2])}, {p_is(each.p_holm)})"
        for each in answer.disagreements(verdict)
    ]
    text += f"; however, {' and '.join(disagreeing)}." if disagreeing else "."
    if verdict.ci is not None:
        both_ways = " x " in verdict.ci.unit
        unit = "participant and triplet" if both_ways else verdict.ci.unit
        if unit != "row":
            text += f" Confidence intervals account for clustering by {unit}."
    return text


def _compared(analysis: Analysis) -> str:
    """The start of a sentence: the number of comparisons and of people."""
    release, excluded = analysis.release, analysis.excluded
    n_dropped = excluded.n_missing if excluded and release.part is None else 0
    dropped = f"; {count_text(n_dropped, 'answer')} excluded or missing" if n_dropped else ""
    people = ("simulated annotator", None) if release.simulated else ("person", "people")
    text = (
        f"In {count_text(release.n_questions, 'paired comparison')} by "
        f"{count_text(release.n_participants, *people)} ({release.study}{dropped})"
    )
    return f"(Simulated.) {text}" if release.simulated else text


# Evidence: at most five figures, whose captions are what they show.


def evidence_of(analysis: Analysis) -> Iterator[document.Block]:
    answer, details = analysis.answer, analysis.details
    if answer is None or details is None:
        return
    if analysis.metrics:
        yield _statistics_chart(analysis, details)
    else:
        yield systems_chart(details.systems)
        yield _scores_chart(details)
        yield win_matrix_table(details.systems.duels, by_win_rate(details.systems))
    if answer.gaps_by_person:
        yield _people_chart(answer.verdict, answer.gaps_by_person)
    if details.overlap.n_sets:
        yield from overlap_section(details.overlap).blocks[:2]


def _statistics_chart(analysis: Analysis, details: Details) -> document.Chart:
    metrics = analysis.metrics
    panels: dict[str, dict[str, document.NumberCell]] = {
        "tie_half": {
            name: document.estimate_cell(each.preference.tie_half) for name, each in metrics.items()
        },
        "symmetric rate": {
            name: document.estimate_cell(each.preference.symmetric)
            for name, each in metrics.items()
        },
        "rho": {name: document.estimate_cell(each.spearman) for name, each in metrics.items()},
        "rho within queries": {
            name: document.estimate_cell(each.spearman)
            for name, each in details.within_query.metrics.items()
        },
    }
    best: dict[str, list[str]] = {}
    for statistic, cells in panels.items():
        defined = {name: cell.value for name, cell in cells.items() if not isnan(cell.value)}
        if defined:
            best.setdefault(max(defined, key=lambda n: defined[n]), []).append(statistic)
    caption = "; ".join(f"{name} is highest by {', '.join(of)}" for name, of in best.items())

    def paint(figure: Figure) -> None:
        for axes, (statistic, cells) in zip(
            charts.panels(figure, len(panels)), panels.items(), strict=True
        ):
            first = axes is figure.axes[0]
            charts.draw_intervals(
                axes, list(metrics) if first else [""] * len(metrics), {"": list(cells.values())}
            )
            chance = 0.0 if "rho" in statistic else 0.5
            axes.axvline(chance, color=charts.INK, linewidth=1, linestyle=charts.DASHED)
            axes.set_title(statistic)

    return document.Chart(
        "statistics",
        "Every metric by four statistics",
        f"{caption}. Dashed: chance.",
        "Four panels with a dot and interval for each metric: tie_half, the symmetric rate, rho "
        "and rho within queries.",
        (charts.WIDTH + 1.2, charts.intervals_height(len(metrics), 1, 0.9)),
        paint,
        is_wide=True,
        is_empty=not best,
    )


def _scores_chart(details: Details) -> document.Chart:
    figures = details.systems.figures
    names = by_win_rate(details.systems)
    cells = [document.estimate_cell(figures[name].mean_score) for name in names]
    best = max(zip(cells, names, strict=True), key=lambda each: each[0].value)
    return charts.interval_chart(
        "mean_scores",
        "Mean score of each system's sets",
        f"{best[1]} has the highest mean score, {document.number_text(best[0].value, 'plain', 2)}.",
        "For each system, the mean score of its sets with an interval.",
        rows=names,
        series={"mean score": cells},
        x_label="mean score",
        reference=(sum(cell.value for cell in cells) / len(cells), "mean of the systems"),
    )


def _people_chart(verdict: Verdict, gaps: Sequence[float]) -> document.Chart:
    """A dot for each person."""
    for_a, for_b = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    verb = "prefer" if verdict.kind == "systems" else "agree more with"
    by = "" if verdict.kind == "systems" else " (by tie_half)"
    x, heights = charts.stack_dots(gaps)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(x, heights, "o", color=charts.COLOURS[0], markersize=4)
        axes.axvline(0.0, color=charts.INK, linewidth=1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_ylim(-0.7, max(heights) + 1.2)
        axes.set_xlabel(f"for {verdict.b} below 0, for {verdict.a} above 0")

    return document.Chart(
        "people",
        "How people differ",
        f"{for_a:,} of {len(gaps):,} people {verb} {verdict.a}, {for_b:,} {verdict.b}{by}.",
        "A dot for each person: the difference between the two in that person's own answers.",
        (charts.WIDTH, 1.9),
        paint,
    )


# The view as LaTeX: a section to input into a paper.


def latex_section(
    view: document.AnswerView, pairs: document.Table | None, simulated: bool, venue: document.Venue
) -> str:
    """The sentence and the table of all pairs as LaTeX, which needs the package booktabs."""
    floats = "" if pairs is None else to_latex(pairs, simulated=simulated, venue=venue)
    return f"\\section{{{escape(view.title)}}}\n\n{breakable(view.paper)}\n\n{floats}"


# The view as text.

LABEL, ESTIMATE, MOST_LINES = 50, 24, 40
LEAST_PLOT, MOST_PLOT = 12, 30
LONGEST_NAME = 20
MARKS = {"better": "#", "same": "=", "undecided": "o", "range": "#"}
MORE = "More: --explain (definitions), --details (tables), --report DIR (figures, tables), --json."


def text_lines(view: document.AnswerView) -> list[str]:
    """At most `MOST_LINES` lines, if the names are not too long; further pairs are counted."""
    before, word, after = view.heading
    figures = {name: value for name, value, _ in view.figures}
    people = figures.pop(TO_DECIDE, None)
    head = [
        *(f"{heading}: {text}" for heading, text in view.notices),
        f"{view.facts[0]}: {', '.join(view.facts[1:])}",
        view.excluded,
        *([view.plan] if view.plan else []),
        "",
        f"  {before}{word.upper()}{after}",
        *(
            [f"  {', '.join(f'{name} {value}' for name, value in figures.items())}"]
            if figures
            else []
        ),
        *(
            [f"  To decide: {people} (power 80%, if the true difference equals this estimate)."]
            if people
            else []
        ),
        *(f"  ! {flag}" for flag in view.flags),
        *([f"  Order: {'  >  '.join(view.order)}"] if view.order else []),
    ]
    doubts = [
        *([f"What could change this answer ({view.lead})"] if view.doubts else []),
        *(_doubt_line(row) for row in view.doubts),
        *([f"  Not tried: {view.not_tried}."] if view.not_tried else []),
        *([""] if view.doubts else []),
    ]
    foot = [view.intervals, *(f"{each}." for each in view.cautions), MORE]
    used = sum(len(_wrapped(line)) for line in (*head, *doubts, *foot)) + 3
    return [
        *head, "", *_pair_lines(view, max(1, MOST_LINES - used - 2)), "", *doubts, *foot,
    ]  # fmt: skip


def _wrapped(line: str) -> list[str]:
    return [line[start : start + WIDTH - 4] for start in range(0, max(1, len(line)), WIDTH - 4)]


def _doubt_line(row: document.DoubtRow) -> str:
    figure = f"{row.estimate} {row.interval}".strip()
    return f"  {row.about:<{LABEL}} {figure:<{ESTIMATE}} {row.word}".rstrip()


def _pair_lines(view: document.AnswerView, most: int) -> Iterator[str]:
    shown_rows = view.rows if len(view.rows) <= most else view.rows[: max(1, most - 1)]
    longest = max((len(name) for row in shown_rows for name in (row.a, row.b)), default=0)
    cut = min(longest, LONGEST_NAME)
    names = [
        " and ".join(charts.shorten(each, cut) for each in (row.a, row.b) if each)
        for row in shown_rows
    ]
    figures = [f"{row.estimate} {row.interval}".strip() for row in shown_rows]
    words = [f"{row.word}{' !' if row.flag else ''}" for row in shown_rows]
    width = max(map(len, names))
    figure_width = max(len(f"{view.what} [95%]"), *map(len, figures))
    word_width = max(len("the first is"), *map(len, words))
    room = WIDTH - width - figure_width - 8 - word_width - 8
    plot_width = min(MOST_PLOT, room) if room >= LEAST_PLOT else 0
    head = f"{'':<{width}}  {f'{view.what} [95%]':>{figure_width}}  Holm p"
    yield f"{head}  {'the first is':<{word_width}}  {_axis_line(view.axis, plot_width)}".rstrip()
    for name, figure, row, word in zip(names, figures, shown_rows, words, strict=True):
        line = f"{name:<{width}}  {figure:>{figure_width}}  {row.p:>6}  {word:<{word_width}}"
        plot = "" if row.reason else _plot_line(view.axis, row, plot_width)
        yield f"{line}  {plot}".rstrip()
    if len(shown_rows) < len(view.rows):
        yield f"and {count_text(len(view.rows) - len(shown_rows), 'more pair')}: --details"
    notes = ["! another statistic disagrees."] if any(r.flag for r in shown_rows) else []
    if view.axis.margin is not None:
        notes.append(f"As good as: within {view.axis.margin:g}, by two one-sided tests.")
    if reasons := dict.fromkeys(row.reason for row in shown_rows if row.reason):
        notes.append(f"Undefined: {'; '.join(reasons)}.")
    if notes:
        yield " ".join(notes)


def _axis_line(axis: document.Axis, width: int) -> str:
    cells = [" "] * (width + 8)
    end = 0
    for tick in axis.ticks:
        text = axis.tick_text(tick).replace(document.MINUS, "-")
        start = max(0, round(axis.share(tick) * (width - 1)) - len(text) // 2)
        if width and start >= end and start + len(text) <= width + 4:
            cells[start : start + len(text)] = text
            end = start + len(text) + 1
    return "".join(cells).rstrip()


def _plot_line(axis: document.Axis, row: document.PairRow, width: int) -> str:
    cells = [" "] * width
    if not width or row.place is None:
        return ""
    low, value, high = (round(axis.share(each) * (width - 1)) for each in row.place)
    cells[round(axis.share(axis.neutral) * (width - 1))] = "|"
    for place in range(low, high + 1):
        cells[place] = "-" if cells[place] == " " else cells[place]
    cells[value] = MARKS[row.kind]
    return "".join(cells)
