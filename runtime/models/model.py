"""The interface of a language model, one method, and which model a name means."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from adk_confirm.runtime.errors import ConfirmError, Invalid
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.tool import Declaration
from adk_confirm.runtime.wire import Content

if TYPE_CHECKING:
    from adk_confirm.runtime.models.gemini import GeminiModel


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


_GEMINI = re.compile(r"gemini-.+|(models|tunedModels|publishers/google|projects)/.+")


class UnknownModel(Invalid):
    """There is no model of this name. The message lists those that exist."""


class Models:
    """Models by name, each made once. google-genai is loaded with the first Gemini model, since that takes as long as
    everything else together."""

    def __init__(self) -> None:
        self._gemini: GeminiModel | None = None

    def resolve(self, model: str | Model) -> Model:
        """The model of this name."""
        if not isinstance(model, str):
            return _require_model(model)
        if not _GEMINI.fullmatch(model):
            raise UnknownModel(
                f"No model is called {model!r}: known are gemini-… (also models/…, tunedModels/… and projects/…); for "
                "any other model pass an object with generate()."
            )
        if self._gemini is None:
            from adk_confirm.runtime.models.gemini import GeminiModel

            self._gemini = GeminiModel()
        return self._gemini

    def check(self, model: str) -> None:
        """Raises an error that says why this model can't be asked, as far as that is known without asking it."""
        self.resolve(model)
        from adk_confirm.runtime.models.gemini import goes_to_vertex

        goes_to_vertex(model)

    async def close(self) -> None:
        """Closes the models' connections. A later request opens new ones."""
        if self._gemini is not None:
            await self._gemini.close()


def _require_model(model: Model) -> Model:
    if isinstance(model, Model):
        return model
    raise UnknownModel(
        f"{model!r} is not a model: pass a name such as 'gemini-2.5-flash' or an object with generate()."
    )
