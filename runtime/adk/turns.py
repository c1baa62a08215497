"""Makes runs of one session wait for each other, in one process and one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field

from adk_confirm.runtime.adk.signing import Announcement


@dataclass
class Turn:
    """A run that has its turn, and what it has to remember."""

    run: object
    task: asyncio.Task[object] | None
    released: asyncio.Event = field(default_factory=asyncio.Event)
    asking: dict[str, Announcement] = field(default_factory=dict)
    """By the id of the call, or of a node's request, until the event that asks passes."""
    accepted: set[object] = field(default_factory=set)
    """The signatures of the answers that this run acts on."""

    def has_ended(self, task: asyncio.Task[object] | None) -> bool:
        """Whether its run broke off: its task has ended, or asks for another turn."""
        return self.task is None or self.task is task or self.task.done()


class Turns:
    """Gives runs their turn. A turn ends when its run says so, or with the task of a run that breaks off."""

    def __init__(self) -> None:
        self._holders: dict[Hashable, Turn] = {}

    async def take(self, key: Hashable, run: object) -> bool:
        """Waits for this run's turn. Returns whether it had to wait."""
        here, task = (asyncio.get_running_loop(), key), asyncio.current_task()
        while (holder := self._holders.get(here)) is not None and holder.run is not run and not holder.has_ended(task):
            await holder.released.wait()
        if holder is not None and holder.run is run:
            return False
        if holder is not None:
            self._end(here, holder)
        mine = self._holders[here] = Turn(run, task)
        if task is not None:
            task.add_done_callback(lambda _: self._end(here, mine))
        return True

    def of(self, key: Hashable) -> Turn:
        """The turn of the run that goes on. One that nobody took remembers nothing."""
        return self._holders.get((asyncio.get_running_loop(), key)) or Turn(None, None)

    def leave(self, key: Hashable, run: object) -> None:
        here = (asyncio.get_running_loop(), key)
        holder = self._holders.get(here)
        if holder is not None and holder.run is run:
            self._end(here, holder)

    def _end(self, here: Hashable, holder: Turn) -> None:
        if self._holders.get(here) is holder:
            del self._holders[here]
        holder.released.set()
