"""Collects a history at the end of a run: Slack's messages, the tools' log, the exported ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator

from adk_confirm.blocks.click_ids import CardMark, LineMark, parse_mark
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text, objects
from adk_confirm.sandbox.blockkit.elements import element_label
from adk_confirm.sandbox.people.plain import Reader
from adk_confirm.sandbox.people.seen import controls
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace import records
from bench.chaos.history import Effect, Entry, FaultRecord, History, Kind, Message, NewWork, SpokenMessage, Whisper
from bench.chaos.office import Office
from bench.chaos.people import People


async def collect(
    office: Office, happened: tuple[FaultRecord, ...], owed: tuple[str, ...], renewed: tuple[NewWork, ...]
) -> History:
    verified = await office.verified()
    _, exported = await office.command("audit", "export")
    shown = tuple(messages(office.slack))
    return History(
        asked=tuple(office.people.asked),
        said=tuple(messages_to_agent(office.slack, office.people)),
        clicked=tuple(office.people.clicked),
        effects=tuple(effects(office)),
        messages=shown,
        whispers=tuple(whispers(office.slack)),
        ledger=tuple(entry(json.loads(line)) for line in exported.splitlines() if line.startswith("{")),
        names=dict(office.names),
        tickets=office.people.tickets,
        verified=verified,
        owed=owed,
        renewed=renewed,
        happened=happened,
        gave_up=tuple(_unexpected_ends(office)),
    )


def effects(office: Office) -> list[Effect]:
    if not office.tool_log.exists():
        return []
    lines = (json.loads(line) for line in office.tool_log.read_text(encoding="utf-8").splitlines())
    return [
        Effect(line["at"], line["phase"], line["tool"], line["ticket"], line["amount"], line["call"] or "", line["pid"])
        for line in lines
    ]


def _unexpected_ends(office: Office) -> Iterator[str]:
    for replica in office.replicas:
        for one in replica.exits:
            if one.served:
                yield f"replica {one.replica} ended with {one.code}: {one.said}"


def messages_to_agent(slack: FakeSlack, people: People) -> Iterator[SpokenMessage]:
    """The messages to the agent. Slack knows which of their events were acknowledged."""
    acked = {
        (str(event.get("channel")), str(event.get("ts")))
        for made in slack.deliveries
        if made.acked and made.kind == "events_api" and isinstance(event := made.body.get("event"), dict)
    }
    for heard in people.heard:
        here = (heard.thread[0], heard.ts)
        yield SpokenMessage(heard.at, heard.who, heard.thread, heard.words, here in acked, heard.answer)


def messages(slack: FakeSlack) -> Iterator[Message]:
    reader = _reader(slack)
    for channel in slack.workspace.directory.channels.values():
        for message in channel.messages.values():
            if message.user == slack.install.bot_user_id:
                place = (channel.id, message.thread_ts or message.ts)
                kind, about = _mark(message)
                buttons = tuple(filter(None, (element_label(element) for _, element in controls(message.blocks))))
                text = reader.message(message)
                yield Message(place, message.ts, kind, about, text, buttons)


def _mark(message: records.Message) -> tuple[Kind, str]:
    mark = parse_mark(message.metadata)
    match mark:
        case CardMark(confirmation):
            return "card", confirmation
        case LineMark(session):
            return "lines", session
    metadata = message.metadata or {}
    payload = metadata.get("event_payload")
    payload = payload if isinstance(payload, dict) else {}
    match metadata.get("event_type"):
        case "adk_confirmation_said":
            return "said", f"{payload.get('event')} {payload.get('part')}"
        case "adk_confirmation_pointer":
            return "pointer", str(payload.get("confirmation"))
    return "other", ""


def _session(message: records.Message) -> str:
    payload = (message.metadata or {}).get("event_payload")
    return str(payload.get("session")) if isinstance(payload, dict) else ""


def whispers(slack: FakeSlack) -> Iterator[Whisper]:
    reader = _reader(slack)
    for channel in slack.workspace.directory.channels.values():
        for message in channel.ephemerals:
            yield Whisper((channel.id, message.thread_ts), message.only_for, reader.message(message))
    users = {view.id: view.user for view in slack.workspace.views.opened}
    for made in slack.calls_of("views.open"):
        window = as_object(made.answer.get("view"))
        if window and window.get("submit") is None:  # no form
            yield Whisper(("", ""), users[as_text(window.get("id"))], reader.blocks(objects(window.get("blocks"))))


def _reader(slack: FakeSlack) -> Reader:
    directory = slack.workspace.directory
    return Reader(directory, next(iter(directory.users.values())))


def entry(line: JsonObject) -> Entry:
    content = line.get("content")
    return Entry(
        session=str(line["session"]),
        seq=int(str(line["seq"])),
        at=str(line["at"]),
        kind=str(line["kind"]),
        confirmation=str(line["confirmation"] or ""),
        tool=str(line["tool"] or ""),
        content=content if isinstance(content, dict) else {},
    )
