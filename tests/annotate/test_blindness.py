"""Nothing sent to the browser reveals a system, a target or an image's name."""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi.testclient import TestClient

from tests.annotate.page_requests import answer_body, check_body, view

TELLTALE = re.compile(r"telltale|image_root")


def opening(client: TestClient) -> dict[str, Any]:
    """The data in the page when it is loaded."""
    (held,) = re.findall(r'class="opening">(.*?)</script>', client.get("/study/").text)
    return dict(json.loads(held))


def tokens_in(question: dict[str, Any]) -> set[str]:
    images = [question["reference"], *question["sets"][0], *question["sets"][1]]
    return {image["token"] for image in images} | set(question["next_images"])


def test_a_complete_participation_reveals_no_system(annotator: TestClient) -> None:
    texts = [annotator.get(path).text for path in ("/", "/study/")]
    current_view = opening(annotator)["view"]
    while current_view["step"] != "done":
        texts.append(json.dumps(current_view))
        if current_view["step"] == "check":
            answer = annotator.post("/check", json=check_body(current_view))
        else:
            for token in tokens_in(current_view):
                answers = [annotator.get(f"/image/{token}{end}") for end in ("", "/full")]
                texts += [str(sorted(answer.headers.items())) for answer in answers]
            answer = annotator.post("/submit", json=answer_body(current_view))
        texts += [answer.text, str(sorted(answer.headers.items()))]
        current_view = answer.json()["view"]
    for text in texts:
        assert not (match := TELLTALE.search(text)), f"{match}: {text[:300]}"


def test_a_view_has_no_other_keys(annotator: TestClient) -> None:
    current_view = view(annotator)
    assert set(current_view) == {
        "step", "number", "total", "answered", "back", "text", "reference", "sets", "earlier",
        "standing_at", "assignment", "draft", "next_images", "minutes_left", "reason_asked",
        "text_version", "messages", "language",
    }  # fmt: skip
    assert {key for image_set in current_view["sets"] for image in image_set for key in image} == {
        "token",
        "missing",
    }
    assert [len(image_set) for image_set in current_view["sets"]] == [5, 5]


def test_the_next_images_are_those_of_the_next_question(annotator: TestClient) -> None:
    current_view = view(annotator)
    following = annotator.post("/submit", json=answer_body(current_view)).json()["view"]
    images = [following["reference"], *following["sets"][0], *following["sets"][1]]
    assert set(current_view["next_images"]) == {image["token"] for image in images}


def test_the_initial_data_name_no_participant(annotator: TestClient) -> None:
    study = opening(annotator)["study"]
    assert set(study) == {
        "title", "kind", "points", "levels", "language", "direction", "guidelines", "set_names",
        "extra_questions", "ties_allowed", "confirm_difference", "shortest_reason",
        "longest_reason", "is_preview", "text_version", "languages",
    }  # fmt: skip
