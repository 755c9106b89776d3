"""A judge behind an OpenAI-compatible endpoint: a number for a set, or the better one of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hsfiq.errors import UnreadableInput
from hsfiq.model.judges.judge import Answer, Judge, JudgeFailed, JudgePrompt, Question
from hsfiq.sessions.language_model import (
    LONGEST_ANSWER,
    Chat,
    EndpointFailed,
    QuestionRefused,
    picture_part,
    text_part,
)


class ChatJudge(Judge):
    """Each question is one request; the judge sees the reference, the text and all images."""

    method: ClassVar[str] = "the number or the preference that the model writes"

    def __init__(self, chat: Chat, model: str, prompt: JudgePrompt, parallel: int) -> None:
        if prompt.asks == "images":
            what = "asks for the probability of an answer, which an endpoint does not report"
            raise UnreadableInput(prompt.name, what, "use --prompt preference or likert")
        self._chat, self._model, self._prompt = chat, model, prompt
        self.asks, self.parallel = prompt.asks, parallel
        self.reads_reference = prompt.reference is not None
        self.name = f"chat:{model}"

    def identity(self) -> Mapping[str, Any]:
        return {
            "model": self._model,
            "endpoint": self._chat.url,
            "prompt": self._prompt.to_json(),
            "temperature": 0,
            "longest_answer": LONGEST_ANSWER,
        }

    def close(self) -> None:
        self._chat.close()

    def answer(self, questions: Sequence[Question]) -> Sequence[Answer]:
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Answer:
        seed = question.attempt - 1
        try:
            reply = self._chat.ask(self._model, list(self._content(question)), seed=seed)
        except QuestionRefused as error:
            return Answer(None, "refused by the endpoint", raw=error.what, is_kept=False)
        except EndpointFailed as error:
            raise JudgeFailed(error.what, where=error.where, remedy=error.remedy) from error
        if reply.refusal:
            raw = {"refusal": reply.refusal, "text": reply.text}
            return Answer(None, "refused by the model", raw, reply.usage)
        value = self._prompt.value_of(reply.text)
        if value is None:
            return Answer(None, "unreadable", reply.text, reply.usage, is_final=False)
        return Answer(value, None, reply.text, reply.usage)

    def _content(self, question: Question) -> Sequence[Mapping[str, object]]:
        prompt, parts = self._prompt, []
        if question.reference is not None:
            parts += [text_part(prompt.reference or ""), picture_part(question.reference)]
        for number, images in enumerate(question.sets, start=1):
            label = prompt.set or "Set {number}:"
            parts.append(text_part(label.replace("{number}", str(number))))
            parts += [picture_part(Path(image)) for image in images]
        return [*parts, text_part(prompt.filled(question.text).strip())]
