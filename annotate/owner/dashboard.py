"""The dashboard's page and its event handlers, which keep little outside the database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request
from markupsafe import Markup
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.actors import Actor, Permission, Role, User
from hsfiq.annotate.gradio_page import base_theme, mount_gradio
from hsfiq.annotate.image_copies import ImageStore
from hsfiq.annotate.owner import actions, cards, tables
from hsfiq.annotate.owner.accounts import add_accounts, add_links
from hsfiq.annotate.owner.cards import (
    KindFigures,
    changed_images_card,
    kind_cards,
    preferences_card,
    retrievers_card,
    too_many_answers_card,
)
from hsfiq.annotate.owner.downloads import add_audit, add_export
from hsfiq.annotate.owner.login import DASHBOARD, Identities, add_login, require_permission
from hsfiq.annotate.owner.plots import empty, line, render_fragment
from hsfiq.annotate.owner.study_pages import add_running_study
from hsfiq.annotate.owner.tables import add_answer_pages
from hsfiq.annotate.pages import render
from hsfiq.annotate.serving.proxy import remote_user
from hsfiq.collect.checks import check_results
from hsfiq.collect.owner import STUDY_ACTIONS
from hsfiq.collect.participants import (
    Shown,
    count_people,
    may_compare_systems,
    people_page,
    people_shown,
)
from hsfiq.collect.places import quotas_of
from hsfiq.collect.progress import (
    AnswerRow,
    Headline,
    answers_of,
    count_standings,
    headline_of,
    late_people,
    participants_of,
)
from hsfiq.collect.question_history import last_record, question_history
from hsfiq.collect.review import Reason, flags_of
from hsfiq.collect.studies import is_unbound, list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import Refused
from hsfiq.kinds import KINDS
from hsfiq.study.config import config_of
from hsfiq.text import is_storable_text

# One computation of what a dashboard shows, for all who have it open.

Outputs = list[Any]

KEPT_SECONDS = 10.0
"""What is shown may be older than this when the next page asks, less than a page's timer takes."""

PAUSE = 4
"""What took long is computed again after a pause of so many times as long, at the earliest."""

MOST_KEPT = 32


@dataclass(slots=True)
class Latest:
    """What was computed last; whoever computes it holds the lock."""

    lock: Lock = field(default_factory=Lock)
    outputs: Outputs | None = None
    begun: float = 0.0
    seconds: float = 0.0

    def compute(self, compute: Callable[[], Outputs], clock: Callable[[], float]) -> Outputs:
        begun = clock()
        self.outputs = compute()
        self.begun, self.seconds = begun, clock() - begun
        return self.outputs


@dataclass(frozen=True, slots=True)
class SharedOutputs:
    """The latest outputs by study and role; they say themselves of when they are."""

    clock: Callable[[], float] = monotonic
    latest: dict[Hashable, Latest] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def now(self, key: Hashable, compute: Callable[[], Outputs]) -> Outputs:
        """Compute the outputs as they are now; pages that refresh soon get them, too."""
        own = self._of(key)
        with own.lock:
            return own.compute(compute, self.clock)

    def recent(self, key: Hashable, compute: Callable[[], Outputs]) -> Outputs:
        """The outputs of a moment ago, or those of a computation that is under way, or new ones."""
        own = self._of(key)
        with own.lock:
            age = self.clock() - own.begun - own.seconds
            if own.outputs is not None and age < max(KEPT_SECONDS, PAUSE * own.seconds):
                return own.outputs
            return own.compute(compute, self.clock)

    def _of(self, key: Hashable) -> Latest:
        with self.lock:
            if key not in self.latest and len(self.latest) >= MOST_KEPT:
                del self.latest[next(iter(self.latest))]
            return self.latest.setdefault(key, Latest())


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
            kind=KINDS[study.kind],
            is_unbound=is_unbound(study),
            quotas=quotas_of(session, study, now),
            release=last_record(session, study),
            user=user,
        )

    def kind_cards(
        self, session: Session, study: Study, answers: Sequence[AnswerRow]
    ) -> Sequence[cards.Card] | None:
        """The cards of the study's question kind; None for pairs, which have their own."""
        if KINDS[study.kind].has_preferences:
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
) -> dict[str, tuple[Reason, ...]]:
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
    if KINDS[study.kind].has_preferences:
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


# The dashboard's page: its components and the handlers that they call; adding it to the app.

REFRESH_SECONDS = 15

EVENT: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
"""Every event: answered at once, without Gradio's overlay, and not in its list of endpoints."""

