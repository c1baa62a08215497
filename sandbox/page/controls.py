"""What a demo adds to the page: a bot that can crash, a clock that can be moved, and hints about what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from adk_confirm.sandbox.reading import JsonObject
from adk_confirm.sandbox.workspace.records import User


class BotState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DOWN = "down"


class Controls(Protocol):
    """The bot behind the page. A change of these is announced as a change of the workspace's `stage`."""

    @property
    def state(self) -> BotState: ...

    @property
    def crashes_in_call(self) -> bool:
        """Whether the app will crash at the next moment that the demo finds telling."""
        ...

    @property
    def minutes_ahead(self) -> int: ...

    async def pass_time(self, minutes: int) -> None:
        """Moves the clock of Slack and of the bot."""
        ...

    async def crash(self) -> None:
        """Kills the bot's process, at once."""
        ...

    async def crash_in_call(self) -> None: ...

    async def start(self) -> None:
        """Starts the bot again. Returns when it listens."""
        ...


@dataclass(frozen=True, slots=True)
class Hint:
    """What the person at the page could do next, and the button that does it for them."""

    text: str
    button: str = ""
    action: JsonObject | None = None
    """`{"be": person}`, `{"say": text}`, `{"thread": ts, "channel": id}`, `{"panel": true}` or `{"do": gesture, …}`."""
    step: str = ""
    """How far the tour is, such as “1 of 4”."""

    def to_json(self) -> JsonObject:
        return {"text": self.text, "button": self.button, "action": self.action, "step": self.step}


class Guide(Protocol):
    def hint(self, person: User) -> Hint | None:
        """The next step of the tour, for this person; None when there is none."""
        ...
