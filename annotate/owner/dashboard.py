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
from sqlalchemy.orm import Session

from hsfiq.access.roles import Permission, Role, User
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
from hsfiq.audit.actors import Actor
from hsfiq.collect.checks import check_results
from hsfiq.collect.exports.records import last_record
from hsfiq.collect.history import question_history
from hsfiq.collect.progress import AnswerRow, answers_of, participants_of
from hsfiq.collect.recruiting.places import quotas_of
from hsfiq.collect.review.headline import Headline, headline_of
from hsfiq.collect.review.people_shown import may_compare_systems, people_shown
from hsfiq.collect.studies import is_unbound, list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import Refused
from hsfiq.kinds import KINDS
from hsfiq.study.config import config_of


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
        return [gr.Dropdown(choices=choices, value=name), *self.outputs_now(name, user)]

    def refreshed(self, study: str, request: gr.Request) -> Outputs:
        return self.outputs_now(study, self.require(request))

    def ticked(self, study: str, request: gr.Request) -> Outputs:
        """What the page's timer shows: all open pages of a role share one computation."""
        user = self.require(request)
        return self.shared.recent(shared_key(study, user), lambda: self.computed(study, user))

    def outputs_now(self, study: str | None, user: User) -> Outputs:
        return self.shared.now(shared_key(study, user), lambda: self.computed(study, user))

    def computed(self, study: str | None, user: User) -> Outputs:
        with self.database.reading() as session:
            return self.study_outputs(session, study, user)

    def study_chosen(self, study: str, request: gr.Request) -> Outputs:
        """Another study; inputs, messages and confirmations for the last one are cleared."""
        return [*self.refreshed(study, request), *[""] * 4, *no_confirmation("")]

    def study_outputs(self, session: Session, name: str | None, user: User) -> Outputs:
        """Time, headline, plots, participants, latest answers, and the study with its exports.

        Who may not read answers gets nothing that they contribute to but their number.
        """
        now = datetime.now(UTC)
        as_of = f"as of {now:%H:%M:%S} UTC"
        updated = line(as_of, "updated")
        try:
            study = actions.study_named(session, name)
        except Refused:
            return [updated, empty("There is no study yet"), "", "", "", ""]
        shown = people_shown(session, study)
        answers = answers_of(session, study, shown)
        checks = list(check_results(session, study, shown))
        people = participants_of(session, study, shown, checks)
        headline = headline_of(session, study, answers, now=now)
        if shown is not None:
            updated = line(f"{as_of}; {shown_note(len(people), headline)}", "updated")
        about = self.about(session, study, now, user)
        if not user.may(Permission.READ):
            people_table = tables.participants_table(people, headline, now, with_answers=False)
            return [updated, cards.recruitment_tiles(headline, people), "", people_table, "", about]
        return [
            updated,
            cards.tiles(headline, people, answers, checks, now),
            cards.cards(
                answers,
                checks,
                now,
                points=config_of(study).wording.points,
                of_kind=self.kind_cards(session, study, answers),
                further=further_cards(session, study, now, self.images),
            ),
            tables.participants_table(people, headline, now),
            tables.latest_answers_table(answers, now),
            about,
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

    def confirmed(self, action: str, study: str, request: gr.Request) -> Outputs:
        user = self.require(request)
        try:
            confirmed = actions.from_json(action)
            require_permission(user, actions.permission_for(confirmed))
            with self.database.writing() as session:
                result = actions.perform(session, confirmed, Actor(user.name))
            notice = line(f"Done. {result}", "done", role="status")
        except Refused as error:
            notice = refusal(error)
        return [*no_confirmation(notice), *self.outputs_now(study, user)]

    def cancelled(self, request: gr.Request) -> Outputs:
        self.require(request)
        return no_confirmation("")


def shared_key(study: object, user: User) -> tuple[object, Role]:
    """What the outputs depend on; whatever else than text a page sends as the study is none."""
    return (study if isinstance(study, str) else None), user.role


def shown_note(n_shown: int, headline: Headline) -> str:
    """What is shown of a study with too many answers to plot them all."""
    return (
        f"plots, tables, times and checks are of the {n_shown:,} participants seen last, "
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
