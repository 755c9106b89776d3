"""The question page's JavaScript modules: serving them, and the texts and elements they name."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from hsfiq.annotate.gradio_page import HEAD, MODULES, STATIC, VERSION
from hsfiq.answer_rules import HIGHEST_SCORE
from hsfiq.study.languages import LANGUAGES, standard_texts

HTML = (STATIC / "question.html").read_text("utf-8")
CODE = "\n".join(content.decode() for content in MODULES.values())


def test_browsers_keep_modules_until_they_change(new_browser: TestClient) -> None:
    for name, content in MODULES.items():
        reply = new_browser.get(f"/page/{VERSION}/{name}")
        assert reply.content == content
        assert reply.headers["content-type"].startswith("text/javascript")
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "default-src 'self'" in reply.headers["content-security-policy"]
        assert f"../page/{VERSION}/{name}" in HEAD


@pytest.mark.parametrize(
    "path", [f"{VERSION}/protocol.d.ts", f"{VERSION}/..%2fowner.css", "0" * 16 + "/page.js"]
)
def test_nothing_else_is_served(new_browser: TestClient, path: str) -> None:
    reply = new_browser.get(f"/page/{path}")
    assert reply.status_code == 404
    assert "immutable" not in reply.headers.get("cache-control", "")


def test_every_text_is_used_and_every_text_named_exists() -> None:
    in_html = set(re.findall(r'data-(?:text|label|title|alt)="(\w+)"', HTML))
    keys = set(standard_texts("en")["page"])
    assert in_html <= keys
    # The practice question's texts are part of its view.
    unused = {key for key in keys - in_html if not re.search(rf'["\.]{key}\b', CODE)}
    assert unused == {
        *("practice_text", "practice_text_shapes"),
        *("practice_explanation", "practice_expected"),
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_score_has_an_anchor(language: str) -> None:
    assert len(standard_texts(language)["page"]["anchors"]) == HIGHEST_SCORE


def test_every_element_that_the_code_looks_for_is_on_the_page() -> None:
    built = CODE + HTML
    for selector in re.findall(r'(?:find|findAll|onPress)\("([^"$]+)"', CODE):
        for name in re.findall(r"[.#]([\w-]+)", selector):
            assert re.search(rf'[" ]{name}[" ]', built), selector
