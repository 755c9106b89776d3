"""The event handlers of the dashboard. They keep no state outside the database but what they share.

Whoever reaches the app can call Gradio's events, so every handler finds out itself who calls it,
and what their role may do, before it reads or changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import gradio as gr
from markupsafe import Markup
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.actors import Actor, Permission, Role, User
from hsfiq.annotate.images.store import ImageStore
from hsfiq.annotate.owner import actions, cards, tables
from hsfiq.annotate.owner.fragments import empty, line, render_fragment
from hsfiq.annotate.owner.identity import Identities, require_permission
from hsfiq.annotate.owner.kind_plots.cards import kind_cards
from hsfiq.annotate.owner.kind_plots.figures import KindFigures
from hsfiq.annotate.owner.kind_plots.retrievers import retrievers_card
from hsfiq.annotate.owner.preferences.card import preferences_card, too_many_answers_card
from hsfiq.annotate.owner.running.changed_images import changed_images_card
from hsfiq.annotate.owner.running.shared import Outputs, SharedOutputs
from hsfiq.annotate.serving.remote_user import remote_user
from hsfiq.collect.checks import check_results
from hsfiq.collect.history import last_record, question_history
from hsfiq.collect.owner import STUDY_ACTIONS
from hsfiq.collect.participants import (
    Shown,
    count_people,
    may_compare_systems,
    people_page,
    people_shown,
)
from hsfiq.collect.progress import (
    AnswerRow,
    Headline,
    answers_of,
    count_standings,
    headline_of,
    late_people,
    participants_of,
)
from hsfiq.collect.recruiting import quotas_of
from hsfiq.collect.review import flags_of
from hsfiq.collect.studies import is_unbound, list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import Refused
from hsfiq.kinds import KINDS
from hsfiq.study.config import config_of
from hsfiq.text import is_storable_text

LAST_PAGE = 10**9


@dataclass(frozen=True, slots=True)
class PeopleAsked:
    """Which participants the table shows."""

    looked_for: str = ""
    only_flagged: bool = False
    page: int = 1

    @classmethod
    def of(cls, looked_for: object, only_flagged: object, page: object) -> PeopleAsked:
        """What a page sends, whatever that is."""
        text = looked_for.strip() if isinstance(looked_for, str) else ""
        number = int(page) if isinstance(page, int | float) and 1 <= page <= LAST_PAGE else 1
        return cls(text if is_storable_text(text) else "", only_flagged is True, number)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Handlers of the page's events; each returns new values for the page's components."""

    identities: Identities
    images: ImageStore
    kind_figures: KindFigures = field(default_factory=KindFigures)
    shared: SharedOutputs = field(default_factory=SharedOutputs)

    @property
    def database(self) -> Database:
        return self.identities.database

    def require(self, request: gr.Request, permission: Permission | None = None) -> User:
        if request.request is None:
            raise RuntimeError("Gradio called a handler without a request")
        return self.identities.require(request.request, permission)

    # -------------------------------------------------------------------------------- reading

    def opening(self, permissions: Sequence[Permission]) -> Callable[..., Outputs]:
        """The handler of an opened page, of whose parts each needs one of `permissions`."""

        def opened(request: gr.Request) -> Outputs:
            user = self.require(request)
            parts = [gr.update(visible=user.may(permission)) for permission in permissions]
            return [*self.opened(user), who(user, request), *parts]

        return opened

    def opened(self, user: User) -> Outputs:
        """The list of studies, and the newest open study (or the newest of all)."""
        with self.database.reading() as session:
            rows = list_studies(session)
            choices = [(f"{study.title} ({study.name})", study.name) for study in rows]
            candidates = [study for study in rows if study.status == "open"] or rows
            name = candidates[-1].name if candidates else None
        return [
            gr.Dropdown(choices=choices, value=name),
            *self.outputs_now(name, user),
            *self.people_outputs(name, user, PeopleAsked()),
        ]

    def refreshed(
        self,
        study: str,
        looked_for: object,
        only_flagged: object,
        page: object,
        request: gr.Request,
    ) -> Outputs:
        user, people = self.require(request), PeopleAsked.of(looked_for, only_flagged, page)
        return [*self.outputs_now(study, user), *self.people_outputs(study, user, people)]

    def ticked(
        self,
        study: str,
        looked_for: object,
        only_flagged: object,
        page: object,
        request: gr.Request,
    ) -> Outputs:
        """What the page's timer shows: all open pages of a role share one computation.

        Each has its own page of participants, which is computed quickly.
        """
        user, people = self.require(request), PeopleAsked.of(looked_for, only_flagged, page)
        outputs = self.shared.recent(shared_key(study, user), lambda: self.computed(study, user))
        return [*outputs, *self.people_outputs(study, user, people)]

    def people_asked(
        self,
        study: str,
        looked_for: object,
        only_flagged: object,
        page: object,
        request: gr.Request,
    ) -> Outputs:
        """Another page of participants, or those who are looked for."""
        user, people = self.require(request), PeopleAsked.of(looked_for, only_flagged, page)
        return self.people_outputs(study, user, people)

    def outputs_now(self, study: str | None, user: User) -> Outputs:
        return self.shared.now(shared_key(study, user), lambda: self.computed(study, user))

    def computed(self, study: str | None, user: User) -> Outputs:
        with self.database.reading() as session:
            return self.study_outputs(session, study, user)

    def people_outputs(self, study: str | None, user: User, people: PeopleAsked) -> Outputs:
        """A page of the table of participants, and the field with its number."""
        now = datetime.now(UTC)
        with self.database.reading() as session:
            try:
                row = actions.study_named(session, study)
            except Refused:
                return ["", gr.update(visible=False)]
            reads = user.may(Permission.READ)
            flagged = None
            if reads and people.only_flagged:
                flagged = list(flags_of(session, row, people_shown(session, row)))
            page = people_page(session, row, people.looked_for, people.page, flagged)
            table = tables.participants_table(
                participants_of(session, row, page.keys)[::-1],
                study=row.name,
                late=late_people(session, row, now, page.keys),
                now=now,
                flags=flags_by_name(session, row, page.keys) if reads else None,
                has_any=count_people(session, row) > 0,
            )
        label = f"Page, of {page.n_pages:,}"
        return [table, gr.update(value=page.number, label=label, visible=page.n_pages > 1)]

    def study_chosen(self, study: str, request: gr.Request) -> Outputs:
        """Another study; inputs, messages and confirmations for the last one are cleared."""
        user = self.require(request)
        return [
            *self.outputs_now(study, user),
            *self.people_outputs(study, user, PeopleAsked()),
            *["", False, "", "", "", ""],
            *no_confirmation(""),
            *no_confirmation(""),
        ]

    def study_outputs(self, session: Session, name: str | None, user: User) -> Outputs:
        """Time, headline, plots, latest answers, the study with its exports, and its buttons.

        Who may not read answers gets nothing that they contribute to but their number.
        """
        now = datetime.now(UTC)
        as_of = f"as of {now:%H:%M:%S} UTC"
        updated = line(as_of, "updated")
        try:
            study = actions.study_named(session, name)
        except Refused:
            buttons = study_buttons(None, user)
            return [updated, empty("There is no study yet"), "", "", "", *buttons]
        shown = people_shown(session, study)
        answers = answers_of(session, study, shown)
        headline = headline_of(session, study, answers, now=now)
        standings = count_standings(session, study, shown)
        if shown is not None:
            updated = line(f"{as_of}; {shown_note(len(shown), headline)}", "updated")
        about, buttons = self.about(session, study, now, user), study_buttons(study, user)
        if not user.may(Permission.READ):
            tiles = cards.recruitment_tiles(headline, standings)
            return [updated, tiles, "", "", about, *buttons]
        checks = list(check_results(session, study, shown))
        flagged = list(flags_by_name(session, study, shown))
        return [
            updated,
            cards.tiles(headline, standings, answers, checks, flagged, now),
            cards.cards(
                answers,
                checks,
                now,
                points=config_of(study).wording.points,
                of_kind=self.kind_cards(session, study, answers),
                further=further_cards(session, study, now, self.images),
            ),
            tables.latest_answers_table(answers, now),
            about,
            *buttons,
        ]

    def about(self, session: Session, study: Study, now: datetime, user: User) -> Markup:
        return render_fragment(
            "study.html",
            study=study,
            is_unbound=is_unbound(study),
            quotas=quotas_of(session, study, now),
            release=last_record(session, study),
            user=user,
        )

    def kind_cards(
        self, session: Session, study: Study, answers: Sequence[AnswerRow]
    ) -> Sequence[cards.Card] | None:
        """The cards of the study's question kind; None for pairs, which have their own."""
        if study.kind == "pair":
            return None
        return kind_cards(self.kind_figures.of(session, study, answers), config_of(study))

    def participant_clicked(self, request: gr.Request, event: gr.EventData) -> str:
        self.require(request)
        return str(getattr(event, "name", ""))

    def question_clicked(self, study: str, request: gr.Request, event: gr.EventData) -> Outputs:
        question = str(getattr(event, "name", ""))
        return [question, self.history(study, question, request)]

    def history(self, study: str, question: str, request: gr.Request) -> Markup:
        self.require(request, Permission.READ)
        with self.database.reading() as session:
            try:
                row = actions.study_named(session, study)
            except Refused as error:
                return refusal(error)
            history = question_history(session, row, str(question))
            return tables.history(history, str(question))

    # -------------------------------------------------------------------------------- actions

    def participant_action(self, action: str) -> Callable[..., Outputs]:
        def ask(study: str, participant: str, reason: str, request: gr.Request) -> Outputs:
            return self.confirmation(action, study, participant or "", request, reason or "")

        return ask

    def study_action(self, action: str) -> Callable[..., Outputs]:
        def ask(study: str, request: gr.Request) -> Outputs:
            return self.confirmation(action, study, None, request)

        return ask

    def confirmation(
        self,
        action: str,
        study: str,
        participant: str | None,
        request: gr.Request,
        reason: str = "",
    ) -> Outputs:
        """What the action would do, with buttons; or why it cannot be done."""
        user = self.require(request)
        with self.database.reading() as session:
            try:
                pending = actions.prepare(session, study, participant, action, reason)
                require_permission(user, actions.permission_for(pending))
            except Refused as error:
                return no_confirmation(refusal(error))
        text = actions.text_of(pending)
        means = f"{text.means} Reason: {pending.reason}" if pending.reason else text.means
        ask = line(means, "ask", role="alert", strong=f"{text.button} {pending.target}?")
        yes = f"Yes, {text.button.lower()} {pending.target}"
        return ["", gr.Group(visible=True), ask, gr.Button(yes), actions.to_json(pending)]

    def confirmed(
        self,
        action: str,
        study: str,
        looked_for: object,
        only_flagged: object,
        page: object,
        request: gr.Request,
    ) -> Outputs:
        user, people = self.require(request), PeopleAsked.of(looked_for, only_flagged, page)
        try:
            confirmed = actions.from_json(action)
            require_permission(user, actions.permission_for(confirmed))
            with self.database.writing() as session:
                result = actions.perform(session, confirmed, Actor(user.name))
            notice = line(f"Done. {result}", "done", role="status")
        except Refused as error:
            notice = refusal(error)
        outputs = [*self.outputs_now(study, user), *self.people_outputs(study, user, people)]
        return [*no_confirmation(notice), *outputs]

    def cancelled(self, request: gr.Request) -> Outputs:
        self.require(request)
        return no_confirmation("")


