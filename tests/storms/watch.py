"""What must hold at every moment of a storm. Each finding names a promise that was broken."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from adk_confirm.blocks.click_ids import identity, parse_id, parse_ref
from adk_confirm.bot.confirmation.confirmation import Confirmation
from adk_confirm.bot.confirmation.stored_json import from_json
from adk_confirm.bot.inbound.clicks_and_forms import VOTES
from adk_confirm.bot.inbound.payloads import click_id, person_of, read_click
from adk_confirm.bot.slack.directory import RIGHTS_KNOWN_FOR
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.sandbox.server.delivery import Delivery
from bench.chaos.history import Effect, Finding
from tests.storms import ballots
from tests.storms.ballots import Ballots

if TYPE_CHECKING:
    from tests.storms.office import Office, Replica

HEARD_TWICE = "the agent hears it once"
POSTED_AGAIN = "nothing is posted again without a look"
_LOOKS = ("conversations.replies", "conversations.history")


class Watch:
    def __init__(self, office: Office) -> None:
        self._office = office
        self.found: list[Finding] = []
        self._seen: dict[str, int] = {}  # lines of each chain that were looked at
        self._ballots: dict[str, Ballots] = {}
        self._began: Counter[str] = Counter()
        self._read: dict[int, int] = {}  # events of each session that were looked at
        self._events_of: dict[int, int] = {}  # how many each had then
        self._given: Counter[tuple[int, str]] = Counter()  # what a session was given: answers, results, words
        self._heard: Counter[tuple[str, str]] = Counter()
        self._answered: Counter[str] = Counter()  # what an agent elsewhere asked, by its request
        self._sent: dict[tuple[Any, ...], float] = {}  # when a message of ours was last sent to Slack
        self._looked: dict[tuple[int, str], float] = {}  # when a process last asked what is in a channel
        self._acts: dict[tuple[str, str], list[float]] = defaultdict(list)
        """What somebody did about a confirmation: when Slack sent it."""
        self._acks: dict[tuple[str, str], list[float]] = defaultdict(list)
        """What of that was acknowledged: when."""
        self._revisions: dict[tuple[str, str], set[int]] = defaultdict(set)
        """Which revisions of a confirmation somebody pressed a button of."""
        self._able: list[tuple[float, Mapping[str, frozenset[str]], Sequence[str]]] = []
        self._spoke: dict[str, set[str]] = defaultdict(set)
        """Whose message to the agent of a thread was acknowledged."""
        self.stored: dict[tuple[str, str], list[float]] = defaultdict(list)
        """When somebody's votes about a confirmation were stored."""

    def _find(self, promise: str, what: str, ticket: str = "") -> None:
        self.found.append(Finding(promise, what, ticket))
        self._office.note(f"BROKEN: {promise}: {what} {ticket}")

    def look(self) -> None:
        """After each commit: the new lines of the ledger."""
        store = self._office.store
        for row in store.look("SELECT chain, seq FROM bot_chains"):
            before = self._seen.get(row.chain, 0)
            if row.seq == before:
                continue
            if row.seq < before:
                self._find("the ledger only grows", f"{row.chain} has {row.seq} lines after {before}")
            self._seen[row.chain] = row.seq
            lines = store.look(_NEW, chain=row.chain, after=before)
            if [line.seq for line in lines] != list(range(before + 1, row.seq + 1)):
                self._find("no line is missing", f"{row.chain}: {[line.seq for line in lines]} after {before}")
            for line in lines:
                self._line(row.chain, line.kind, line.confirmation, line.tool, json.loads(line.content or "{}"))
        for session in store.look("SELECT key, events FROM runtime_sessions"):
            if session.events != self._events_of.get(session.key):
                self._events_of[session.key] = session.events
                self._events(session.key)

    def _line(self, chain: str, kind: str, confirmation: str | None, tool: str, content: Mapping[str, Any]) -> None:
        if kind == "heard":
            self._heard[chain, content["text"]] += 1
            if self._heard[chain, content["text"]] > 1:
                self._find("a message reaches the agent once", f"{content['text']} in {chain}")
            heard = self._office.people.heard
            if not any(one.ts == content["text"] and one.thread[1] in chain for one in heard):
                self._find("the agent hears what people said", f"{content['text']} in {chain}")
        if not confirmation:
            return
        ours = self._office.agents is None  # of others' servers it is heard later
        if kind == "begun" and ours:
            if self._office.store.look("SELECT name FROM adk_confirm_store WHERE name = 'paused'"):
                self._find("nothing begins in a pause", "begun", confirmation)
            lease = self._office.store.look(
                "SELECT lease_until AS at FROM jobs WHERE kind = 'session' AND key = :k", k=chain
            )
            if not lease or (lease[0].at or 0.0) <= self._office.loop.now:
                self._find("a call begins under a lease", "it was over", confirmation)
        if kind == "asked":
            may, spoke = partial(self._may, confirmation), self._spoke[chain]
            self._ballots[confirmation] = ballots.begin(content, tool, may, spoke, self._doubted)
        elif known := self._ballots.get(confirmation):
            refusal, who = content.get("refusal") or {}, str((content.get("who") or {}).get("user"))
            if (refusal.get("reason"), refusal.get("state")) == ("too late", "expired"):
                acks, acts = self._acks[who, confirmation], self._acts[who, confirmation]
                last = max(self.stored[who, confirmation], default=0.0)
                if len(acts) == len(acks) and max(acks, default=known.until) < known.until and last < known.until:
                    self._find("an acknowledged click counts", f"{who} was not too late", confirmation)
            votes = [at for at in self.stored[who, confirmation] if at >= known.put]
            if kind in _VOTED and votes and min(votes) >= (known.unknown_until if known.unknown else known.until):
                self._find("what comes too late does not count", f"{who}'s {kind}", confirmation)
            if kind in _DECIDES and known.revision not in self._revisions[who, confirmation]:
                self._find("what is decided is what was shown", f"{who}'s {kind} of {known.revision}", confirmation)
            for promise, what in known.add(kind, content, self._office.loop.now, ours=ours):
                self._find(promise, what, confirmation)

    def _events(self, session: int) -> None:
        """An answer, a result and a message reach a session once."""
        for row in self._office.store.look(_EVENTS, session=session, after=self._read.get(session, -1)):
            self._read[session] = row.seq
            event = json.loads(row.body)
            parts = (event.get("content") or {}).get("parts") or []
            words = [f"“{part['text']}”" for part in parts if event.get("author") == "user" and part.get("text")]
            if event.get("author") == "user":
                self.reaches(parts)
            for given in (*words, *filter(None, map(_given, parts))):
                self._given[session, given] += 1
                if self._given[session, given] > 1:
                    self._find(HEARD_TWICE, f"{given} for the {self._given[session, given]}. time")

    # Who is able to decide

    def able(self, by_tool: Mapping[str, frozenset[str]], barred: Sequence[str]) -> None:
        """From now on Slack and the policies name these people for these tools' calls. `barred`: whom each replica
        knows as barred."""
        self._able.append((self._office.loop.now, by_tool, barred))

    def _since(self, at: float) -> list[tuple[float, Mapping[str, frozenset[str]], Sequence[str]]]:
        """What was so since then, each with its end."""
        ends = [at for at, *_ in self._able[1:]] + [self._office.loop.now + 1]
        return [(end, named, barred) for (_, named, barred), end in zip(self._able, ends, strict=True) if end >= at]

    def _may(self, confirmation: str, tool: str, who: str, acted: str) -> bool:
        """Whether somebody was named, and not barred, at some time since one of them first did something about it. What
        Slack said half a minute before still counts."""
        since = min(self._acts.get((acted, confirmation), [0.0]))
        of_late = self._office.loop.now - RIGHTS_KNOWN_FOR
        named = any(who in named[tool] for _, named, _ in self._since(of_late))
        return named and not all(set(barred) == {who} for _, _, barred in self._since(since))

    def _doubted(self, tool: str, who: str) -> bool:
        of_late = self._since(self._office.loop.now - 2 * RIGHTS_KNOWN_FOR)
        return any(who in barred or who not in named[tool] for _, named, barred in of_late)

    def half_decided(self) -> dict[str, list[str]]:
        """Which confirmations wait for more approvals, and who approved them."""
        names, waiting = self._office.names, {id_: one for id_, one in self._ballots.items() if not one.decided}
        return {id_: sorted(names[who] for who in one.approvals) for id_, one in waiting.items() if one.approvals}

    def ends_of_time(self) -> dict[str, float]:
        """When what waits for people expires, and when nobody knows any more what became of the others."""
        waiting = {id_: one.until for id_, one in self._ballots.items() if not one.decided}
        return waiting | {id_: one.unknown_until for id_, one in self._ballots.items() if one.unknown}

    def tool_of(self, confirmation: str) -> str:
        return self._ballots[confirmation].tool if confirmation in self._ballots else ""

    def next_end(self, until: float) -> float | None:
        return min((at for at in self.ends_of_time().values() if self._office.loop.now < at < until), default=None)

    def next_late_start(self) -> float | None:
        """When the next approved call that has not begun may start no more, if that is soon."""
        now, waiting = self._office.loop.now, [one for one in self._ballots.values() if one.begun < one.attempts]
        ends = [one.start_by for one in waiting if one.decided == "approved" and now < one.start_by < now + _SOON]
        return min(ends, default=None)

    def looks_for_overdue(self) -> None:
        for id_, at in self.ends_of_time().items():
            if at < self._office.loop.now - _SOON:
                self._find("nothing waits for ever", f"it is over since {self._office.loop.now - at:.0f} s", id_)

    def looks_for_unanswered(self, within: float) -> None:
        """Whoever voted hears whether it counts, also while Slack says nothing about others."""
        for row in self._office.store.look("SELECT id, body FROM bot_confirmations"):
            for vote in from_json(Confirmation, row.body).pending_votes:
                if (since := self._office.loop.now - vote.stored_at.timestamp()) > within:
                    self._find("whoever votes hears soon", f"{vote.voter.user} waits since {since:.0f} s", row.id)

    def has_acted(self, who: str, confirmation: str) -> bool:
        return bool(who) and bool(self._acts.get((f"U0{who.upper()}", confirmation)))

    def last_actor(self) -> str:
        acts = {who: max(at) for (who, _), at in self._acts.items() if at and who in self._office.names}
        return self._office.names[max(acts, key=lambda who: acts[who])] if acts else ""

    def stops(self, replica: Replica) -> None:
        """It stopped as it should: whatever it held is free."""
        for key in self._office.store.kept(replica):
            self._find("a stop hands back what it held", f"replica {replica.number} keeps {key}")

    def acts(self, made: Delivery) -> None:
        """Slack is about to tell what somebody did."""
        if made.kind != "interactive":
            return
        self._note(self._acts, made)
        view = made.body.get("view")
        ref = parse_ref(view.get("private_metadata")) if isinstance(view, dict) else read_click(made.body).ref
        if ref is not None:
            self._revisions[person_of(made.body).user, ref.id].add(ref.revision)

    def _note(self, where: dict[tuple[str, str], list[float]], made: Delivery) -> None:
        said, user = json.dumps(made.body), person_of(made.body).user
        for confirmation in self._ballots:
            if confirmation in said:
                where[user, confirmation].append(self._office.loop.now)

    def late(self, kind: str, key: str, due_at: float, failures: int, trouble: str | None) -> None:
        how = trouble if failures else f"is due since {self._office.loop.now - due_at:.1f} s"
        self._find("calm work is prompt", f"{kind} {key} {how}")

    def unheld(self, replica: Replica, lease: Lease, what: str) -> None:
        self._find("who lost a lease does nothing", f"{what} of replica {replica.number} for {lease.work}")

    def reaches(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """An agent gets this. Nobody who looks whether runs are paused can have missed a pause that is older."""
        look = self._office.store.look
        for pause in look("SELECT value FROM adk_confirm_store WHERE name = 'paused'"):
            since = datetime.fromisoformat(json.loads(pause.value)["at"]).timestamp()
            for part in parts:
                request, text = (part.get("functionResponse") or {}).get("id"), part.get("text")
                letters = look(_ANSWER, id=request) if request else look(_WORDS)
                found = [one.stored_at for one in letters if request or json.loads(one.body)["text"] == text]
                if found and min(found) > since + _INSTANT:
                    self._find("nothing begins in a pause", f"the agent gets {request or text}")

    def answered(self, request: str, *, confirmed: bool) -> None:
        """An answer has reached the agent on a server of others."""
        rows = self._office.store.look("SELECT id FROM bot_confirmations WHERE request_id = :id", id=request)
        kinds = [line.kind for row in rows for line in self._office.store.look(_ABOUT, id=row.id)]
        self._answered[request] += 1
        if self._answered[request] > (1 + kinds.count("run again") if confirmed else 1):
            self._find(HEARD_TWICE, f"an answer for the {self._answered[request]}. time", request)

    def sends_for_others(self, replica: Replica, chain: str) -> None:
        self._find("who lost a lease does nothing", f"replica {replica.number} sends to the agent of {chain}")

    # What goes to Slack

    def sends(self, replica: Replica, method: str, args: Mapping[str, Any]) -> None:
        """Before a message is posted again, its sender has looked whether it is there."""
        now, channel, process = self._office.loop.now, str(args.get("channel")), replica.process.index
        if method in _LOOKS:
            self._looked[process, channel] = now
        if method != "chat.postMessage" or (marked := identity(args.get("metadata"))) is None:
            return
        key = (channel, args.get("thread_ts"), *marked)
        before = self._sent.get(key)
        if before is not None and self._looked.get((process, channel), -1.0) < before:
            self._find(POSTED_AGAIN, f"{marked} in replica {replica.number}")
        self._sent[key] = now

    def refused(self, args: Mapping[str, Any]) -> None:
        """Slack said for certain that it did not post this."""
        if (marked := identity(args.get("metadata"))) is not None:
            self._sent.pop((str(args.get("channel")), args.get("thread_ts"), *marked), None)

    # Tools

    def tool(self, did: Effect) -> None:
        """A tool begins or ends. When it begins, the store says so, and it runs with what the ledger says."""
        if did.phase != "begins":
            return
        store = self._office.store
        calls = store.look("SELECT state, body FROM runtime_calls WHERE id = :id", id=did.call)
        rows = store.look("SELECT id FROM bot_confirmations WHERE call_id = :id", id=did.call)
        ours = self._office.agents is None
        if len(calls) != ours or len(rows) != 1:
            self._find(
                "nothing runs that was not approved", f"{len(calls)} calls, {len(rows)} confirmations", did.ticket
            )
            return
        lines = store.look(_ABOUT, id=rows[0].id)
        if "approved" not in [line.kind for line in lines]:
            self._find("nothing runs that was not approved", f"the ledger says {lines[-1].kind}", did.ticket)
        if ours and calls[0].state not in ("running", "unknown"):  # it is unknown if this process was slow to begin
            self._find("a start is stored first", f"it began, and the store says {calls[0].state}", did.ticket)
        amount = _amount(lines)
        if amount != did.amount:
            self._find("what ran is what was approved", f"ran with {did.amount}, approved with {amount}", did.ticket)
        attempts = 1 + [line.kind for line in lines].count("run again")
        self._began[did.call] += 1
        if self._began[did.call] > attempts and did.tool != "tidy":
            self._find("an approved call runs once", f"it began {self._began[did.call]} times", did.ticket)

    # What was acknowledged

    def acked(self, made: Delivery) -> None:
        """A click was acknowledged: its vote is stored, or whoever clicked is told why not. So is a message."""
        event = made.body.get("event")
        if isinstance(event, dict) and event.get("type") == "app_mention":
            letters = self._office.store.look(_LETTER, ts=event["ts"])
            if not letters:
                self._find("an acknowledged message is stored", str(event["ts"]))
            for letter in letters:
                self._spoke[letter.session].add(str(event["user"]))
            return
        if made.kind != "interactive":
            return
        self._note(self._acks, made)
        if made.body.get("type") != "block_actions":
            return
        click = read_click(made.body)
        if click.ref is None or click.action not in VOTES or parse_id(click.value) is None:
            return
        vote = click_id(person_of(made.body), click.at, click.action, click.ref.encode())
        there = self._office.store.look(_VOTE, id=click.ref.id, vote=vote, like=f"%{vote}%")
        if not there:
            self._find("an acknowledged click is stored", f"{click.seat.person.user} {click.action}", click.ref.id)


def _given(part: Mapping[str, Any]) -> str | None:
    """What this part of an event gives to the agent, if it is given once."""
    if (response := part.get("functionResponse")) is not None and "error" not in response["response"]:
        return f"{response['name']} {response['id']}"
    return None


_VOTED = ("approval", "edited", "denied", "settled", "run again vote")
_DECIDES = ("approval", "settled", "run again vote")
_SOON = 30.0
_LETTER = "SELECT session FROM bot_mail WHERE mark = :ts"
_INSTANT = 0.001
_WORDS = "SELECT stored_at, body FROM bot_mail WHERE kind = 'words'"
_ANSWER = """
    SELECT m.stored_at, m.body FROM bot_mail m JOIN bot_confirmations c ON c.id = m.confirmation
    WHERE c.request_id = :id
"""
_EVENTS = "SELECT seq, body FROM runtime_events WHERE session = :session AND seq > :after ORDER BY seq"
_NEW = (
    "SELECT seq, kind, confirmation, tool, content FROM bot_ledger WHERE chain = :chain AND seq > :after ORDER BY seq"
)
_VOTE = """
    SELECT 1 AS there FROM bot_outbox WHERE kind = 'answer' AND mark = :vote
    UNION ALL SELECT 1 FROM bot_confirmations WHERE id = :id AND body LIKE :like
"""


_LEASED = "SELECT 1 AS there FROM jobs WHERE kind = 'session' AND key = :chain AND lease_until > :now"
_ABOUT = "SELECT kind, content FROM bot_ledger WHERE confirmation = :id ORDER BY seq"


def _amount(lines: Sequence[Any]) -> object:
    """The amount of the last revision, according to the ledger."""
    amount: object = None
    for line in lines:
        content = json.loads(line.content or "{}")
        given = content.get({"asked": "arguments", "edited": "after"}.get(line.kind, ""))
        if isinstance(given, dict):
            amount = given.get("amount", amount)
    return amount
