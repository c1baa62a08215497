"""The panel "Behind the scenes" beside the chat. It shows newcomers what happens between Slack, the bot and the agent.

Slack's side comes from the server's own records. The agent's side and the ledger come from an `Observed`, which a demo
provides: it follows the runtime's events and the ledger, and makes an `Item` of each.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from bot.audit.ledger import LedgerLine, LineKind
from bot.sandbox.methods.call import CallRecord
from bot.sandbox.page import explanations, slack_explanations
from bot.sandbox.page.explanations import Names
from bot.sandbox.reading import label
from bot.sandbox.server.delivery import Delivery
from bot.sandbox.workspace.changes import Changes
from bot.sandbox.workspace.workspace import Workspace
from runtime.jsontypes import Json, JsonObject, as_object, as_text, objects

Kind = Literal["event", "click", "call", "request", "answer", "ledger"]
_KEPT = 2000
_PENDING = "…"
_LEDGER_TITLES = {
    LineKind.VOTE_FELL: "approval no longer counts",
    LineKind.LAPSED: "did not start in time",
    LineKind.BEGUN: "started",
    LineKind.SETTLED: "outcome reported by people",
}
"""The titles of ledger lines whose stored name is not plain English. Others are titled by their name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One request, call, event or ledger line. `note` explains it in one sentence."""

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
    """The agent's side of a demo and its ledger."""

    def follow(self) -> AsyncIterator[Item]:
        """Everything so far, oldest first, then everything else as it happens."""
        ...


# -- what an `Observed` makes


def request_item(event: JsonObject, at: float) -> Item:
    """An event of a session with one or more requests in it, in either dialect."""
    parts = objects(as_object(event.get("content")).get("parts"))
    asked = [as_object(as_object(part.get("functionCall")).get("args")) for part in parts]
    asked += [as_object(as_object(part.get("functionResponse")).get("response")) for part in parts]
    calls = [call for each in asked if (call := as_object(each.get("originalFunctionCall"))).get("name")]
    names = ", ".join(as_text(call.get("name")) for call in calls)
    title = f"{names or 'A call'} needs approval"
    return Item(kind="request", title=title, note=explanations.request(calls), body=event, at=at)


def answer_item(message: JsonObject, at: float) -> Item:
    """The message with the answer, as it goes to the session."""
    parts = objects(as_object(message.get("newMessage") or message).get("parts"))
    answers = [as_object(as_object(part.get("functionResponse")).get("response")) for part in parts]
    words = ", ".join("confirmed" if each.get("confirmed") is True else "not confirmed" for each in answers)
    return Item(kind="answer", title=words or "An answer", note=explanations.answer(answers), body=message, at=at)


def ledger_item(line: LedgerLine, names: Names, *, answer: bool = False) -> Item:
    """`answer`: an edit that fills in what the agent asked for."""
    content: Json = json.loads(line.content) if line.content is not None else "purged"
    body: JsonObject = {
        "chain": line.chain, "seq": line.seq, "at": line.at.isoformat(), "kind": line.kind.value,
        "confirmation": line.confirmation, "tool": line.tool, "content": content, "digest": line.digest,
        "previous": line.previous, "hash": line.hash,
    }  # fmt: skip
    named = _LEDGER_TITLES.get(line.kind, line.kind.value)
    title = f"{named}: {line.tool}" if line.tool else named
    note = explanations.ledger(line, names, answer=answer)
    return Item(kind="ledger", title=title, note=note, body=body, at=line.at.timestamp())


# -- what the server itself saw


def delivery_item(made: Delivery, names: Names) -> Item:
    """A request to the app, and how it was answered."""
    return Item(
        kind="event" if made.kind == "events_api" else "click",
        title=_title_of(made),
        note=slack_explanations.delivery(made, names),
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
        note=slack_explanations.call(made, names),
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
