"""Waits for what people should see, and looks after every change. If it never comes, the error shows all screens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from adk_confirm.sandbox.methods.call import CallRecord
from adk_confirm.sandbox.people.plain import Reader
from adk_confirm.sandbox.refusals import NotFound, Refused
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.workspace.records import User
from adk_confirm.sandbox.workspace.workspace import Workspace

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds. What is awaited comes at once or never, but a busy machine may be slow."""

_NOBODY = User("", "", "nobody", "Nobody", tz="UTC")


class WaitedInVain(Refused, AssertionError):
    """It did not happen in time. The message shows every conversation."""


async def until(
    workspace: Workspace, look: Callable[[], T | None], *, timeout: float, what: str, scene: Callable[[], str]
) -> T:
    """Returns what `look` finds, as soon as it finds something. NotFound and LookupError mean: not yet."""
    try:
        async with asyncio.timeout(timeout):
            while True:
                seen = workspace.changes.number
                found = _try(look)
                if found:
                    return found
                await workspace.changes.after(seen)
    except TimeoutError as error:
        raise WaitedInVain(f"Waited {timeout:g} s in vain for {what}. This is what there is:\n{scene()}") from error


def _try(look: Callable[[], T | None]) -> T | None:
    try:
        return look()
    except (NotFound, LookupError):
        return None


def scene(workspace: Workspace, calls: list[CallRecord], deliveries: list[Delivery]) -> str:
    """All conversations, modals, and what went wrong on the wire."""
    reader, lines = Reader(workspace.directory, _NOBODY), []
    for channel in workspace.directory.channels.values():
        messages = sorted([*channel.messages.values(), *channel.ephemerals], key=lambda each: each.ts)
        lines += [f"— #{channel.name or channel.id}"] if messages else []
        for message in messages:
            author = workspace.directory.user(message.user).name
            only = f" (only for {workspace.directory.user(message.only_for).name})" if message.only_for else ""
            indent = "    " if message.is_reply else "  "
            body = reader.message(message).replace("\n", f"\n{indent}  ")
            lines.append(f"{indent}{author}{only}: {body}")
    for user in workspace.directory.users.values():
        view = workspace.views.top(user.id)
        lines += [f"— {user.name} has a modal open: {view.body.get('title')}"] if view else []
    lines += [f"— {name} was told: {texts}" for name, texts in workspace.notices.items()]
    lines += [
        f"— {made.method} got {made.status} {made.error} {made.fault}"
        for made in calls
        if made.status != 200 or made.error
    ]
    lines += [
        f"— {made.what} was not acknowledged: {made.status} {made.reason}" for made in deliveries if not made.acked
    ]
    return "\n".join(lines) or "nothing at all"
