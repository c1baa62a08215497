"""Which of our files one approval passes, and which transactions it writes, from the click until the tool starts.

python -m bench.trace
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from adk_confirm import Agent, FunctionCall, FunctionTool, ModelRequest, ScriptedModel
from adk_confirm.runtime.models.scripted import ScriptLine
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.jobs import claim_due
from tests.support.office import office

ROOT = Path(__file__).parents[1] / "src" / "adk_confirm"
OURS = tuple(f"{ROOT / room}/" for room in ("bot", "blocks", "runtime"))


class Trace:
    """Files and writing transactions, in the order in which they are met while it is on."""

    on = False

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.writes: list[str] = []
        self.started = asyncio.Event()

    def called(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if self.on and event == "call" and file.startswith(OURS):
            self.files.setdefault(str(Path(file).relative_to(ROOT)))


trace = Trace()


def pay(order: str) -> str:
    """Pays an order."""
    trace.on = False
    trace.started.set()
    return f"paid {order}"


def reply(request: ModelRequest) -> ScriptLine:
    said = request.contents[-1]
    return "Paid." if any(said.responses()) else [FunctionCall(name="pay", args={"order": said.text.split()[-1]})]


agent = Agent(name="payer", model=ScriptedModel(reply=reply), tools=[FunctionTool(pay, require_confirmation=True)])


async def main() -> None:
    run = Database.run

    async def noting(self: Database, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        on, found = trace.on, await run(self, fn, *args, **kwargs)
        if on and not (fn is claim_due and not found[0]):  # a look that claims nothing writes nothing
            trace.writes.append(fn.__name__)
        return found

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(Database, "run", noting)
        threading.setprofile(trace.called)  # threads that start from now on
        sys.setprofile(trace.called)
        files = Path(folder)
        async with office(f"sqlite:///{files / 'x.db'}", files / "log", patched, target="bench.trace:agent") as at:
            for order in ("o-1", "o-2"):  # once before, so that Slack was asked who bob is
                trace.started.clear()
                card = await at.ask(f"pay {order}")
                await at.rests()
                trace.on = order == "o-2"
                await at.bob.clicks(card, "Approve")
                await asyncio.wait_for(trace.started.wait(), 30)
    print(*trace.files, sep="\n")
    print(f"{len(trace.files)} files, {len(trace.writes)} writing transactions: {', '.join(trace.writes)}")


if __name__ == "__main__":
    from bench import trace as shared  # noqa: PLW0406  (the module that the agent is loaded from, which is not `__main__`)

    logging.disable(logging.WARNING)
    asyncio.run(shared.main())
