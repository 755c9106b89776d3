"""Guidelines and consent are written in Markdown; nothing in them can be executed."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from hsfiq.annotate.texts import TAGS, html_of
from tests.annotate.question_page import OpenPage
from tests.annotate.served_studies import Place, ThreadServer, make_study

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


@pytest.mark.parametrize("markdown", HOSTILE)
def test_hostile_markdown_becomes_harmless(markdown: str) -> None:
    for tag, attributes in Elements(html_of(markdown)).elements:
        assert tag in TAGS
        assert set(attributes) <= {"href", "title", "rel", "target", "start"}
        if tag == "a":
            scheme = urlsplit(attributes.get("href") or "").scheme
            assert scheme in ("", "https"), attributes


@pytest.mark.browser
def test_the_page_shows_markdown_and_executes_nothing(
    place: Place, serve: Callable[[Place], ThreadServer], open_page: OpenPage
) -> None:
    text = "\n\n".join([MARKDOWN, *HOSTILE])
    make_study(place, presentation={"guidelines": text, "consent": text}).close()
    page = open_page(serve(place), is_ready=False)
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