REPORT_CLICKS = """
element.addEventListener('click', (event) => {
  const clicked = event.target.closest('.pick');
  if (clicked) trigger('select', { name: clicked.dataset.participant || clicked.dataset.question });
});
"""

SHOW_FORM = """
element.addEventListener('click', (event) => {
  const form = document.getElementById('reason');
  if (event.target.closest('.pick') && form) form.scrollIntoView({ block: 'nearest' });
});
"""

SCROLL_HERE = """
const show = () => requestAnimationFrame(() => {
  const filled = element.closest('[id$=confirmation]') ?? element;
  if (element.textContent.trim()) filled.scrollIntoView({ block: 'nearest' });
});
const changes = { childList: true, subtree: true, characterData: true };
new MutationObserver(show).observe(element, changes);
show();  // what is in a hidden group is drawn with its text when it appears
"""


def add_owner(app: FastAPI, identities: Identities, images: ImageStore) -> None:
    """Add everything under /owner, protected by its middleware."""

    def username(request: Request) -> str | None:
        return "user" if identities.user_of(request) is not None else None

    database = identities.database
    add_login(app, identities)
    add_links(app, identities)
    add_accounts(app, identities)
    add_export(app, identities)
    add_answer_pages(app, database, images)
    add_running_study(app, identities)
    add_audit(app, identities)
    # As part of the page's head rather than as `css`, whose selectors Gradio rewrites.
    head = render("dashboard_head.html")
    style = {"theme": base_theme()}
    dashboard = Dashboard(identities, images)
    mount_gradio(app, lambda: dashboard_page(dashboard), DASHBOARD, username, style, head)


def dashboard_page(dashboard: Dashboard) -> gr.Blocks:
    """The page; its content is loaded by an event, so the page itself reveals nothing."""
    blocks: gr.Blocks = gr.Blocks(title="Dashboard", analytics_enabled=False)
    with blocks:
        study, updated, refresh, who = top()
        tiles = html("headline")
        people, find, only_flagged, page = participants_part()
        with gr.Row(equal_height=False):
            with gr.Column(scale=5, min_width=300) as one_participant:
                heading("One participant")
                participant = text_field("participant", "Click or type a name or a platform id")
                reason = text_field("reason", "Reason, kept with the change (optional)")
                participant_buttons = action_buttons("person", actions.PERSON)
                for_person = Confirmation.added("")
            with gr.Column(scale=5, min_width=300):
                heading("The study")
                about = html("about")
                study_buttons = action_buttons("study", actions.STUDY)
                for_study = Confirmation.added("study-")
        with gr.Row(equal_height=False) as answers:
            with gr.Column(scale=5, min_width=480):
                heading("Latest answers")
                latest = html("latest", js_on_load=REPORT_CLICKS)
            with gr.Column(scale=5, min_width=480):
                heading("One question's history")
                question = text_field(
                    "question", "Click an id, or type it (p1.form_1.0) and press Enter"
                )
                history = html("history")
        plots = html("plots")

        asked, table = [find, only_flagged, page], [people, page]
        shown = [updated, tiles, plots, latest, about, *study_buttons.values(), *table]
        parts: dict[Any, Permission] = {
            one_participant: Permission.RECRUIT,
            answers: Permission.READ,
            only_flagged: Permission.READ,
            **needed_by(participant_buttons, actions.RECRUITERS_PERSON),
        }
        opened = dashboard.opening(tuple(parts.values()))
        blocks.load(opened, outputs=[study, *shown, who, *parts], **EVENT)
        refresh.click(dashboard.refreshed, [study, *asked], shown, **EVENT)
        gr.Timer(REFRESH_SECONDS).tick(dashboard.ticked, [study, *asked], shown, **EVENT)
        cleared = [find, only_flagged, participant, reason, question, history]
        confirmations = [*for_person.shown, *for_study.shown]
        study.input(dashboard.study_chosen, study, [*shown, *cleared, *confirmations], **EVENT)
        for changed in (find.submit, only_flagged.input, page.submit, page.input):
            changed(dashboard.people_asked, [study, *asked], table, **EVENT)
        people.select(dashboard.participant_clicked, outputs=participant, **EVENT)
        latest.select(dashboard.question_clicked, study, [question, history], **EVENT)
        question.submit(dashboard.history, [study, question], history, **EVENT)
        for name, button in participant_buttons.items():
            handler = dashboard.participant_action(name)
            button.click(handler, [study, participant, reason], for_person.shown, **EVENT)
        for name, button in study_buttons.items():
            button.click(dashboard.study_action(name), study, for_study.shown, **EVENT)
        for each in (for_person, for_study):
            inputs = [each.pending, study, *asked]
            each.yes.click(dashboard.confirmed, inputs, [*each.shown, *shown], **EVENT)
            each.cancel.click(dashboard.cancelled, outputs=each.shown, **EVENT)
    return blocks