def flags_by_name(
    session: Session, study: Study, shown: Shown | None
) -> dict[str, tuple[str, ...]]:
    """Why to look at participants, by their names."""
    flags = flags_of(session, study, shown)
    names = select(Participant.id, Participant.name).where(Participant.id.in_(flags))
    return {name: flags[key] for key, name in session.execute(names.order_by(Participant.id))}


def study_buttons(study: Study | None, user: User) -> Outputs:
    """The buttons of the study's actions: the one that would change nothing cannot be pressed."""
    return [
        gr.update(
            interactive=study is not None and STUDY_ACTIONS[name] != study.status,
            visible=user.may(actions.needed_for_study(name)),
        )
        for name in actions.STUDY
    ]


def shared_key(study: object, user: User) -> tuple[object, Role]:
    """What the outputs depend on; whatever else than text a page sends as the study is none."""
    return (study if isinstance(study, str) else None), user.role


def shown_note(n_shown: int, headline: Headline) -> str:
    """What is shown of a study with too many answers to plot them all."""
    return (
        f"plots, latest answers, times and checks are of the {n_shown:,} participants seen last, "
        f"of {headline.progress.participants:,}; the other numbers and preferences are of all"
    )


def who(user: User, request: gr.Request) -> Markup:
    """The user, with the button that ends a login; those whom a proxy names have none."""
    has_login = request.request is None or remote_user(request.request.scope) is None
    return render_fragment("who.html", user=user, has_login=has_login)


def further_cards(
    session: Session, study: Study, now: datetime, images: ImageStore
) -> list[cards.Card]:
    """What only some kinds of studies have, and images that have changed."""
    changed = changed_images_card(session, study, images)
    further = [] if changed is None else [changed]
    if study.kind == "pair":
        compares = may_compare_systems(session, study)
        further.append(
            preferences_card(session, study) if compares else too_many_answers_card(study)
        )
    elif KINDS[study.kind].is_live:
        further.append(retrievers_card(session, study, now))
    return further


def no_confirmation(notice: str) -> Outputs:
    return [notice, gr.Group(visible=False), "", gr.Button("Yes"), ""]


def refusal(error: Refused) -> Markup:
    message = str(error)
    return line(message[:1].upper() + message[1:], "refusal", role="alert")
