"""The model of the scores as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from hsfiq.analysis.answer_model.scores import AnswerModel
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports.sections.systems.answer_model import named_effects
from hsfiq.analysis.reports.text.format import line, p_text


def answer_model_lines(model: AnswerModel) -> Iterator[str]:
    counts = (
        f"{count_text(model.n_scores, 'score')}, "
        f"{count_text(model.n_participants, 'participant')}, "
        f"{count_text(model.n_triplets, 'triplet')}"
    )
    if model.reason is not None:
        yield line("model of scores", f"undefined: {model.reason} ({counts})")
        return
    yield line("model of scores", f"{counts}; log odds of a higher score")
    for name, effect in named_effects(model).items():
        text = f"undefined: {effect.reason}"
        if effect.reason is None:
            low, high = effect.wald
            text = f"{effect.value:+.3f} [{low:.3f}, {high:.3f}], {p_text(effect.p)}"
        yield f"  {name:<42}{text}"
    for name, deviation, share in (
        ("participants", model.sd_participants, model.shares["participants"]),
        ("triplets", model.sd_triplets, model.shares["triplets"]),
    ):
        low, high = deviation.wald
        interval = f"{deviation.value:.3f} [{low:.3f}, {high:.3f}]"
        yield f"  {f'standard deviation of {name}':<42}{interval}, {share:.1%} of the variance"
