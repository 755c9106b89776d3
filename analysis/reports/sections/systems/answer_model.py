"""The section on the model of the scores."""

from __future__ import annotations

from hsfiq.analysis.answer_model.scores import AnswerModel, Deviation, Effect
from hsfiq.analysis.reports.cells import number_cell, p_cell
from hsfiq.analysis.reports.document import NumberCell, Row, Section
from hsfiq.analysis.reports.layout import table

TITLE = "What contributes to the scores"
EFFECTS = {"side": "set 1 compared with set 2", "place": "last place of a form compared with first"}


def answer_model_section(model: AnswerModel) -> Section:
    if model.reason is not None:
        return Section("answer_model", TITLE, (f"Undefined: {model.reason}.",))
    rows = [_effect(name, each) for name, each in named_effects(model).items()]
    deviations = [
        _deviation("participants", model.sd_participants, model.shares["participants"]),
        _deviation("triplets", model.sd_triplets, model.shares["triplets"]),
        ("the rest", "", number_cell(model.shares["rest"], style="percent")),
    ]
    counts = {
        "n_scores": f"{model.n_scores:,}",
        "n_participants": f"{model.n_participants:,}",
        "n_triplets": f"{model.n_triplets:,}",
    }
    blocks = (
        table("answer_model", rows, **counts),
        table("answer_model_variance", deviations),
    )
    return Section("answer_model", TITLE, blocks)


def named_effects(model: AnswerModel) -> dict[str, Effect]:
    """The fixed effects in words, the systems from the best to the worst."""
    systems = sorted(model.systems.items(), key=lambda item: -item[1].value)
    return dict(systems) | {text: getattr(model, name) for name, text in EFFECTS.items()}


def _effect(name: str, effect: Effect) -> Row:
    bounds = None if effect.reason is not None else effect.wald
    value = NumberCell(effect.value, bounds=bounds, reason=effect.reason, style="signed")
    return (name, value, p_cell(effect.p, effect.reason))


def _deviation(name: str, deviation: Deviation, share: float) -> Row:
    value = NumberCell(deviation.value, bounds=deviation.wald)
    return (name, value, number_cell(share, style="percent"))
