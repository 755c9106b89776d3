"""The options of `hsfiq score --judge`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import requires
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from hsfiq.model.judges.judge import Judge
    from hsfiq.model.judges.judged_sets import Run


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="JUDGE",
            help="In place of --scorer: clipscore:DIR, vqascore:DIR, chat:MODEL, or a judge of "
            "yours (docs/judges.md).",
        ),
    ] = None
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a judge: change, vqascore, preference, likert, or a .toml file.",
        ),
    ] = None
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="chat: OpenAI-compatible; else $OPENAI_BASE_URL. Its key is $OPENAI_API_KEY.",
        ),
    ] = None
    parallel: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=64,
            help="chat: requests at the same time, 4 by default.",
        ),
    ] = None
    per_minute: Annotated[
        float | None,
        typer.Option(metavar="N", min=0.01, help="For a judge: the most calls a minute."),
    ] = None
    price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT",
            help="Of a judge: money for a million prompt and completion tokens, such as 2.5,10.",
        ),
    ] = None

    def require_judge(self) -> None:
        """Refuse the options of a judge if there is none."""
        for field in fields(self):
            if getattr(self, field.name) is not None and self.judge is None:
                option = f"--{field.name.replace('_', '-')}"
                raise UnreadableInput(option, "is about a judge, but none is asked", "add --judge")

    def build(self, device: str | None) -> Judge:
        from hsfiq.model.judges.score import JudgeSettings, build_judge
        from hsfiq.model.runtime import device_of

        settings = JudgeSettings(
            device=device_of(device),
            prompt=self.prompt,
            endpoint=self.endpoint,
            parallel=self.parallel or 4,
        )
        judge = build_judge(str(self.judge), settings)
        if judge.asks == "pairs":
            with requires("analysis"):  # before anything is paid
                from hsfiq.analysis.resampling import bootstrap  # noqa: F401
        return judge

    def run(self, progress: Callable[[int, int], None]) -> Run:
        from hsfiq.model.judges.asking import Pace
        from hsfiq.model.judges.judged_sets import Run

        return Run(pace=Pace(self.per_minute), prices=self.prices(), progress=progress)

    def prices(self) -> tuple[float, float] | None:
        if self.price is None:
            return None
        try:
            prompt, completion = (float(part) for part in self.price.split(","))
        except ValueError:
            prompt = completion = -1
        if not (0 <= prompt < float("inf") and 0 <= completion < float("inf")):
            raise UnreadableInput("--price", f"{self.price!r} is not two prices", "write 2.5,10")
        return prompt, completion
