"""The panel "Behind the scenes" beside the chat. It shows newcomers what happens between Slack and the app.

Slack's side comes from the server's own records. What happens inside the app comes from an `Observed`, which a demo
provides.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from adk_confirm.sandbox.methods.call import CallRecord
from adk_confirm.sandbox.page import explanations
from adk_confirm.sandbox.page.explanations import Names
from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text, label, objects
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.workspace.changes import Changes
from adk_confirm.sandbox.workspace.workspace import Workspace

Kind = Literal["event", "click", "call", "request", "answer", "ledger"]
_KEPT = 2000
_PENDING = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One request, call or event. `note` explains it in one sentence."""

    kind: Kind
    title: str
    note: str
    body: JsonObject
    at: float
    """Seconds since 1970."""
    reply: Json = None
    """The answer, if there was one."""
    status: str = ""
    trouble: bool = False


class Observed(Protocol):
    """What happens inside the app."""

    def follow(self) -> AsyncIterator[Item]:
        """Everything so far, oldest first, then everything else as it happens."""
        ...


def delivery_item(made: Delivery, names: Names) -> Item:
    """A request to the app, and how it was answered."""
    return Item(
        kind="event" if made.kind == "events_api" else "click",
        title=_title_of(made),
        note=explanations.delivery(made, names),
        body=made.body,
        at=made.at,
        reply=made.json or made.answer or None,
        status=_status_of(made),
        trouble=bool(made.reason) and not made.acked,
    )


def call_item(made: CallRecord, names: Names) -> Item:
    """A call of the Web API, and its answer."""
    return Item(
        kind="call",
        title=made.method,
        note=explanations.call(made, names),
        body=made.args,
        at=made.at,
        reply=made.answer or None,
        status=made.error or made.fault or (str(made.status) if made.status else _PENDING),
        trouble=bool(made.error or made.fault),
    )


def _title_of(made: Delivery) -> str:
    body = made.body
    who = as_text(as_object(body.get("user")).get("name")) or as_text(body.get("user_name"))
    by = f" by {who}" if who else ""
    again = f" (attempt {made.attempt + 1})" if made.attempt else ""
    action = next(iter(objects(body.get("actions"))), {})
    if action:
        named = label(action.get("text")) or label(as_object(action.get("selected_option")).get("text"))
        return f"“{named or as_text(action.get('type'))}”{by}{again}"
    title = label(as_object(body.get("view")).get("title")) or as_text(body.get("callback_id"))
    done = {"view_submission": " submitted"}.get(made.what, "")
    return f"{f'“{title}”{done}' if title else made.what}{by}{again}"


def _status_of(made: Delivery) -> str:
    if made.acked:  # how long it took is known a moment later
        return _PENDING if made.acked_after is None else f"{made.status} in {made.acked_after * 1000:.0f} ms"
    if made.status is not None:
        return str(made.status)
    return made.reason.replace("_", " ") if made.reason else _PENDING


@dataclass(slots=True)
class _Kept:
    number: int
    version: int
    item: Item
    source: Callable[[], Item] | None = None
    """While the item can still change: a function that makes it again."""


class PanelItems:
    """All items of the panel, numbered. `version` grows with each item and each change of one."""

    def __init__(self, workspace: Workspace, calls: Sequence[CallRecord], deliveries: Sequence[Delivery]) -> None:
        self.changes = Changes()
        self.names = Names(workspace.directory)
        self._slack = workspace.changes
        self._calls = calls
        self._deliveries = deliveries
        self._read_calls = self._read_deliveries = 0
        self._numbers = itertools.count(1)
        self._kept: dict[int, _Kept] = {}
        self._unfinished: list[_Kept] = []

    @property
    def version(self) -> int:
        return self.changes.number

    def since(self, version: int) -> list[JsonObject]:
        """What is new or changed, in short. `whole` has the rest."""
        return [
            {
                "number": kept.number, "kind": kept.item.kind, "title": kept.item.title, "note": kept.item.note,
                "at": kept.item.at, "status": kept.item.status, "trouble": kept.item.trouble,
            }
            for kept in self._kept.values()
            if kept.version > version
        ]  # fmt: skip

    def whole(self, number: int) -> JsonObject | None:
        kept = self._kept.get(number)
        return {"body": kept.item.body, "reply": kept.item.reply} if kept else None

    async def watch_slack(self) -> None:
        while True:
            seen = self._slack.number
            self.collect()
            await self._slack.after(seen)

    async def watch(self, observed: Observed) -> None:
        async for item in observed.follow():
            self.collect()
            self._add(item)

    def collect(self) -> None:
        """Reads what the server has recorded since the last time, in the order of time."""
        self._unfinished = [kept for kept in self._unfinished if not self._refresh(kept)]
        fresh: list[Callable[[], Item]] = [
            partial(delivery_item, each, self.names) for each in self._deliveries[self._read_deliveries :]
        ]
        fresh += [partial(call_item, each, self.names) for each in self._calls[self._read_calls :]]
        self._read_deliveries, self._read_calls = len(self._deliveries), len(self._calls)
        for source in sorted(fresh, key=lambda each: each().at):
            self._add(source(), source)

    def _add(self, item: Item, source: Callable[[], Item] | None = None) -> None:
        self.changes.tell("delivery")
        number = next(self._numbers)
        kept = self._kept[number] = _Kept(number, self.version, item)
        self._kept.pop(number - _KEPT, None)
        if source is not None and item.status == _PENDING:
            kept.source = source
            self._unfinished.append(kept)

    def _refresh(self, kept: _Kept) -> bool:
        """Makes the item again, and says whether it is final."""
        item = kept.source() if kept.source is not None else kept.item
        if item != kept.item:
            self.changes.tell("delivery")
            kept.item, kept.version = item, self.version
        return item.status != _PENDING
