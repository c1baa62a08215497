"""Finds the model that a name stands for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.models.protocol import Model

if TYPE_CHECKING:
    from adk_confirm.runtime.models.gemini import GeminiModel

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
            if isinstance(model, Model):
                return model
            raise UnknownModel(
                f"{model!r} is not a model: pass a name such as 'gemini-2.5-flash' or an object with generate()."
            )
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
