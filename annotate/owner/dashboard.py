"""The board: Gradio Blocks over the study's rows. It keeps no state but the database.

Gradio's events can be called by whoever reaches the app, so every handler asks for the owner
again before it reads or changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import gradio as gr
from sqlalchemy.orm import Session

from hsfiq.annotate.owner import actions, cards, lists
from hsfiq.annotate.owner.identity import require_owner
from hsfiq.annotate.owner.login import password_in
from hsfiq.annotate.owner.text import text
from hsfiq.annotate.signing import Signer
from hsfiq.collect.checks import check_results
from hsfiq.collect.history import question_history
from hsfiq.collect.progress import answers_of, headline_of, participants_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import Refused

Outputs = list[Any]


@dataclass(frozen=True, slots=True)
class Board:
    """The handlers of the page's events; each answers with new values for the page."""

    database: Database
    signer: Signer

    def require(self, request: gr.Request) -> None:
        """Raise unless the owner asks."""
        require_owner(request.headers, request.cookies, self.signer, password_in(self.database))

    # ------------------------------------------------------------------------------- looking

    def opened(self, request: gr.Request) -> Outputs:
        """The chooser, with the study that is open (or the newest) chosen, and that study."""
        self.require(request)
        with self.database.reading() as session:
            studies = list_studies(session)
            names = [(f"{study.title} ({study.name})", study.name) for study in studies]
            running = [study.name for study in studies if study.status == "open"]
            chosen = next(iter(reversed(running or [study.name for study in studies])), None)
            chooser = gr.Dropdown(choices=names, value=chosen)
            return [chooser, *self.shown(session, chosen)]

    def refreshed(self, study: str, request: gr.Request) -> Outputs:
        """The chosen study as it stands now."""
        self.require(request)
        with self.database.reading() as session:
            return self.shown(session, study)

    def chosen(self, study: str, request: gr.Request) -> Outputs:
        """Another study: what was typed, asked and said about the last one goes."""
        return [*self.refreshed(study, request), "", "", "", *self.settled("")]

    def shown(self, session: Session, name: str | None) -> Outputs:
        """When, headline, plots, participants, latest answers, and the study with its exports."""
        now = datetime.now(UTC)
        at = f'<p class="updated">as of {now:%H:%M:%S} UTC</p>'
        try:
            study = actions.study_named(session, name)
        except Refused:
            return [at, '<p class="empty">There is no study yet</p>', "", "", "", ""]
        answers = answers_of(session, study)
        checks = list(check_results(session, study))
        people = participants_of(session, study)
        headline = headline_of(session, study, answers, now=now)
        return [
            at,
            cards.tiles(headline, people, answers, checks, now),
            cards.cards(answers, checks, now),
            lists.people_table(people, headline, now),
            lists.latest_table(answers, now),
            about(study),
        ]

    def picked(self, request: gr.Request, event: gr.EventData) -> str:
        """The participant whose name was pressed."""
        self.require(request)
        return str(getattr(event, "name", ""))

    def picked_question(self, study: str, request: gr.Request, event: gr.EventData) -> Outputs:
        """The question whose id was pressed, and its history."""
        question = str(getattr(event, "name", ""))
        return [question, self.history(study, question, request)]

    def history(self, study: str, question: str, request: gr.Request) -> str:
        """All that is known of one question."""
        self.require(request)
        with self.database.reading() as session:
            try:
                chosen = actions.study_named(session, study)
            except Refused as error:
                return said(error)
            return lists.history(question_history(session, chosen, str(question)), str(question))

    # ---------------------------------------------------------------------------------- doing

    def asker(self, action: str) -> Callable[..., Outputs]:
        """The handler that asks an action on a participant back."""

        def ask(study: str, participant: str, request: gr.Request) -> Outputs:
            return self.asked(action, study, participant or "", request)

        return ask

    def study_asker(self, action: str) -> Callable[..., Outputs]:
        """The handler that asks an action on the whole study back."""

        def ask(study: str, request: gr.Request) -> Outputs:
            return self.asked(action, study, None, request)

        return ask

    def asked(
        self, action: str, study: str, participant: str | None, request: gr.Request
    ) -> Outputs:
        """The confirmation of an action, or why it cannot be done."""
        self.require(request)
        with self.database.reading() as session:
            try:
                pending = actions.prepare(session, study, participant, action)
            except Refused as error:
                return self.settled(said(error))
        words = actions.text_of(pending)
        ask = (
            f'<p class="ask" role="alert"><strong>{words.button} {text(pending.target)}?'
            f"</strong> {words.means}</p>"
        )
        yes = f"Yes, {words.button.lower()} {pending.target}"
        return ["", gr.Group(visible=True), ask, gr.Button(yes), actions.to_json(pending)]

    def confirmed(self, given: str, study: str, request: gr.Request) -> Outputs:
        """Do what was asked back, say so, and show the study as it is then."""
        self.require(request)
        try:
            with self.database.writing() as session:
                done = actions.perform(session, actions.from_json(given))
            notice = f'<p class="done" role="status">Done. {text(done)}</p>'
        except Refused as error:
            notice = said(error)
        with self.database.reading() as session:
            return [*self.settled(notice), *self.shown(session, study)]

    def cancelled(self, request: gr.Request) -> Outputs:
        """Nothing is done."""
        self.require(request)
        return self.settled("")

    def settled(self, notice: str) -> Outputs:
        """No question open: the notice, and the confirmation out of sight."""
        return [notice, gr.Group(visible=False), "", gr.Button("Yes"), ""]


def said(error: Refused) -> str:
    """A refusal as a line of the page."""
    line = str(error)
    return f'<p class="refusal" role="alert">{text(line[:1].upper() + line[1:])}</p>'


def about(study: Study) -> str:
    """What the study is, and where its answers are to be had."""
    exports = " ".join(
        f'<a class="export" href="../export/{study.id}/{kind}" download>{label}</a>'
        for kind, label in (("hs", "Scores (hs) .zip"), ("hp", "Preferences (hp) .zip"))
    )
    return (
        f'<p>The study is <span class="pill {study.status}">{study.status}</span>,'
        f" its answers are {study.origin}.</p><p>{exports}</p>"
        '<p class="note">All answers of this moment, unfiltered, as version 0.0.0;'
        " hsfiq export gives filters and versions.</p>"
    )
