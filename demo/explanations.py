"""What the demo adds to the sandbox's panel: the agent's side and the ledger, each with one sentence for people who see
such a thing for the first time.

Each sentence is made from what it explains: who, which call, how it ended. What the data does not say is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from adk_confirm.blocks.ledger_kinds import Reason
from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, objects, texts
from adk_confirm.sandbox.page.explanations import Names, join_words
from adk_confirm.sandbox.page.panel import Item

_LONG = 90
_ENTRIES = {"user": "<@{}>", "group": "<!subteam^{}>"}


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
    note = explain_line(line, names, answer=answer)
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


def explain_line(line: LedgerLine, names: Names, *, answer: bool = False) -> str:
    content: JsonObject = as_object(json.loads(line.content)) if line.content is not None else {}
    tell = _filled_in if answer and line.kind is LineKind.EDITED else _LINES[line.kind]
    if line.content is None:
        return "A purge removed what this line said. Its hash is still there, so the audit verifies."
    return tell if isinstance(tell, str) else tell(_Line(line.tool or "the call", content, names))


@dataclass(frozen=True, slots=True)
class _Line:
    tool: str
    content: JsonObject
    names: Names

    @property
    def who(self) -> str:
        return self.names.person(self.content.get("who"))

    @property
    def people(self) -> str:
        return join_words([self.names.person(each) for each in objects(self.content.get("people"))])

    @property
    def entries(self) -> str:
        return join_words([_approver(each, self.names) for each in texts(self.content.get("entries"))])

    @property
    def text(self) -> str:
        return _shorten(as_text(self.content.get("text")))

    @property
    def reason(self) -> str:
        given = as_text(self.content.get("reason"))
        return f"the reason “{_shorten(given)}”" if given else "no reason"

    @property
    def because(self) -> str:
        return f" ({self.text})" if self.text else ""

    @property
    def why(self) -> str:
        """Why a vote does not count."""
        given = as_text(as_object(self.content.get("refusal")).get("reason"))
        return f": {Reason(given).short}" if given in {*Reason} else ""

    @property
    def votes(self) -> str:
        votes, quorum = self.content.get("votes"), self.content.get("quorum")
        return f" That makes {votes} of {quorum}." if votes is not None and quorum is not None else ""

    @property
    def changes(self) -> str:
        return join_words([*_changes(self.content)]) or "the arguments"

    @property
    def took(self) -> str:
        seconds = self.content.get("seconds")
        return f" in {seconds:.2g} s" if isinstance(seconds, int | float) and seconds >= 0.1 else ""


_LINES: dict[LineKind, str | Callable[[_Line], str]] = {
    LineKind.ASKED: lambda it: (
        f"{_call(it.tool, as_object(it.content.get('arguments')))} waits for approval. The policy that applies now is "
        "stored with it."
    ),
    LineKind.CALL_REFUSED: lambda it: f"{it.tool} was refused and nobody was asked: {it.text}",
    LineKind.REMINDED: lambda it: f"Nobody has decided about {it.tool} yet, so the approvers are reminded.",
    LineKind.ESCALATED: lambda it: f"Still no decision about {it.tool}. From now on {it.entries} may decide, too.",
    LineKind.APPROVAL: lambda it: f"{it.who} approved {it.tool}.{it.votes}",
    LineKind.EDITED: lambda it: (
        f"{it.who} changed {it.changes}{', and approved that' if it.content.get('votes') else ''}.{it.votes} "
        "Approvals from before the edit do not count."
    ),
    LineKind.VOTE_REFUSED: lambda it: f"A vote by {it.who} did not count{it.why}. The attempt stays on record.",
    LineKind.VOTE_FELL: lambda it: f"The approval by {it.who} no longer counts.",
    LineKind.REAPPLIED: lambda it: f"An operator put {it.tool} under the policies as they are now.",
    LineKind.APPROVED: lambda it: f"{it.people or 'Enough people'} approved {it.tool}. The agent gets a yes.",
    LineKind.DENIED: lambda it: f"{it.who} denied {it.tool}. One no is enough. The agent gets {it.reason}.",
    LineKind.EXPIRED: lambda it: f"Nobody decided about {it.tool} in time, so the answer is no.",
    LineKind.WITHDRAWN: lambda it: f"{it.who} withdrew {it.tool}. It does not run.",
    LineKind.ELSEWHERE: lambda it: f"Somebody answered the agent about {it.tool} without this app. This is an alarm.",
    LineKind.LAPSED: lambda it: f"{it.tool} was approved but did not start in time, so it does not run.",
    LineKind.PREVIEWED: lambda it: f"What {it.tool} would do after the edit is known, and can be approved.",
    LineKind.PREVIEW_CHANGED: lambda it: (
        f"What {it.tool} would do has changed since it was approved. It starts all the same, as the policy allows."
    ),
    LineKind.BEGUN: lambda it: f"The agent starts {it.tool}.",
    LineKind.DONE: lambda it: f"{it.tool} ran{it.took}. The agent has the result.",
    LineKind.FAILED: lambda it: f"{it.tool} ran and failed{it.took}: {it.text or 'with an error'}",
    LineKind.REFUSED: lambda it: f"The agent did not run {it.tool}: {it.text or 'the call can not run any more'}",
    LineKind.STOPPED: lambda it: f"{it.who} stopped the agent. What waits keeps waiting; what runs ends by itself.",
    LineKind.UNSEALED: "Something was written to the database without this app. It does not count.",
    LineKind.ALTERED: lambda it: (
        f"The stored {it.tool} call is not the one that was approved. It does not run. An alarm."
    ),
    LineKind.UNKNOWN: lambda it: (
        f"{it.tool} was started, and nothing was heard of how it ended. Nobody knows whether it took effect, so people "
        "are asked."
    ),
    LineKind.SETTLED: lambda it: (
        f"{it.who} said that {it.tool} {'took effect' if it.content.get('yes') else 'did not take effect'}."
    ),
    LineKind.RUN_AGAIN_VOTE: lambda it: f"{it.who} wants {it.tool} to run again.{it.votes}",
    LineKind.RUN_AGAIN: lambda it: f"{it.people or 'Enough people'} decided that {it.tool} runs again.",
    LineKind.NOBODY_KNOWS: lambda it: f"Nobody said whether {it.tool} took effect. The agent learns that nobody knows.",
    LineKind.GRANTED: lambda it: f"{it.people or it.who} allowed calls like this {it.tool} for a while.",
    LineKind.FREE_CALL: lambda it: f"A program called {it.tool}, about which nobody is asked.",
    LineKind.GRANT_USED: lambda it: f"{it.tool} runs without asking, because an earlier approval allows it.",
    LineKind.GRANT_REVOKED: lambda it: f"{it.who} ended the permission. Calls like this {it.tool} ask again.",
    LineKind.ASKED_ANEW: lambda it: f"The agent asks about {it.tool} again. Only the newer card counts.",
    LineKind.PAUSED: lambda it: f"{it.who} paused runs{it.because}. Approved calls start once runs are resumed.",
    LineKind.RESUMED: lambda it: f"{it.who} resumed runs{it.because}. Approved calls start now.",
    LineKind.HEARD: "The agent received a message. If somebody puts it back into the mailbox, it does not count.",
    LineKind.RETRIED: lambda it: f"{it.who} had work retried that had failed too often.",
    LineKind.PURGED: "An operator removed the contents of old calls. The ledger still verifies.",
    LineKind.SEALED_ANEW: "The secret that seals everything was changed.",
    LineKind.CHECKPOINT: "A signature over all chains. A later change of any line would show.",
}


def _filled_in(it: _Line) -> str:
    after = as_object(it.content.get("after"))
    values = join_words([f"{name} {_value(value)}" for name, value in after.items()])
    return f"{it.who} filled in {values or 'the form'}, and approved that.{it.votes}"


def _approver(entry: str, names: Names) -> str:
    kind, _, name = entry.partition(":")
    return names.text(_ENTRIES[kind].format(name)) if kind in _ENTRIES else name or entry


def _changes(content: JsonObject) -> Iterator[str]:
    before = as_object(content.get("before"))
    for name, value in as_object(content.get("after")).items():
        yield f"{name}{f' from {_value(before[name])}' if name in before else ''} to {_value(value)}"


def _call(tool: str, arguments: JsonObject) -> str:
    values = ", ".join(f"{name} {_value(value)}" for name, value in arguments.items())
    return f"{tool} ({_shorten(values)})" if values else tool


def _value(value: Json) -> str:
    return _shorten(value if isinstance(value, str) else json.dumps(value))


def _shorten(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
