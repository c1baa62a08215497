"""Converts between our own types and Gemini's JSON. Pure: imports nothing of google's.

We write the history's JSON ourselves. The SDK would take over a second, on the event loop, to convert 5,000 messages
into its own types, and would lose fields that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_

from runtime.jsontypes import JsonObject
from runtime.models.model import ModelResponse
from runtime.tool import Declaration
from runtime.wire import Content, Part, WireModel

_OURS = "adk-"  # begins the ids that the runtime gave to calls without one; Gemini never saw them
_FINISHED = {None, "STOP", "FINISH_REASON_UNSPECIFIED"}

_WHY = {
    "MAX_TOKENS": "The answer reached its limit of tokens before it was complete: raise max_output_tokens, or ask "
    "for less.",
    "MALFORMED_FUNCTION_CALL": "The model tried to call a tool in a way that nobody can read: ask again.",
    "UNEXPECTED_TOOL_CALL": "The model tried to call a tool that it was not offered: ask again.",
    "EMPTY_RESPONSE": "The model's answer is empty: ask again, or put it differently.",
}


class HistoryJson:
    """A history as Gemini's JSON. The JSON of each message is made once, and kept for later requests."""

    def __init__(self, *, vertex: bool) -> None:
        self._vertex = vertex
        self._contents: list[Content] = []
        self._pieces: list[bytes] = []

    def of(self, contents: Sequence[Content]) -> bytes:
        """The elements of the JSON array for these contents. Contents without parts are left out."""
        known = _common_start(self._contents, contents)
        del self._contents[known:], self._pieces[known:]
        for content in contents[known:]:
            self._contents.append(content)
            self._pieces.append(_content_json(content, self._vertex) if content.parts else b"")
        return b",".join(filter(None, self._pieces))


def instruction_json(instruction: str) -> bytes:
    return json.dumps({"parts": [{"text": instruction}], "role": "user"}).encode()


def tools_json(tools: Sequence[Declaration]) -> bytes:
    declared = [{"description": t.description, "name": t.name, "parametersJsonSchema": t.schema} for t in tools]
    return json.dumps([{"functionDeclarations": declared}]).encode()


def _common_start(some: Sequence[Content], others: Sequence[Content]) -> int:
    """How many contents both begin with. They are the same objects, since contents never change."""
    if all(map(is_, some, others)):
        return min(len(some), len(others))
    return next(number for number, same in enumerate(map(is_, some, others)) if not same)


def _content_json(content: Content, vertex: bool) -> bytes:
    """The JSON of a content, without what Gemini refuses: our own ids and, on the Gemini API, file names."""
    plain = content.to_dict()
    for part in plain["parts"]:
        for kind in ("functionCall", "functionResponse"):
            if kind in part and str(part[kind].get("id", "")).startswith(_OURS):
                del part[kind]["id"]
        for kind in ("inlineData", "fileData"):
            if kind in part and not vertex:
                part[kind].pop("displayName", None)
    return json.dumps(plain, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Chunk:
    """One message of Gemini's answer. Without streaming there is only one."""

    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    block_reason: str | None = None
    block_message: str | None = None
    usage: JsonObject | None = None
    model_version: str | None = None


class _Candidate(WireModel):
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    continuation_token: bytes | None = None


class _Feedback(WireModel):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Answer(WireModel):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: JsonObject | None = None
    model_version: str | None = None


def read_answer(body: str) -> tuple[Chunk, bytes | None]:
    """An answer that came whole. With a token it is not complete: another request with that token gets the rest. Raises
    `ValueError` for what is not an answer from Gemini."""
    answer = _Answer.model_validate_json(body or "{}")
    candidate = answer.candidates[0] if answer.candidates else _Candidate()
    feedback = answer.prompt_feedback or _Feedback()
    unfinished = candidate.finish_reason in (None, "CONTINUATION")
    chunk = Chunk(
        content=candidate.content,
        finish_reason=candidate.finish_reason,
        finish_message=candidate.finish_message,
        block_reason=feedback.block_reason,
        block_message=feedback.block_reason_message,
        usage=answer.usage_metadata,
        model_version=answer.model_version,
    )
    return chunk, candidate.continuation_token if unfinished else None


class AnswerBuilder:
    """Puts an answer together from its pieces: neighbouring texts are joined, everything else is kept as it is.

    A part with a signature is never joined with another: Gemini wants it back unchanged.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._last = Chunk()

    def add(self, chunk: Chunk) -> Content | None:
        """Adds a piece, and returns the texts in it that can be shown at once, including thoughts."""
        before = self._last
        self._last = Chunk(
            finish_reason=chunk.finish_reason or before.finish_reason,
            finish_message=chunk.finish_message or before.finish_message,
            block_reason=chunk.block_reason or before.block_reason,
            block_message=chunk.block_message or before.block_message,
            usage=chunk.usage or before.usage,
            model_version=chunk.model_version or before.model_version,
        )
        parts = (chunk.content.parts if chunk.content else None) or []
        for part in parts:
            self._add_part(part)
        shown = [part for part in parts if part.text]
        return Content(role="model", parts=shown) if shown else None

    def _add_part(self, part: Part) -> None:
        last = self._parts[-1] if self._parts else None
        if not _is_plain_text(part):
            self._parts.append(part)
        elif last is not None and _is_plain_text(last) and bool(last.thought) == bool(part.thought):
            self._parts[-1] = last.model_copy(update={"text": (last.text or "") + (part.text or "")})
        elif part.text:
            self._parts.append(part)

    def whole(self) -> ModelResponse:
        """The complete answer. If the model did not finish properly, raises the error that says why.

        Text that was cut short is kept, since people may have seen it. A tool call that was cut short is dropped.
        """
        last = self._last
        if last.block_reason:
            about = f" {last.block_message}" if last.block_message else ""
            return self._error(
                last.block_reason,
                f"The request was blocked before the model answered ({last.block_reason}): put it differently.{about}",
            )
        if last.finish_reason not in _FINISHED:
            return self._error(str(last.finish_reason), _failure_text(str(last.finish_reason), last.finish_message))
        if not any(_says_something(part) for part in self._parts):
            return self._error("EMPTY_RESPONSE", _WHY["EMPTY_RESPONSE"])
        return ModelResponse(
            content=Content(role="model", parts=self._parts),
            finish_reason=last.finish_reason,
            usage=last.usage,
            model_version=last.model_version,
        )

    def _error(self, code: str, message: str) -> ModelResponse:
        kept = [part for part in self._parts if part.text] if code == "MAX_TOKENS" else []
        return ModelResponse(
            content=Content(role="model", parts=kept) if kept else None,
            finish_reason=self._last.finish_reason,
            error_code=code,
            error_message=message,
            usage=self._last.usage,
            model_version=self._last.model_version,
        )


def _failure_text(reason: str, message: str | None) -> str:
    known = _WHY.get(reason) or (
        f"The model stopped before its answer was complete ({reason}): put the request differently."
    )
    return f"{known} {message}" if message else known


def _is_plain_text(part: Part) -> bool:
    return part.model_dump(exclude_none=True, exclude={"thought"}).keys() == {"text"}


def _says_something(part: Part) -> bool:
    """Whether there is an answer. A thought or a signature alone does not count."""
    if part.thought:
        return False
    return bool(part.text) or any(
        kind is not None
        for kind in (
            part.function_call,
            part.inline_data,
            part.file_data,
            part.executable_code,
            part.code_execution_result,
        )
    )
