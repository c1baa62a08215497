"""What the ledger's lines about one confirmation may come to, by the rules that people know. It shares no code with the
product."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bench.chaos.plan import TOOLS

ENDS = ("approved", "denied", "expired", "withdrawn", "answered elsewhere")
_QUORUM = {tool.name: tool.quorum for tool in TOOLS}

May = Callable[[str, str, str], bool]
"""Whether this person was able to decide on a tool's calls at some time since they, or who is named second, acted."""
FOR_ALL = ("pay", "order")
"""Tools on whose calls everybody may decide who did not ask, and does not speak to the agent."""
HOUR = 3600.0
START_WITHIN = {"ship": 7.0}
"""Seconds within which an approved call must start, for tools that have no hour."""


@dataclass
class Ballots:
    """The votes on one confirmation, line by line. `spoke`: who the agent heard in the thread. `doubted`: whether there
    was a reason of late why this person might not decide on a tool's calls. `now` is the time of the line's commit."""

    tool: str
    asker: str
    until: float
    may: May
    spoke: Set[str]
    doubted: Callable[[str, str], bool]
    approvals: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)
    last: str = ""
    decided: str = ""
    revision: int = 1
    attempts: int = 1
    begun: int = 0
    unknown: bool = False
    unknown_until: float = math.inf
    put: float = 0.0
    """When people were last asked: whether it may run, or what became of it."""
    start_by: float = math.inf
    reminded: bool = False
    void: bool = False
    """Somebody changed its row: it was made anew from the ledger, and nobody decides on it any more."""
    falls: set[str] = field(default_factory=set)

    def add(self, kind: str, content: Mapping[str, Any], now: float, *, ours: bool) -> Iterator[tuple[str, str]]:
        """The promises that this line breaks, and how. `ours`: our own runtime begins calls."""
        who, self.void = str((content.get("who") or {}).get("user", "")), self.void or kind == "unsealed"
        if kind in ("edited", "unknown"):
            before, self.revision = self.revision, int(content.get("revision", self.revision))
            if self.revision <= before and not self.void:
                yield "what is decided is what was shown", f"{kind} has the number of what was decided before"
        if kind != "vote fell" and self.falls:
            yield "a vote that falls is told", f"{sorted(self.falls)} before {kind}"
            self.falls = set()
        votes = kind in ("approval", "edited", "run again vote")
        if votes and who == self.asker:
            yield "only approvers decide", f"{who}'s {kind} counted, and they asked for it"
        elif votes and who in self.spoke:
            yield "only approvers decide", f"{who}'s {kind} counted, and they had spoken to the agent"
        elif votes and not self.may(self.tool, who, who):
            yield "only approvers decide", f"{who}'s {kind} counted, and they were not able to decide any more"
        if kind in ENDS:
            if self.decided and self.decided != kind:
                yield "one decision each", f"{self.decided}, then {kind}"
            self.decided = self.decided or kind
        elif votes and bool(self.decided) is not (kind == "run again vote"):
            yield "one decision each", f"{self.decided or 'nothing'}, then {kind}"
        match kind:
            case "approval" | "run again vote":
                given = self.approvals if kind == "approval" else self.again
                if who in given:
                    yield "everybody has one vote", f"{who}: {kind} counted twice"
                if len(given) >= _QUORUM[self.tool]:
                    yield "enough people decide", f"{sorted(given)} were enough before {who}"
                given.add(who)
                self.last = who
            case "edited":
                self.falls, self.approvals, self.last = self.approvals - {who}, {who}, who
            case "vote fell" if who in self.falls:
                self.falls.remove(who)
            case "vote fell" if content.get("revision", 1) == self.revision:  # else the edit before it says so
                (self.again if self.decided else self.approvals).discard(who)
                if who not in self.spoke and not self.doubted(self.tool, who):
                    yield "a vote stands", f"{who}'s vote fell, and they may decide"
            case "approved":
                yield from self._completed(self.approvals, content)
                self.start_by = now + START_WITHIN.get(self.tool, HOUR)
            case "run again":
                self.attempts += 1
                self.start_by = now + START_WITHIN.get(self.tool, HOUR)
                if not self.unknown:
                    yield "an approved call runs once", "it is run again, and its outcome was not unknown"
                self.unknown = False
                yield from self._completed(self.again, content)
                self.again = set()
            case "denied" if who and not self.may(self.tool, who, who):
                yield "only approvers decide", f"{who} denied it"
            case "withdrawn" if who != self.asker:
                yield "only approvers decide", f"{who} withdrew what {self.asker} asked for"
            case "expired" if now < self.until:
                yield "nothing expires early", f"{self.until - now:.3f} s too early"
            case "reminded":
                if self.reminded:
                    yield "people are reminded once", "once more"
                self.reminded = True
            case "lapsed" if now < self.start_by:
                yield "nothing expires early", "it lapsed, and was in time"
            case "begun":
                self.begun += 1
                if ours and now >= self.start_by:
                    yield "what begins is in time", f"{now - self.start_by:.3f} s too late"
                if self.decided != "approved" or self.begun > self.attempts:
                    yield "an approved call runs once", f"{self.decided}, begun {self.begun} of {self.attempts} times"
            case "unknown":
                self.unknown, self.again, self.unknown_until, self.put = True, set(), now + 24 * HOUR, now
            case "settled" | "nobody knows" | "done" | "failed":
                self.unknown = False

    def _completed(self, votes: set[str], content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        named = {str(person["user"]) for person in content.get("people", ())}
        if len(votes) < _QUORUM[self.tool] or named != votes:
            yield "enough people decide", f"{sorted(votes)} voted, {sorted(named)} are named, of {_QUORUM[self.tool]}"
        for one in sorted(votes):
            if not self.may(self.tool, one, self.last):
                yield "only approvers decide", f"{one} was not able to decide any more when the last vote came"


def begin(
    content: Mapping[str, Any], tool: str, may: May, spoke: Set[str], doubted: Callable[[str, str], bool]
) -> Ballots:
    """After the line `asked`."""
    until = datetime.fromisoformat(content["until"]).timestamp() if content.get("until") else 0.0
    return Ballots(tool, str(content["who"]["user"]), until, may, spoke, doubted)
