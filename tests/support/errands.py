"""An agent whose words a test decides, and whose tools end when the test lets them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from runtime import Agent, FunctionTool
from runtime.jsontypes import Json
from runtime.models.model import ModelRequest, ModelResponse
from runtime.models.scripted import call
from runtime.wire import Content, FunctionCall, Part

__all__ = ["Errands", "agent", "call", "errands"]


class Errands:
    """What the agent does: words, calls and `None`, which ends an answer of the model; and the tools' results, by
    name."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> Errands:
        """Starts again for the next test, in its own event loop."""
        self._said: asyncio.Queue[str | FunctionCall | None] = asyncio.Queue()
        self._results: dict[str, asyncio.Queue[Json]] = {}
        self._begun: dict[str, asyncio.Event] = {}
        return self

    def say(self, *said: str | FunctionCall) -> None:
        """Sets one answer of the model."""
        for one in (*said, None):
            self._said.put_nowait(one)

    def end(self, tool: str, result: Json) -> None:
        self._results.setdefault(tool, asyncio.Queue()).put_nowait(result)

    async def begins(self, tool: str) -> None:
        """Waits until the tool runs."""
        await self._begun.setdefault(tool, asyncio.Event()).wait()

    async def run(self, tool: str) -> Json:
        self._begun.setdefault(tool, asyncio.Event()).set()
        return await self._results.setdefault(tool, asyncio.Queue()).get()

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:  # noqa: ARG002  (a script)
        parts: list[Part] = []
        while (said := await self._said.get()) is not None:
            if isinstance(said, str):
                parts.append(Part(text=said))
                yield ModelResponse(Content.of_text(said, "model"), partial=True)
            else:
                parts.append(Part(function_call=said))
        yield ModelResponse(Content(role="model", parts=parts), finish_reason="STOP")


errands = Errands()


async def check_health(service: str) -> Json:
    """Looks whether a service is well."""
    return await errands.run(f"check_health {service}")


async def deploy(service: str, version: str) -> Json:
    """Deploys a version of a service."""
    return await errands.run(f"deploy {service} {version}")


agent = Agent(
    name="errands",
    model=errands,
    instruction="Do as you are told.",
    tools=[check_health, FunctionTool(deploy, require_confirmation=True, title="Deploy {service} {version}")],
)
