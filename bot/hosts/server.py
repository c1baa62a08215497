"""The interface to an ADK server, whether over REST or google-adk in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from adk_confirm.bot.confirmation.model import SessionKey
from adk_confirm.runtime.calls.call import Word
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.wire import Content

Settle = Callable[[SessionKey, str, Word, int], AsyncIterator[JsonObject]]
"""Sends what people said about a call whose outcome is unknown, for an attempt. Yields the run that follows."""


@dataclass(frozen=True, kw_only=True)
class ServerInfo:
    """What a server is and supports, found out once."""

    name: str
    metadata: bool = False  # takes `customMetadata` and stores it with events
    settle: Settle | None = None  # our own API counts answers itself, and takes what people said about an outcome
    schemas: Mapping[str, JsonObject] = field(default_factory=dict)  # its tools' parameters, by name
    notes: tuple[str, ...] = ()


class Server(Protocol):
    """Reads sessions and runs agents.

    Raises `Unreachable` and `DeliveryUnknown`.
    """

    @property
    def app(self) -> str: ...
    @property
    def patience(self) -> float: ...
    async def about(self) -> ServerInfo: ...
    async def events(self, session: SessionKey) -> list[JsonObject] | None:
        """The session's events. None if there is no such session."""
        ...

    async def create(self, session: SessionKey) -> None: ...
    def run(self, session: SessionKey, message: Content, extra: JsonObject) -> AsyncIterator[JsonObject]:
        """The events of a run as they come, to its end. `extra`: more keys for the request."""
        ...

    async def close(self) -> None: ...
