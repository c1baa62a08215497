"""Makes a plan from a seed: what people do and what breaks. Pure. The same seed and length make the same plan."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

REPLICAS = 3
PACE = 5.0
"""Seconds between two requests. Slack takes fifty updates of cards a minute, and a call needs two or three."""
CHANNELS = ("north", "south", "east", "west", "harbour", "station")
ASKERS = ("ann", "ava", "abe")
APPROVERS = ("bob", "cyd", "dan")
OUTSIDER = "oscar"

LONG = "1h"

How = Literal["Approve", "Deny", "Edit", "Withdraw"]
Word = Literal["Yes, it did", "No, it didn't", "Run again…", ""]
SlackTrouble = Literal["limit", "fail", "cut", "hang", "slow"]
Trouble = Literal["kill", "freeze", "cut off", "stall", "restart PostgreSQL", "crash PostgreSQL", "Slack"]


@dataclass(frozen=True)
class Tool:
    """A tool, with a policy of its own. No thread uses a tool twice, so that its lines can be told apart."""

    name: str
    quorum: int = 1
    approvers: tuple[str, ...] = ("user:U0BOB", "user:U0CYD", "user:U0DAN")
    expires: str = LONG
    remind: str = ""
    channel: str = ""
    idempotent: bool = False


TOOLS = (
    Tool("pay"),
    Tool("ship", approvers=("group:S0ONCALL",)),
    Tool("deploy", quorum=2, remind="15s"),
    Tool("close", expires="12s"),
    Tool("order", channel="C0DESK"),
    Tool("tidy", idempotent=True),
)


@dataclass(frozen=True)
class Click:
    """What somebody does with a card, and how many seconds after it appeared. `twice`: Slack delivers the click
    again."""

    who: str
    how: How
    after: float
    amount: int = 0
    twice: bool = False


@dataclass(frozen=True)
class Call:
    """`settled` is what people say if the outcome of the call is unknown; empty: nothing."""

    ticket: str
    tool: str
    amount: int
    takes: float
    clicks: tuple[Click, ...]
    settled: Word


@dataclass(frozen=True)
class Chat:
    who: str
    after: float
    words: str
    thinks: float


@dataclass(frozen=True)
class Errand:
    """One thread: the calls that are requested in it, and the other messages."""

    number: int
    at: float
    channel: str
    asker: str
    thinks: float
    calls: tuple[Call, ...]
    chats: tuple[Chat, ...]


@dataclass(frozen=True)
class Break:
    """A fault at a time. `busy`: it hits the replica in which a tool runs, if there is one, else the `replica` with
    this number. The other fields are for faults of Slack."""

    at: float
    kind: Trouble
    seconds: float
    replica: int = 0
    busy: bool = False
    slack: SlackTrouble = "fail"
    method: str = ""
    times: int = 1
    acted: bool = False

    @property
    def name(self) -> str:
        """The name of its row in the table of faults."""
        if self.kind != "Slack":
            return f"{self.kind} in the middle of a tool" if self.busy else self.kind
        after = " after acting" if self.acted and self.slack in ("fail", "cut") else ""
        return {"limit": "Slack answers 429", "fail": "Slack answers 5xx", "cut": "Slack cuts the connection"}.get(
            self.slack, f"Slack is {'stuck' if self.slack == 'hang' else 'slow'}"
        ) + after


@dataclass(frozen=True)
class Plan:
    seed: int
    seconds: float
    errands: tuple[Errand, ...]
    breaks: tuple[Break, ...]

    @property
    def calls(self) -> dict[str, tuple[Errand, Call]]:
        """All calls, by ticket."""
        return {call.ticket: (errand, call) for errand in self.errands for call in errand.calls}


def make_plan(seed: int, seconds: float, *, lease: float, every: float = PACE) -> Plan:
    """`lease`: a frozen replica stops for longer than this. `every`: seconds between two requests."""
    people, world = random.Random(f"people {seed}"), random.Random(f"world {seed}")
    errands = tuple(_errand(people, number, number * every) for number in range(max(1, int(seconds / every))))
    breaks = sorted((*_broken_replicas(world, seconds, lease), *_broken_slack(world, seconds)), key=lambda one: one.at)
    return Plan(seed, seconds, errands, tuple(breaks))


def rehearsal(number: int) -> Errand:
    """New work for the time after all faults ended."""
    click = Click(APPROVERS[number % len(APPROVERS)], "Approve", 0.0)
    call = Call(f"n{number}", "pay", 100 + number, 0.0, (click,), "")
    return Errand(number, 0.0, CHANNELS[number % len(CHANNELS)], ASKERS[number % len(ASKERS)], 0.0, (call,), ())


# What people do


def _errand(rng: random.Random, number: int, at: float) -> Errand:
    asker = rng.choice(ASKERS)
    tools = rng.sample(TOOLS, rng.choice((1, 1, 2)))
    calls = tuple(_call(rng, f"t{number}x{index}", tool, asker) for index, tool in enumerate(tools))
    words = [f"c{number}x{index}" for index in range(rng.choice((0, 0, 1, 2)))]
    chats = tuple(
        Chat(rng.choice(ASKERS), rng.uniform(1, 12), word, rng.choice((0.0, 0.0, rng.uniform(1, 4)))) for word in words
    )
    thinks = rng.choice((0.0, 0.0, rng.uniform(0.5, 3)))
    return Errand(number, at + rng.uniform(0, 2), rng.choice(CHANNELS), asker, thinks, calls, chats)


def _call(rng: random.Random, ticket: str, tool: Tool, asker: str) -> Call:
    first, second, third = rng.sample(APPROVERS, 3)
    amount = rng.randrange(1, 1000)
    soon, later = rng.uniform(0.2, 2), rng.uniform(2.5, 8)

    def click(who: str, how: How, after: float, amount: int = 0) -> Click:
        return Click(who, how, after, amount, twice=rng.random() < 0.15)

    approved = [click(first, "Approve", soon), click(second, "Approve", later)]
    edited = [click(first, "Edit", soon, amount + 1000), click(second, "Approve", later)]
    both_ways = [click(first, "Approve", soon), click(second, "Deny", soon + rng.uniform(0, 0.3))]
    both_edit = [click(first, "Edit", soon, amount + 1000), click(second, "Edit", soon + 0.1, amount + 2000)]
    ways: list[list[Click]] = [
        *([approved] * 5),
        edited,
        edited,
        both_edit,
        [click(first, "Deny", soon)],
        both_ways,
        [click(asker, "Withdraw", later)],
        [click(first, "Approve", soon), click(asker, "Withdraw", soon)],
        [click(asker, "Approve", soon), *approved],  # whoever asks must not decide
        [click(OUTSIDER, "Approve", soon), *approved],
        [*approved, click(third, "Deny", later + 3)],  # too late, or almost
        [],  # nobody looks at it in time
    ]
    if tool.expires != LONG:
        ways += [[]] * len(ways)  # meant to expire
    takes = rng.choice((0.0, rng.uniform(0.1, 1), rng.uniform(1, 5), rng.uniform(2, 8)))
    settled: Word = rng.choice(("Yes, it did", "No, it didn't", "Run again…", ""))
    return Call(ticket, tool.name, amount, takes, tuple(rng.choice(ways)), settled)


# Faults

_REPLICA_TROUBLES: tuple[Trouble, ...] = (
    *(("kill",) * 7),
    *(("freeze",) * 5),
    *(("cut off",) * 3),
    *(("stall",) * 2),
    "restart PostgreSQL",
    "crash PostgreSQL",
    "crash PostgreSQL",
)
_FIRST = 4.0


def _broken_replicas(rng: random.Random, seconds: float, lease: float) -> list[Break]:
    """Faults of single replicas, one at a time for each. Faults of PostgreSQL affect all of them."""
    found: list[Break] = []
    busy_until = [0.0] * REPLICAS
    at = _FIRST + rng.uniform(0, 3)
    while at < seconds:
        kind = rng.choice(_REPLICA_TROUBLES)
        lasts = {
            "kill": rng.uniform(0.5, 5),
            "freeze": lease + rng.uniform(0.5, 4),
            "cut off": rng.uniform(0.5, 8),
            "stall": rng.uniform(1, 12),
        }.get(kind, rng.uniform(0.5, 4))
        if kind in ("restart PostgreSQL", "crash PostgreSQL"):
            found.append(Break(at, kind, lasts))
        else:
            free = [number for number in range(REPLICAS) if busy_until[number] <= at]
            if free:
                replica = rng.choice(free)
                busy_until[replica] = at + lasts + 3
                found.append(Break(at, kind, lasts, replica, busy=kind in ("kill", "freeze") and rng.random() < 0.5))
        at += rng.uniform(3, 9)
    return found


_METHODS = (
    *(("chat.postMessage",) * 6),
    *(("chat.update",) * 4),
    *("chat.postEphemeral", "views.open", "views.update", "usergroups.users.list", "users.info"),
    *("conversations.replies", "conversations.info", "chat.*", "*"),
)
_SLACK_TROUBLES: tuple[SlackTrouble, ...] = ("limit", "limit", "fail", "fail", "cut", "cut", "hang", "slow")


def _broken_slack(rng: random.Random, seconds: float) -> list[Break]:
    found: list[Break] = []
    at = _FIRST + rng.uniform(0, 2)
    while at < seconds:
        trouble = rng.choice(_SLACK_TROUBLES)
        lasts = rng.uniform(1, 6) if trouble != "hang" else rng.uniform(1, 12)
        times = rng.choice((1, 2, 4, 15))
        found.append(
            Break(
                *(at, "Slack", lasts),
                slack=trouble,
                method=rng.choice(_METHODS),
                times=times,
                acted=rng.random() < 0.5,
            )
        )
        at += rng.uniform(2, 6)
    return found