def top() -> tuple[gr.Dropdown, gr.HTML, gr.Button, gr.HTML]:
    """The choice of the study, the time of what is shown, Refresh, and who is logged in."""
    with gr.Row(elem_classes=["top"]):
        heading("Dashboard", level=1)
        # Custom values: Gradio forgets the choices on restart; the handlers look studies up.
        study = gr.Dropdown(
            label="Study", allow_custom_value=True, interactive=True, elem_id="study",
            container=False, scale=3,
        )  # fmt: skip
        updated = html("when")
        refresh = gr.Button("Refresh", elem_id="refresh", min_width=100, scale=0, size="sm")
        return study, updated, refresh, html("who")


def participants_part() -> tuple[gr.HTML, gr.Textbox, gr.Checkbox, gr.Number]:
    """The table of participants, and what chooses those that it shows."""
    heading("Participants")
    with gr.Row(elem_classes=["choices"]):
        find = gr.Textbox(
            placeholder="Find a name or a platform id: type, and press Enter",
            label="Find a name or a platform id", elem_id="find", max_lines=1, max_length=300,
            container=False, scale=1, min_width=200,
        )  # fmt: skip
        only_flagged = check_box("only-flagged", "Only those to look at", value=False)
        # Only the style sheet reads it: the column is hidden without a request.
        check_box("platform-ids", "Show platform ids", value=True)
        page = gr.Number(
            value=1, label="Page", elem_id="people-page", precision=0, scale=0,
            min_width=140, visible=False, interactive=True,
        )  # fmt: skip
    people = html("people", js_on_load=REPORT_CLICKS + SHOW_FORM)
    return people, find, only_flagged, page


def needed_by(
    buttons: Mapping[str, gr.Button], recruiters: Collection[str]
) -> dict[gr.Button, Permission]:
    """What pressing each button needs; `recruiters` are those that pause and resume."""
    return {
        button: Permission.RECRUIT if name in recruiters else Permission.MANAGE
        for name, button in buttons.items()
    }


def html(name: str, *, js_on_load: str = "") -> gr.HTML:
    """An empty element that a handler fills."""
    return gr.HTML(
        "",
        elem_classes=["owner", name],
        apply_default_css=False,
        js_on_load=js_on_load,
    )


def heading(text: str, level: int = 2) -> gr.HTML:
    return gr.HTML(f"<h{level}>{text}</h{level}>", elem_classes=["owner"], apply_default_css=False)


def text_field(name: str, label: str) -> gr.Textbox:
    return gr.Textbox(label=label, elem_id=name, max_lines=1, max_length=300)


def check_box(name: str, label: str, *, value: bool) -> gr.Checkbox:
    return gr.Checkbox(
        value=value, label=label, elem_id=name, container=False, interactive=True, min_width=160,
        scale=0,
    )  # fmt: skip


def action_buttons(prefix: str, texts: Mapping[str, actions.ActionText]) -> dict[str, gr.Button]:
    with gr.Row(elem_classes=["actions"]):
        return {
            name: gr.Button(text.button, elem_id=f"{prefix}-{name}", min_width=86, size="sm")
            for name, text in texts.items()
        }


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The last message; and while an action is pending, what it does, Yes, Cancel, the action."""

    notice: gr.HTML
    group: gr.Group
    ask: gr.HTML
    yes: gr.Button
    cancel: gr.Button
    pending: gr.Textbox

    @classmethod
    def added(cls, prefix: str) -> Confirmation:
        """Add it below the buttons that it is about; the page scrolls to it when it is filled."""
        notice = html("notice", js_on_load=SCROLL_HERE)
        with gr.Group(visible=False, elem_id=f"{prefix}confirmation") as group:
            ask = html("asking", js_on_load=SCROLL_HERE)
            with gr.Row():
                yes = gr.Button("Yes", elem_id=f"{prefix}yes", variant="primary", size="sm")
                cancel = gr.Button("Cancel", elem_id=f"{prefix}no", size="sm")
        return cls(notice, group, ask, yes, cancel, gr.Textbox(visible=False))

    @property
    def shown(self) -> list[Any]:
        """What the handlers give new values."""
        return [self.notice, self.group, self.ask, self.yes, self.pending]
