"""The step "Design"."""

from __future__ import annotations

from collections.abc import Mapping

from hsfiq.annotate.studio.setup import Setup, Step, Summary


def summary(setup: Setup) -> Summary:
    return Summary(setup.desk.t("not yet"))


def view(setup: Setup) -> Mapping[str, object]:
    return {}


STEP = Step("design", "Design", summary, view)
