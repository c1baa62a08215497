"""An agent that says what a test gives it, word by word, and fails on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from adk_confirm import Agent
from adk_confirm.runtime.models.protocol import ModelFailure, ModelRequest, ModelResponse
from adk_confirm.runtime.wire import Blob, Content
from adk_confirm.sandbox.people.waiting import WaitedInVain
from adk_confirm.sandbox.server.server import FakeSlack


class Mouth:
    """Says what is put in here. `None` ends the reply, an exception fails it."""

    def __init__(self) -> None:
        self.begins_anew()

    def begins_anew(self) -> Mouth:
        """Starts again for the next test, in its own event loop."""
        self.words: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self.heard: list[str] = []
        self.files: list[Blob] = []
        return self

    def say(self, *words: str | Exception | None) -> None:
        for word in words:
            self.words.put_nowait(word)

    async def goes_on(self, slack: FakeSlack, words: str, until: Callable[[], object]) -> None:
        """Repeats the words, two seconds apart by the tests' clock, until they have an effect. Gives Slack time between
        them: a reply that grows too long before it is sent is not streamed at all."""
        while not until():
            await self.words.join()
            slack.clock.advance(2)
            self.say(words)
            with suppress(WaitedInVain):
                await slack.until(until, timeout=0.5)

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        self.heard.append(request.contents[-1].text if request.contents else "")
        self.files += [part.inline_data for part in request.contents[-1].parts or () if part.inline_data]
        said = ""
        while (word := await self.words.get()) is not None:
            if isinstance(word, Exception):
                raise word
            said += word
            yield ModelResponse(Content.of_text(word, "model"), partial=True)
            self.words.task_done()
        self.words.task_done()
        yield ModelResponse(Content.of_text(said, "model"), finish_reason="STOP")


FAILURE = ModelFailure("OVERLOADED", "The model is overloaded.")
mouth = Mouth()
agent = Agent(name="talker", model=mouth, instruction="Talk.")
