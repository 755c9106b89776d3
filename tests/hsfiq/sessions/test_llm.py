"""The `llm` simulator with a server of our own, and captioners by their protocol."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hsfiq.drawn import garment_of
from hsfiq.drawn.pictures import write_images
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.images.folder import ImageFolder
from hsfiq.sessions.language_model import NAMES, read_prompt
from hsfiq.sessions.play import Settings, play, top1
from hsfiq.sessions.simulators import CaptionerSimulator, SimulatedUser, Simulator, load_captioner
from tests.hsfiq.sessions.garment_ranker import IMAGES, QUERIES, GarmentRanker
from tests.live_servers import serving

pytest.importorskip("openai")

from hsfiq.sessions.language_model import Endpoint, LanguageModel


@dataclass
class ChatServer:
    """Answers chat completions: an image is "a picture", a comparison "is red"."""

    status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    async def complete(self, request: Request) -> JSONResponse:
        body = await request.json()
        with self.lock:
            self.asked.append(body)
        if self.status != 200:
            return JSONResponse({"error": {"message": "no such model"}}, self.status)
        content = body["messages"][0]["content"]
        described = not isinstance(content, str) and len(content) == 2
        return JSONResponse(
            {
                "id": "1", "object": "chat.completion", "created": 1, "model": body["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": {
                    "role": "assistant", "content": "a picture" if described else " is \n red ",
                }}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
            }
        )  # fmt: skip


@pytest.fixture
def chat() -> ChatServer:
    return ChatServer()


@pytest.fixture
def url(chat: ChatServer) -> Iterator[str]:
    routes = [Route("/v1/chat/completions", chat.complete, methods=["POST"])]
    with serving(Starlette(routes=routes)) as address:
        yield f"{address}/v1"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    folder = tmp_path_factory.mktemp("images")
    write_images([garment_of(image) for image in IMAGES], folder, (24, 32))
    return ImageFolder(folder)


Model = Callable[..., LanguageModel]


@pytest.fixture
def model(url: str, images: ImageFolder, tmp_path: Path) -> Model:
    def make(prompt: str = "fashioniq") -> LanguageModel:
        endpoint = Endpoint(url, None, tmp_path / "answers")
        return LanguageModel(endpoint, read_prompt(prompt), images, "writer", "describer")

    return make


def texts(simulator: Simulator) -> list[str | None]:
    user = SimulatedUser(simulator, top1, "top1")
    sessions = play(GarmentRanker(), QUERIES[:3], user, Settings(rounds=2))
    assert {each.simulator_version for each in sessions} == {simulator.version}
    return [each.rounds[1].text for each in sessions]


def test_two_models_describe_and_compare(chat: ChatServer, model: Model) -> None:
    simulator = model()
    written = texts(simulator)
    assert set(written) == {"is red"}
    described = [each for each in chat.asked if each["model"] == "describer"]
    compared = [each for each in chat.asked if each["model"] == "writer"]
    assert compared
    image = described[0]["messages"][0]["content"][1]["image_url"]["url"]
    assert image.startswith("data:image/")
    assert "Caption: a picture" in compared[0]["messages"][0]["content"]
    assert {each["temperature"] for each in chat.asked} == {0}
    assert simulator.costs()["prompt_tokens"] == 7 * len(chat.asked)
    assert simulator.version == f"describer+writer, prompt {read_prompt('fashioniq').sha256}"


def test_an_answer_is_asked_for_once(chat: ChatServer, model: Model) -> None:
    first = texts(model())
    n = len(chat.asked)
    again = model()
    assert texts(again) == first
    assert len(chat.asked) == n
    costs = again.costs()
    assert (costs["requests"], costs["prompt_tokens"]) == (0, 0)
    assert costs["from_cache"] >= 3


def test_one_model_sees_both_images(chat: ChatServer, model: Model) -> None:
    assert set(texts(model("pair"))) == {"is red"}
    content = chat.asked[0]["messages"][0]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "image_url"]


def test_a_refusing_endpoint_is_one_line(chat: ChatServer, model: Model) -> None:
    chat.status = 404
    with pytest.raises(HsfiqError, match=r"/v1: returned no answer .*; repeat the command"):
        texts(model())


def test_our_prompts_can_be_read() -> None:
    prompts = {name: read_prompt(name) for name in NAMES}
    assert prompts["pair"].describe is None
    assert prompts["cirr"].filled("{target}", "y").count("y") > 1
    assert len({prompt.sha256 for prompt in prompts.values()}) == len(NAMES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("compare = 1", "needs the key compare"),
        ('compare = "x"\nother = "y"', "needs the key compare"),
        ('describe = "x"\ncompare = "{reference} alone"', "put both slots"),
        ("compare", "invalid TOML"),
    ],
)
def test_wrong_prompts_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(content)
    with pytest.raises(UnreadableInput, match=message):
        read_prompt(str(path))
    with pytest.raises(UnreadableInput, match="'flickr' is not known"):
        read_prompt("flickr")


CAPTIONER = """
class Own:
    def describe_difference(self, candidate, target, texts):
        return f"{candidate.stem} to {target.stem} after {len(texts)}"

own = Own()
silent = object()
"""


def test_a_captioner_of_yours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: ImageFolder
) -> None:
    (tmp_path / "own_captioner.py").write_text(CAPTIONER)
    monkeypatch.chdir(tmp_path)
    captioner = load_captioner("own_captioner:own")
    simulator = CaptionerSimulator(captioner, "own_captioner:own", images)
    target = QUERIES[0].targets[0]
    assert (texts(simulator)[0] or "").endswith(f"to {target} after 1")
    for name, message in (
        ("own_captioner:silent", "has no method describe_difference"),
        ("own_captioner:absent", "cannot be imported"),
        ("no_such_module:x", "cannot be imported"),
        ("own_captioner", "cannot be imported"),
    ):
        with pytest.raises(UnreadableInput, match=message):
            load_captioner(name)


def test_an_image_without_a_file_is_named(model: Model, tmp_path: Path) -> None:
    simulator = model()
    simulator._images = ImageFolder(tmp_path)
    with pytest.raises(UnreadableInput, match="has no file of image g"):
        texts(simulator)
