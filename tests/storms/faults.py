"""What goes wrong in a storm, made from its seed, and what of it is going on now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeVar, cast

from adk_confirm.bot.worker.supervision import StopDeadline

T = TypeVar("T")

Kind = str
"""A name from the lists below."""

OF_REPLICAS: tuple[Kind, ...] = (
    *("kill", "kill", "kill", "freeze", "freeze", "freeze", "stand still", "restart"),
    *("suspend", "suspend", "doze"),
)
"""Suspended: it stands still, and its wall clock is set back meanwhile. It dozes: it is frozen, and once more when it
asks the store whether it still has its lease. A restart at a post: what is stored then arrives when it has given that
up, and its lease."""
OF_CLOCKS: tuple[Kind, ...] = ("clock jumps",)
OF_THE_STORE: tuple[Kind, ...] = (
    *("cut off", "commit fails", "commit is late", "answer is lost", "answer is lost", "answer is late"),
    *("read fails", "read is late", "read is late", "wake-ups are lost", "disk is full", "last answer is lost"),
    *("claim is late", "start is late"),
)
"""The last answer: of a transaction that also releases its lease. A claim is late: its answer. A start is late: it
arrives when the time in which it may is over."""
OF_SLACK: tuple[Kind, ...] = (
    *("Slack says 429", "Slack fails", "Slack fails", "Slack cuts", "Slack cuts", "Slack is slow", "Slack is late"),
    *("Slack answers late", "request is lost", "request is late", "request comes twice", "Slack loses"),
)
OF_AGENTS: tuple[Kind, ...] = (
    *("agent is cut", "agent is cut", "agent is late", "agent is late", "agent is away", "freeze@look", "kill@tell"),
    *("agent thinks", "agent goes on", "agent goes on", "decision is late", "decision is late"),
)
"""On the way to a server of others, or there."""
OF_WRITERS: tuple[Kind, ...] = (
    *("amount of a confirmation", "amount of a call", "older confirmation"),
    *("older call", "call is ready", "letter again", "forged letter", "nobody spoke"),
)
"""What somebody changes who can write to the database, and has no secret."""
OF_PEOPLE: tuple[Kind, ...] = (
    *("group changes", "pause", "pause", "policy changes", "policy changes", "reapply", "leaves meanwhile"),
)
OF_CLICKS: tuple[Kind, ...] = (
    *("old card", "old card", "rush", "rush", "again", "stranger", "last moment"),
    *("speaks", "edits the approved", "approves the rest", "nobody answers", "runs again", "denies"),
)
"""What people press: buttons of a card as it was before, all at once, twice, where they have no say, right before it
expires and at that very instant, after they spoke to the agent, on what others have approved or edited, while Slack
does not say who the others are, to run again what may have run, and *Deny*, about which somebody then speaks."""

BETWEEN_TWO_VOTES: tuple[Kind, ...] = (
    *("group changes", "policy changes", "reapply", "leaves meanwhile"),
    *("edits the approved", "approves the rest", "nobody answers"),
)
"""What shows something if a call waits for its second approval."""

Moment = Literal[
    "", "commit", "taken", "post", "update", "tool", "joint tool", "ack", "start", "count", "sure", "look", "tell"
]
"""What a fault waits for: a replica is hit when it has just done this, before it knows; or when the start of a call,
or the count of a vote, is on its way to the store; or the answer whether it has its lease is on the way back; or a
message on the way to a server of others, or what its session says on the way back. Taken: a commit that begins work
with what came. A joint tool is one for which several people have approved."""

METHODS = (
    *("chat.postMessage", "chat.postMessage", "chat.postMessage", "chat.update", "chat.update"),
    *("views.open", "usergroups.users.list", "conversations.replies", "chat.postEphemeral", ""),
)


@dataclass(frozen=True)
class Fault:
    """`at`: seconds after the beginning. `on`: it waits for that moment from then on, and for the `count`th one; else
    it waits for so many steps of its replica. `seconds`: how long it lasts, or how late something is."""

    kind: Kind
    at: float
    replica: int = 0
    on: Moment = ""
    count: int = 1
    seconds: float = 0.0
    times: int = 1
    method: str = ""
    acted: bool = False

    def __str__(self) -> str:
        parts = [f"{self.at:6.3f} s  {self.kind}"]
        if self.kind in (*OF_REPLICAS, *OF_CLOCKS, "cut off"):
            parts.append(f"replica {self.replica}" if not self.on else f"whoever does {self.on} no. {self.count}")
        if not self.on and self.kind in OF_REPLICAS:
            parts.append(f"after {self.count} steps")
        if self.method:
            parts.append(self.method)
        if self.seconds:
            parts.append(f"{self.seconds:.3f} s")
        if self.times > 1:
            parts.append(f"{self.times} times")
        return ", ".join([*parts, *(["after it was done"] if self.acted else [])])


PROFILES: tuple[tuple[Kind, ...], ...] = (
    (),
    OF_CLICKS,
    ("freeze", "freeze", "stand still"),
    ("freeze", "stand still", "Slack is late", "Slack answers late", "answer is late"),
    ("kill",),
    ("kill", "kill", "answer is lost", "commit fails"),
    ("kill", "freeze", "Slack cuts", "Slack fails"),
    ("answer is lost", "last answer is lost", "last answer is lost"),
    ("answer is late", "read is late", "commit is late"),
    ("claim is late",),
    ("claim is late", "claim is late", "answer is late", "approves the rest"),
    ("start is late", "start is late", "pause"),
    OF_THE_STORE,
    OF_SLACK,
    ("Slack cuts", "Slack is late", "Slack fails", "Slack says 429"),
    ("request comes twice", "request is late", "request is lost", "restart", "kill"),
    (*OF_PEOPLE, *OF_CLICKS, "freeze", "kill", "answer is lost"),
    (*OF_CLICKS, *OF_PEOPLE, "request is late"),
    (*OF_CLICKS, "read is late", "commit is late", "Slack is slow"),
    (*OF_WRITERS, *OF_WRITERS, *OF_CLICKS),
    OF_WRITERS,
    ("older confirmation", "older confirmation", "old card", "forged letter"),
    (*OF_PEOPLE, *OF_CLICKS),
    ("restart", "restart@taken", "restart@taken"),
    ("restart@taken", "restart@taken", "again"),
    ("restart@post", "restart@post", "commit is late"),
    ("last moment", "last moment", "read is late", "Slack is slow"),
    ("group changes", "policy changes", "reapply", "reapply", *OF_CLICKS),
    ("kill", "kill", "kill", "Slack loses", "answer is lost"),
    ("pause", "pause", "commit is late", "answer is late", "approves the rest"),
    ("suspend", "suspend", "doze", "freeze"),
    ("doze@post", "doze@update", "doze@update"),
    ("freeze@start", "freeze@start", "kill@tell", "kill@start"),
    ("freeze@start", "freeze@start", "suspend@update", "doze"),
    ("suspend@post", "suspend@update", "suspend@commit", "doze"),
    ("pause@start", "leaves meanwhile", "kill@tell", "agent is late"),
    ("leaves meanwhile", "group changes", "approves the rest", "nobody answers"),
    ("nobody answers", "nobody answers", "leaves meanwhile"),
    ("leaves meanwhile", "leaves meanwhile", "leaves meanwhile", "approves the rest"),
    ("nobody spoke", "nobody spoke", "speaks"),
    ("last moment", "last moment", "again", "stranger"),
    ("kill@joint tool", "approves the rest", "approves the rest", "runs again"),
    ("kill@tool", "kill@tool", "last moment"),
    ("edits the approved", "edits the approved", "old card"),
    ("Slack loses", "Slack is late", "Slack is late", "restart"),
    (*OF_REPLICAS, *OF_CLOCKS, *OF_THE_STORE, *OF_SLACK, *OF_PEOPLE, *OF_CLICKS),
    (*OF_REPLICAS, *OF_CLOCKS, *OF_THE_STORE, *OF_SLACK, *OF_PEOPLE, *OF_CLICKS),
)
"""What goes wrong together, some of it at a moment. A storm in which everything does shows less of each."""

ELSEWHERE: tuple[tuple[Kind, ...], ...] = (
    ("decision is late", "decision is late", "denies", "denies", "denies"),
    ("agent is cut", "agent goes on", "agent goes on"),
    OF_AGENTS,
)
"""The same, with an agent on a server of others."""


def make_faults(dice: Random, *, replicas: int, seconds: float, lease: float, foreign: bool) -> tuple[Fault, ...]:
    kinds, most = dice.choice(PROFILES), dice.choice((2, 4, 8, 12, 16))
    if foreign:
        kinds = dice.choice(ELSEWHERE) if dice.random() < 0.6 else (*kinds, *OF_AGENTS, *OF_AGENTS)
    last: Moment = "tell" if foreign else "count"
    found = [_fault(dice, dice.choice(kinds), replicas, seconds, lease, last) for _ in range(most if kinds else 0)]
    return tuple(sorted(found, key=lambda one: one.at))


_MOST = {"": 600, "commit": 120, "post": 8, "update": 8, "tool": 4, "ack": 8, "start": 3, "count": 4, "sure": 2}
_MOST |= {"tell": 3, "look": 3, "taken": 3, "joint tool": 1}
"""How often a small storm has such a moment, and how many steps it has."""


def _fault(dice: Random, kind: Kind, replicas: int, seconds: float, lease: float, last: Moment) -> Fault:
    """Half of the faults are spread over what happens, and the others over time: most of that is quiet."""
    kind, _, moment = kind.partition("@")
    at, replica, early = dice.uniform(0, seconds), dice.randrange(replicas), dice.random() < 0.5
    at = dice.uniform(0, 0.5) if early else at
    on: Moment = ""
    count, times, lasts, method = 1, 1, 0.0, ""
    if kind in OF_REPLICAS:
        on = dice.choice(("", "commit", "commit", "post", "update", "tool", "tool", "ack", "start", "sure", last))
        count = dice.randrange(1, _MOST[on] + 1) if early or not on else dice.choice((1, 1, 2, 4))
        long = lease + dice.uniform(0.05, 3)
        lasts = dice.choice((dice.uniform(0.05, lease * 0.9), long, long, long))
        if kind == "suspend":
            lasts = lease + dice.uniform(0.05, 1.5)
        if kind == "restart":
            lasts = StopDeadline.WORK + (long - lease) * 0.9
        if kind == "doze":
            lasts = dice.uniform(1.5, 3.4)
        if kind == "kill":
            lasts = dice.choice((dice.uniform(0.05, 2), lease + dice.uniform(0, 5)))
    elif kind == "clock jumps":
        lasts = dice.choice((-3600.0, -30.0, -2.0, 0.5, 3.0, 15.0, 7200.0))
    elif kind in OF_THE_STORE:
        times = dice.choice((1, 1, 2, 5))
        count = dice.randrange(1, _MOST["commit"]) if early else dice.choice((1, 1, 2, 4, 8))
        count = dice.randrange(1, 9) if kind == "last answer is lost" else count
        count = dice.choice((1, 1, 2)) if kind == "start is late" else count
        lasts = dice.choice((dice.uniform(0.1, 1), dice.uniform(1, 4), lease + dice.uniform(0, 4)))
        if kind == "claim is late":
            count, times, lasts = 1, 9, dice.uniform(0.1, 4)
    elif kind in OF_SLACK:
        method = dice.choice(METHODS) if kind.startswith("Slack") else ""
        times = dice.choice((1, 1, 2, 6))
        count = dice.randrange(1, 8 if method else 30) if early else 1
        lasts = dice.choice((dice.uniform(0.2, 2), dice.uniform(2, 6), dice.uniform(6, 14)))
    elif kind in OF_WRITERS:
        lasts, count = dice.choice((dice.uniform(0.1, 2), dice.uniform(2, 8))), dice.randrange(100)
    elif kind in OF_AGENTS:
        count, times = dice.choice((1, 1, 1, 2, 3)), dice.randrange(4)
        lasts = dice.choice((dice.uniform(0.1, 4), lease + dice.uniform(0, 5)))
        lasts = dice.choice((lasts, lease + dice.uniform(4, 6))) if kind in ("agent thinks", "agent goes on") else lasts
    elif kind in OF_CLICKS:
        lasts, count = dice.choice((0.0, dice.uniform(0, 1), dice.uniform(1, 10))), dice.randrange(100)
    elif kind in OF_PEOPLE:
        lasts = dice.choice((dice.uniform(0.1, 8), dice.uniform(20, 50)))
        count = dice.randrange(1, 4)
        on = dice.choice(("", "start", "start", "ack", "commit")) if kind == "pause" else ""
        if kind == "leaves meanwhile":
            on, lasts = "count", dice.uniform(31, 45)
    if moment:
        on, count, at = cast("Moment", moment), dice.choice((1, 1, 2, 3)), dice.uniform(0, 0.5)
    return Fault(kind, at, replica, on, count, lasts, times, method, dice.random() < 0.5)


@dataclass
class _Armed:
    """`before`: how many more it lets pass. `left`: how often it still strikes."""

    fault: Fault
    before: int
    left: int


class Weather:
    """The faults that wait for something to happen."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []
        self.met = 0
        self.over = False

    def arm(self, fault: Fault) -> None:
        self._armed.append(_Armed(fault, fault.count - 1, fault.times))

    def clear(self) -> None:
        self._armed.clear()
        self.over = True

    def take(self, *kinds: Kind, method: str = "") -> Fault | None:
        """The fault of these kinds that strikes now."""
        for one in self._armed:
            if one.fault.kind in kinds and not one.fault.on and one.fault.method in ("", method):
                return one.fault if self._strikes(one) else None
        return None

    def moment(self, on: Moment) -> list[Fault]:
        """The faults of replicas that strike at this moment."""
        return [one.fault for one in [*self._armed] if one.fault.on == on and self._strikes(one)]

    def _strikes(self, one: _Armed) -> bool:
        if one.before > 0:
            one.before -= 1
            return False
        one.left -= 1
        if one.left <= 0:
            self._armed.remove(one)
        self.met += 1
        return True


def without(things: Sequence[T], number: int) -> tuple[T, ...]:
    return (*things[:number], *things[number + 1 :])
