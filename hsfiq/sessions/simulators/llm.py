"""The `llm` simulator: a language model says how the target differs from the candidate."""

from __future__ import annotations

from collections.abc import Mapping

from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import ImageFolder
from hsfiq.live.protocol import LONGEST_TEXT
from hsfiq.sessions.play import Progress
from hsfiq.sessions.simulators.chat import picture_part, text_part
from hsfiq.sessions.simulators.endpoint import Endpoint
from hsfiq.sessions.simulators.prompts import Prompt
from hsfiq.sessions.simulators.simulated_user import Simulator


class LanguageModel(Simulator):
    """FISD's simulator (section 4.1): one model describes images, another compares descriptions."""

    name = "llm"

    def __init__(
        self,
        endpoint: Endpoint,
        prompt: Prompt,
        images: ImageFolder,
        model: str,
        describing_model: str | None = None,
        parallel: int = 4,
    ) -> None:
        self._endpoint, self._prompt, self._images = endpoint, prompt, images
        self._model, self._describing_model = model, describing_model or model
        self.parallel = parallel
        models = "+".join(dict.fromkeys((self._describing_model, model)))
        self.version = f"{models}, prompt {prompt.sha256}"

    def text(self, progress: Progress, candidate: str) -> str:
        target, prompt = progress.query.targets[0], self._prompt
        if prompt.describe is None:
            parts = [text_part(prompt.compare), self._picture(candidate), self._picture(target)]
            answer = self._endpoint.answer(self._model, parts)
        else:
            texts = [self._described(prompt.describe, image) for image in (candidate, target)]
            answer = self._endpoint.answer(self._model, prompt.filled(*texts))
        return answer[:LONGEST_TEXT]

    def costs(self) -> dict[str, int]:
        return self._endpoint.costs.to_json()

    def _described(self, describe: str, image: str) -> str:
        parts = [text_part(describe), self._picture(image)]
        return self._endpoint.answer(self._describing_model, parts)

    def _picture(self, image: str) -> Mapping[str, object]:
        path = self._images.find(image)
        if path is None:
            raise UnreadableInput(
                str(self._images.root), f"has no file of image {image}", "name --images"
            )
        return picture_part(path)
