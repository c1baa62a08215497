"""What the demo adds to the sandbox's panel: the agent's side and the ledger, each with one sentence for people who see
such a thing for the first time.

Each sentence is made from what it explains: who, which call, how it ended. What the data does not say is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from adk_confirm.blocks.rich_text import Line, markup
from adk_confirm.blocks.thread import history_pieces
from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.bot.confirmation.confirmation import Confirmation
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.confirmation.shown_lines import About, shown_line
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, objects
from adk_confirm.sandbox.page.explanations import Names, join_words
from adk_confirm.sandbox.page.panel import Item

_LONG = 90

_LEDGER_TITLES = {
    LineKind.ASKED: "waits for approval",
    LineKind.VOTE_FELL: "approval no longer counts",
    LineKind.LAPSED: "did not start in time",
    LineKind.BEGUN: "started",
    LineKind.SETTLED: "outcome reported by people",
}
"""The titles of ledger lines whose stored name is not plain English. Others are titled by their name."""


def request_item(event: JsonObject, at: float) -> Item:
    """An event of a session with one or more requests in it, in either dialect."""
    parts = objects(as_object(event.get("content")).get("parts"))
    asked = [as_object(as_object(part.get("functionCall")).get("args")) for part in parts]
    asked += [as_object(as_object(part.get("functionResponse")).get("response")) for part in parts]
    calls = [call for each in asked if (call := as_object(each.get("originalFunctionCall"))).get("name")]
    names = ", ".join(as_text(call.get("name")) for call in calls)
    title = f"{names or 'A call'} needs approval"
    return Item(kind="request", title=title, note=_request(calls), body=event, at=at)


def answer_item(message: JsonObject, at: float) -> Item:
    """The message with the answer, as it goes to the session."""
    parts = objects(as_object(message.get("newMessage") or message).get("parts"))
    answers = [as_object(as_object(part.get("functionResponse")).get("response")) for part in parts]
    words = ", ".join("confirmed" if each.get("confirmed") is True else "not confirmed" for each in answers)
    return Item(kind="answer", title=words or "An answer", note=_answer(answers), body=message, at=at)


def ledger_item(line: LedgerLine, names: Names, row: Confirmation | None = None) -> Item:
    """A line of the ledger. `row`: the confirmation that the line is about."""
    content: Json = json.loads(line.content) if line.content is not None else "purged"
    body: JsonObject = {
        "chain": line.chain, "seq": line.seq, "at": line.at.isoformat(), "kind": line.kind.value,
        "confirmation": line.confirmation, "tool": line.tool, "content": content, "digest": line.digest,
        "previous": line.previous, "hash": line.hash,
    }  # fmt: skip
    named = _LEDGER_TITLES.get(line.kind, line.kind.value)
    title = f"{named}: {line.tool}" if line.tool and line.kind in _OF_NO_CALL else named
    note = explain_line(line, names, row)
    heard = line.kind is LineKind.HEARD  # shown with what Slack sends
    return Item(kind="event" if heard else "ledger", title=title, note=note, body=body, at=line.at.timestamp())


# The agent's side


def _request(calls: Iterable[JsonObject]) -> str:
    """`calls` are the function calls that people are asked about."""
    wanted = join_words([_call(as_text(each.get("name")), as_object(each.get("args"))) for each in calls])
    return f"The agent wants to call {wanted or 'a tool'}. It waits here until somebody answers."


def _answer(answers: Iterable[JsonObject]) -> str:
    sentences = []
    for each in answers:
        payload = as_object(each.get("payload"))
        if each.get("confirmed") is True:
            values = ", ".join(f"{name} {_value(value)}" for name, value in payload.items())
            sentences.append(f"The answer is yes{f', with {values}' if values else ''}: the agent runs the call.")
        else:
            reason = as_text(payload.get("reason"))
            why = f" The agent gets the reason “{reason}”." if reason else ""
            sentences.append(f"The answer is no: the call does not run.{why}")
    return " ".join(sentences) or "An answer goes to the agent."


# The ledger


def explain_line(line: LedgerLine, names: Names, row: Confirmation | None = None) -> str:
    """The sentence that the audit has. `row`: the confirmation that the line is about."""
    if line.content is None:
        return "A purge removed what this line said. Its hash is still there, so the audit verifies."
    step = shown_line(line, About(row, shown_of(row)) if row else None) or shown_line(line)
    pieces = history_pieces(step)[:1] if step else ()
    sentences = [names.whole(markup(piece.spans)) for piece in pieces if isinstance(piece, Line)]
    return "".join(sentences) or _OF_NO_CALL[line.kind]


_OF_NO_CALL = {
    LineKind.FREE_CALL: "A program called a tool about which nobody is asked.",
    LineKind.HEARD: "The agent received a message. If somebody puts it back into the mailbox, it does not count.",
    LineKind.RETRIED: "An operator had work retried that had failed too often.",
    LineKind.PURGED: "An operator removed the contents of old calls. The ledger still verifies.",
    LineKind.SEALED_ANEW: "The secret that seals everything was changed.",
    LineKind.CHECKPOINT: "A signature over all chains. A later change of any line would show.",
}
"""What the lines mean that no thread and no history shows."""


def _call(tool: str, arguments: JsonObject) -> str:
    values = ", ".join(f"{name} {_value(value)}" for name, value in arguments.items())
    return f"{tool} ({_shorten(values)})" if values else tool


def _value(value: Json) -> str:
    return _shorten(value if isinstance(value, str) else json.dumps(value))


def _shorten(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
