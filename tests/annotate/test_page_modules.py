"""The files of the question page, what its scripts name, and Markdown that executes nothing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import expect

from hsfiq.annotate.pages import FOLDER
from hsfiq.annotate.question_page import FILES, VERSION, add_question_page
from hsfiq.annotate.texts import TAGS, html_of
from hsfiq.study.languages import standard_texts
from tests.annotate.question_page import OpenPage
from tests.annotate.served_studies import ServeStudy
from tests.annotate.typescript import DECLARATIONS, typescript

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


def test_every_element_that_the_code_looks_for_is_on_the_page() -> None:
    built = CODE + HTML
    for selector in re.findall(r'(?:find|findAll|onPress)\("([^"$]+)"', CODE):
        for name in re.findall(r"[.#]([\w-]+)", selector):
            assert re.search(rf'[" ]{name}[" ]', built), selector


def test_the_typescript_declarations_match_the_python_types() -> None:
    assert DECLARATIONS.read_text(encoding="utf-8") == typescript(), (
        "run: python -m tests.annotate.typescript"
    )


MARKDOWN = """# What to do

Judge *each* set as a **whole**: see [the examples](https://example.org/a?b=c) or <https://example.org>.

| score | meaning |
|------:|---------|
| 5 | very good |

3. third
4. fourth
   - inner

> Thank you `all`.
"""

HOSTILE = [
    "<script>window.harm = 1</script>",
    "<img src=x onerror='window.harm = 1'>",
    "<svg onload=window.harm=1>",
    "<iframe srcdoc='<script>parent.harm = 1</script>'></iframe>",
    "[a](javascript:window.harm=1)",
    "[a](JaVaScRiPt:window.harm=1)",
    "[a](java\tscript:window.harm=1)",
    "[a](&#106;avascript:window.harm=1)",
    "[a](data:text/html;base64,PHNjcmlwdD4xPC9zY3JpcHQ+)",
    "[a](vbscript:harm)",
    "<javascript:window.harm=1>",
    "[a]: javascript:window.harm=1\n\n[a]",
    "![a](javascript:window.harm=1)",
    "![a](https://example.org/spy.png)",
    '[a](https://example.org "x" onclick="window.harm=1")',
    "[a](<https://example.org/ onmouseover=window.harm=1>)",
    '[a](https://example.org \'" onfocus="window.harm=1" autofocus="\')',
    "`<script>window.harm = 1</script>`",
    "    <script>window.harm = 1</script>",
    "```html onload=window.harm=1\n<script>window.harm = 1</script>\n```",
    "| a |\n|---|\n| <img src=x onerror=window.harm=1> |",
    "# <style>body { display: none }</style>",
    "<a href='https://example.org' target='_top' style='position:fixed'>a</a>",
]


class Elements(HTMLParser):
    """The elements of a piece of HTML, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_markdown_becomes_html() -> None:
    html = html_of(MARKDOWN)
    assert "<h3>What to do</h3>" in html
    assert "Judge <em>each</em> set as a <strong>whole</strong>" in html
    assert "<th>score</th>" in html
    assert "<td>very good</td>" in html
    assert '<ol start="3">' in html
    assert "<blockquote>" in html
    assert "<code>all</code>" in html
    links = [attributes for tag, attributes in Elements(html).elements if tag == "a"]
    for link in links:
        assert link["target"] == "_blank"
        assert "noopener" in (link["rel"] or "")
    assert [link["href"] for link in links] == ["https://example.org/a?b=c", "https://example.org"]


def test_hostile_markdown_becomes_harmless() -> None:
    for markdown in HOSTILE:
        for tag, attributes in Elements(html_of(markdown)).elements:
            assert tag in TAGS, markdown
            assert set(attributes) <= {"href", "title", "rel", "target", "start"}, markdown
            if tag == "a":
                scheme = urlsplit(attributes.get("href") or "").scheme
                assert scheme in ("", "https"), markdown


@pytest.mark.browser
def test_the_page_shows_markdown_and_executes_nothing(
    serve_study: ServeStudy, open_page: OpenPage
) -> None:
    text = "\n\n".join([MARKDOWN, *HOSTILE])
    server = serve_study(presentation={"guidelines": text, "consent": text})
    page = open_page(server, is_ready=False)
    for part in (".consent-text", ".guidelines-text"):
        shown = page.locator(part)
        expect(shown.get_by_role("link", name="the examples")).to_be_visible()
        expect(shown.get_by_role("cell", name="very good")).to_be_visible()
        assert shown.locator("script, img, iframe, svg, style").count() == 0
        shown.locator("p", has_text="onerror").first.hover()
        assert page.evaluate("window.harm") is None
        if part == ".consent-text":
            page.locator(".agree").click()
    for link in page.locator(".guidelines-text a").all():
        assert link.get_attribute("target") == "_blank"
        assert "noopener" in (link.get_attribute("rel") or "")
