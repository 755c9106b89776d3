"""The board's page: which component stands where and which handler it calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from hsfiq.annotate.owner import actions
from hsfiq.annotate.owner.dashboard import Board

STATIC = Path(__file__).parents[1] / "static"
REFRESH_SECONDS = 15

QUIET: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
"""Every event: answered at once, without Gradio's overlay, and in no list of endpoints."""

PICK = """
element.addEventListener('click', (event) => {
  const pressed = event.target.closest('.pick');
  if (pressed) trigger('select', { name: pressed.dataset.participant || pressed.dataset.question });
});
"""


LOGOUT = '<form method="post" action="../logout"><button class="plain">Log out</button></form>'


def static(name: str) -> str:
    """One of the board's own files."""
    return (STATIC / name).read_text(encoding="utf-8")


def html(name: str, *, picks: bool = False) -> gr.HTML:
    """An empty place that a handler fills; `picks` reports presses on names in it."""
    return gr.HTML(
        "",
        elem_classes=["owner", name],
        apply_default_css=False,
        js_on_load=PICK if picks else "",
    )


def heading(words: str, level: int = 2) -> gr.HTML:
    """The heading of the page or of a part of it."""
    written = f"<h{level}>{words}</h{level}>"
    return gr.HTML(written, elem_classes=["owner"], apply_default_css=False)


def board_page(board: Board) -> gr.Blocks:
    """The page; what it shows is loaded with it, so that its address alone says nothing."""
    blocks: gr.Blocks = gr.Blocks(title="Study owner", analytics_enabled=False)
    with blocks:
        with gr.Row(elem_classes=["top"]):
            heading("Study owner", level=1)
            # Custom values: after a restart Gradio knows no choices; the handlers look it up.
            study = gr.Dropdown(
                label="Study", allow_custom_value=True, interactive=True, elem_id="study",
                container=False, scale=3,
            )  # fmt: skip
            updated = html("when")
            refresh = gr.Button("Refresh", elem_id="refresh", min_width=100, scale=0, size="sm")
            gr.HTML(LOGOUT, elem_classes=["owner"], apply_default_css=False)
        tiles = html("headline")
        plots = html("plots")
        with gr.Row(equal_height=False):
            with gr.Column(scale=7, min_width=480):
                heading("Participants")
                people = html("people", picks=True)
            with gr.Column(scale=3, min_width=300):
                heading("One participant")
                person = line("participant", "Press a name, or type it")
                for_person = action_buttons("person", actions.PERSON)
                asking = confirmation()
                heading("The study")
                about = html("about")
                for_study = action_buttons("study", actions.STUDY)
        with gr.Row(equal_height=False):
            with gr.Column(scale=4, min_width=480):
                heading("Latest answers")
                latest = html("latest", picks=True)
            with gr.Column(scale=5, min_width=480):
                heading("One question's history")
                question = line("question", "Press an id, or type it (p1.form_1.0) and Enter")
                history = html("history")

        shown = [updated, tiles, plots, people, latest, about]
        _notice, _group, _ask, yes, no, pending = asking
        answer = [one for one in asking if one is not no]
        blocks.load(board.opened, outputs=[study, *shown], **QUIET)
        refresh.click(board.refreshed, study, shown, **QUIET)
        gr.Timer(REFRESH_SECONDS).tick(board.refreshed, study, shown, **QUIET)
        study.input(board.chosen, study, [*shown, person, question, history, *answer], **QUIET)
        people.select(board.picked, outputs=person, **QUIET)
        latest.select(board.picked_question, study, [question, history], **QUIET)
        question.submit(board.history, [study, question], history, **QUIET)
        for name, button in for_person.items():
            button.click(board.asker(name), [study, person], answer, **QUIET)
        for name, button in for_study.items():
            button.click(board.study_asker(name), study, answer, **QUIET)
        yes.click(board.confirmed, [pending, study], [*answer, *shown], **QUIET)
        no.click(board.cancelled, outputs=answer, **QUIET)
    return blocks


def line(name: str, label: str) -> gr.Textbox:
    """A field for one name."""
    return gr.Textbox(label=label, elem_id=name, max_lines=1, max_length=300)


def action_buttons(what: str, kinds: dict[str, actions.ActionText]) -> dict[str, gr.Button]:
    """A button for each action."""
    with gr.Row(elem_classes=["actions"]):
        return {
            name: gr.Button(kind.button, elem_id=f"{what}-{name}", min_width=86, size="sm")
            for name, kind in kinds.items()
        }


def confirmation() -> tuple[gr.HTML, gr.Group, gr.HTML, gr.Button, gr.Button, gr.Textbox]:
    """What was done last; and, while an action waits, what it means, Yes and Cancel, itself."""
    notice = html("notice")
    with gr.Group(visible=False, elem_id="confirmation") as group:
        ask = html("asking")
        with gr.Row():
            yes = gr.Button("Yes", elem_id="yes", variant="primary", size="sm")
            no = gr.Button("Cancel", elem_id="no", size="sm")
    return notice, group, ask, yes, no, gr.Textbox(visible=False)


def look() -> dict[str, Any]:
    """How the page looks: system fonts, the colours of the annotators' page, both themes."""
    fonts = ["system-ui", "sans-serif"]
    theme = gr.themes.Base(font=fonts, font_mono=["ui-monospace", "monospace"])
    # Not as `css`: Gradio rewrites the selectors of that.
    head = f"{static('owner_head.html')}<style>{static('owner.css')}</style>"
    return {"theme": theme, "head": head}
