"""The dashboard's page: its components and the handlers that they call; adding it to the app."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request

from hsfiq.actors import Permission
from hsfiq.annotate.gradio_page import base_theme, mount_gradio
from hsfiq.annotate.images.store import ImageStore
from hsfiq.annotate.owner import actions
from hsfiq.annotate.owner.accounts.link import add_links
from hsfiq.annotate.owner.accounts.page import add_accounts
from hsfiq.annotate.owner.answer_pages.routes import add_answer_pages
from hsfiq.annotate.owner.audit.routes import add_audit
from hsfiq.annotate.owner.dashboard import Dashboard
from hsfiq.annotate.owner.export import add_export
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import DASHBOARD, add_login
from hsfiq.annotate.owner.running.routes import add_running_study
from hsfiq.annotate.pages import render

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
