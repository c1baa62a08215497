"""The interface of a language model: one method."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.tool import Declaration
from adk_confirm.runtime.wire import Content


@dataclass(frozen=True)
class ModelRequest:
    """A request to a model. The list `contents` is only lent: read it, but do not keep or change it."""

    model: str
    contents: Sequence[Content]
    instruction: str = ""
    tools: Sequence[Declaration] = ()
    config: JsonObject = field(default_factory=dict)
    streaming: bool = False


@dataclass(frozen=True)
class ModelResponse:
    """A piece of the answer (`partial`), or the whole answer, which always comes last."""

    content: Content | None = None
    partial: bool = False
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: JsonObject | None = None
    model_version: str | None = None


class ModelFailure(ConfirmError):
    """The model failed for good. `code` is short and stable. The message says what to do. `said`: the text before the
    failure, if it is worth keeping."""

    def __init__(self, code: str, message: str, said: Content | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.said = said


@runtime_checkable
class Model(Protocol):
    def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        """Yields partial responses if `request.streaming`, then exactly one complete response. Raises
        `ModelFailure`."""
        ...
