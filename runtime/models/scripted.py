"""A model that follows a script: for tests, demonstrations and work without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from adk_confirm.runtime.jsontypes import Json
from adk_confirm.runtime.models.protocol import ModelFailure, ModelRequest, ModelResponse
from adk_confirm.runtime.wire import Content, FunctionCall, Part

ScriptLine = str | FunctionCall | Content | Exception | Sequence["str | FunctionCall"]
"""One answer: a text, a call, several of both, a ready content, or a failure to raise."""


def call(name: str, /, **args: Json) -> FunctionCall:
    """A line that calls a tool: `call("reimburse", purpose="trip", amount=1500)`."""
    return FunctionCall(name=name, args=dict(args))


class ScriptedModel:
    """Answers with the lines of a script, in order, or with the result of a function of the request.

    `requests` keeps a copy of each request, for tests.
    """

    def __init__(
        self,
        *script: ScriptLine | Callable[[ModelRequest], ScriptLine],
        reply: Callable[[ModelRequest], ScriptLine] | None = None,
    ):
        self._script = list(script)
        self._reply = reply
        self.requests: list[list[Content]] = []

    def __repr__(self) -> str:
        return f"ScriptedModel({len(self._script)} lines left)"

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        self.requests.append([content.model_copy(deep=True) for content in request.contents])
        content = _content(self._next(request))
        if request.streaming:
            for part in content.parts or ():
                for word in (part.text or "").splitlines(keepends=True) or ():
                    yield ModelResponse(Content.of_text(word, "model"), partial=True)
        yield ModelResponse(content, finish_reason="STOP")

    def _next(self, request: ModelRequest) -> ScriptLine:
        line: ScriptLine | Callable[[ModelRequest], ScriptLine]
        if self._script:
            line = self._script.pop(0)
        elif self._reply:
            line = self._reply
        else:
            raise ModelFailure("SCRIPT_ENDED", "The scripted model has no lines left: give it as many as it is asked.")
        said = line(request) if callable(line) else line
        if isinstance(said, Exception):
            raise said
        return said


def _content(line: ScriptLine) -> Content:
    if isinstance(line, Content):
        return line.model_copy(deep=True)
    assert not isinstance(line, Exception)
    if not isinstance(line, str | FunctionCall | Sequence):
        raise ModelFailure(
            "BAD_SCRIPT", f"{line!r} is not a line of a script: give a text, a call(…), or a list of both."
        )
    pieces = [line] if isinstance(line, str | FunctionCall) else line
    parts = [Part(text=p) if isinstance(p, str) else Part(function_call=p.model_copy(deep=True)) for p in pieces]
    return Content(role="model", parts=parts)
