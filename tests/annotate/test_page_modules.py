"""The files of the question page: serving them, and the texts and elements that scripts name."""

from __future__ import annotations

import json
import re

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hsfiq.annotate.pages import FOLDER
from hsfiq.annotate.question_page import FILES, VERSION, add_question_page
from hsfiq.answer_rules import HIGHEST_SCORE
from hsfiq.study.languages import LANGUAGES, standard_texts

HTML = (FOLDER / "templates" / "question.html").read_text("utf-8")
CODE = "\n".join(content.decode() for name, content in FILES.items() if name.endswith(".js"))


def test_browsers_keep_files_until_they_change(annotator: TestClient) -> None:
    page = annotator.get("/study/")
    assert page.headers["cache-control"] == "no-store"
    for name, content in FILES.items():
        reply = annotator.get(f"/page/{VERSION}/{name}")
        assert reply.content == content
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        assert reply.headers["content-type"].startswith(kind)
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "default-src 'self'" in reply.headers["content-security-policy"]
        assert f"../page/{VERSION}/{name}" in page.text


def test_the_page_is_sent_compressed(annotator: TestClient) -> None:
    """On a slow line, the scripts, style sheets and texts are what takes time."""
    for path in ("/study/", f"/page/{VERSION}/question.css", f"/page/{VERSION}/question.js"):
        assert annotator.get(path).headers["content-encoding"] == "gzip"
        plain = annotator.get(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.text == annotator.get(path).text


def test_there_are_few_scripts() -> None:
    """Each is a request of the first visit."""
    assert sum(name.endswith(".js") for name in FILES) <= 14


def test_no_text_ends_the_element_that_holds_it() -> None:
    opening = {"texts": {"title": "</script><script>alert(1)</script>"}}
    app = FastAPI()
    add_question_page(app, "", lambda _: opening)  # type: ignore[arg-type, return-value]
    page = TestClient(app).get("/study/").text
    assert page.count("<script") == 2
    (held,) = re.findall(r'class="opening">(.*?)</script>', page, re.DOTALL)
    assert json.loads(held) == opening


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
