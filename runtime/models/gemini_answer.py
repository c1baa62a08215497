"""Puts Gemini's answers together, and says what is wrong with one that is none. Pure."""

from __future__ import annotations

from google.genai import types

from runtime.jsontypes import JsonObject
from runtime.models.gemini_failures import bad_config
from runtime.models.model import ModelResponse
from runtime.wire import Content, Part

_FINISHED = {None, "STOP", "FINISH_REASON_UNSPECIFIED"}

_WHY = {
    "MAX_TOKENS": "The answer reached its limit of tokens before it was complete: raise max_output_tokens, or ask "
    "for less.",
    "MALFORMED_FUNCTION_CALL": "The model tried to call a tool in a way that nobody can read: ask again.",
    "UNEXPECTED_TOOL_CALL": "The model tried to call a tool that it was not offered: ask again.",
    "EMPTY_RESPONSE": "The model's answer is empty: ask again, or put it differently.",
}


class AnswerBuilder:
    """Puts an answer together from its pieces: neighbouring texts are joined, everything else is kept as it is.

    A part with a signature is never joined with another: Gemini wants it back unchanged.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._finish_reason: str | None = None
        self._finish_message: str | None = None
        self._feedback: types.GenerateContentResponsePromptFeedback | None = None
        self._usage: JsonObject | None = None
        self._model_version: str | None = None

    def add(self, piece: types.GenerateContentResponse) -> Content | None:
        """Adds a piece, and returns the texts in it that can be shown at once, including thoughts."""
        self._feedback = piece.prompt_feedback or self._feedback
        self._model_version = piece.model_version or self._model_version
        if piece.usage_metadata:
            self._usage = piece.usage_metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
        candidate = piece.candidates[0] if piece.candidates else types.Candidate()
        if candidate.finish_reason:
            self._finish_reason = str(candidate.finish_reason.value)
        self._finish_message = candidate.finish_message or self._finish_message
        if not candidate.content:
            return None
        for part in candidate.content.parts or ():
            if (call := part.function_call) and (call.partial_args or call.will_continue):
                raise bad_config("stream_function_call_arguments is not supported: a call is taken whole")
        said = Content.model_validate_json(candidate.content.model_dump_json(by_alias=True, exclude_none=True))
        for ours in said.parts or ():
            self._add_part(ours)
        shown = [ours for ours in said.parts or () if ours.text]
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
        """The complete answer. If the model did not finish properly, it says why.

        Text that was cut short is kept, since people may have seen it. A tool call that was cut short is dropped.
        """
        if self._feedback and self._feedback.block_reason:
            reason = str(self._feedback.block_reason.value)
            about = f" {message}" if (message := self._feedback.block_reason_message) else ""
            return self._error(
                reason, f"The request was blocked before the model answered ({reason}): put it differently.{about}"
            )
        if self._finish_reason not in _FINISHED:
            reason = str(self._finish_reason)
            known = _WHY.get(reason) or (
                f"The model stopped before its answer was complete ({reason}): put the request differently."
            )
            return self._error(reason, f"{known} {self._finish_message}" if self._finish_message else known)
        if not any(_says_something(part) for part in self._parts):
            return self._error("EMPTY_RESPONSE", _WHY["EMPTY_RESPONSE"])
        return self._response(self._parts)

    def _error(self, code: str, message: str) -> ModelResponse:
        kept = [part for part in self._parts if part.text] if code == "MAX_TOKENS" else []
        return self._response(kept, error_code=code, error_message=message)

    def _response(
        self, parts: list[Part], *, error_code: str | None = None, error_message: str | None = None
    ) -> ModelResponse:
        return ModelResponse(
            content=Content(role="model", parts=parts) if parts else None,
            finish_reason=self._finish_reason,
            error_code=error_code,
            error_message=error_message,
            usage=self._usage,
            model_version=self._model_version,
        )


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
