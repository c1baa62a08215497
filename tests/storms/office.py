"""Everything in a storm: replicas of the real bot, one store, one Slack, people, and what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import UserDict
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import cache, partial
from random import Random
from typing import Any, cast

from slack_bolt.async_app import AsyncApp

from adk_confirm.bot import app as product
from adk_confirm.bot.config.settings import Rules, Settings, parse_settings
from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.open_host import open_host
from adk_confirm.bot.ops.reapply import Reapplying
from adk_confirm.bot.policy.approvers import OPERATOR
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.bot.slack.calls import CallLimits, Slack
from adk_confirm.bot.slack.directory import Directory
from adk_confirm.bot.store import sealed_rows
from adk_confirm.bot.store.cast_vote import SubmittedVote
from adk_confirm.bot.store.pause import mark_for_drawing, pause_runs, resume_runs
from adk_confirm.bot.worker.supervision import RestartPauses
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.calls.call import call_digest
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.wakeups import Hub
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Message
from bench.chaos import agent as agents
from bench.chaos.history import Effect
from bench.chaos.office import REDELIVERED_AFTER, policy
from bench.chaos.people import People, everywhere
from bench.chaos.plan import APPROVERS, ASKERS, OUTSIDER, TOOLS
from tests.storms.ballots import FOR_ALL, START_WITHIN
from tests.storms.faults import OF_CLICKS, OF_CLOCKS, OF_PEOPLE, OF_REPLICAS, OF_WRITERS, Fault, Moment, Weather
from tests.storms.foreign import ForeignAgents, ForeignServer
from tests.storms.gestures import presses
from tests.storms.loop import Process, StormLoop
from tests.storms.slack import SlackWire, StormClient, StormSlack, transmit
from tests.storms.store import StormEngine, StormStore
from tests.storms.watch import Watch

SECRET = "not a secret, but long enough"
LEASE = 6.0
_TOKEN = "xoxb-storm"

_here: dict[Process, Replica] = {}
"""Which replica a process is."""


class Replica:
    """One replica, which is started again after it died: each time as another process."""

    def __init__(self, office: Office, number: int) -> None:
        self.office, self.number = office, number
        self.bolt: AsyncApp | None = None
        self.requests: list[asyncio.Future[tuple[int, str]]] = []
        self.cut_off_until = 0.0
        self.ahead = office.dice.choice((0.0, 0.0, 0.3, -2.0, 40.0, -3600.0))
        self.rules = Rules(office.settings.policies)
        self.process = office.loop.spawn(f"replica {number}")
        self.stopping = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.stopping = asyncio.Event()
        self.process.ahead = self.ahead
        _here[self.process] = self
        self.running = self.office.loop.create_task(self._run(), context=self.process.context)

    async def _run(self) -> None:
        pause = 0.5
        while not self.stopping.is_set():
            try:
                async with product.running_bot(
                    self.office.settings, limits=CallLimits(), pauses=RestartPauses(first=0.5, longest=4.0)
                ):
                    await self.stopping.wait()
            except ConfirmError as error:  # it could not start: its service manager starts it again
                self.office.note(f"replica {self.number} did not start: {error}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, 4.0)
            finally:
                self.bolt = None

    async def answers_all(self) -> None:
        """As a server that stops: it takes no requests any more, and answers those that it has."""
        self.bolt = None
        if self.requests:
            await asyncio.wait(self.requests, timeout=5.0)

    def dies(self) -> None:
        office = self.office
        office.loop.kill(self.process)
        office.store.ends(self.process)
        self.bolt = None
        for engine in [one for one in office.store.engines if one.replica is self]:
            office.store.engines.remove(engine)
        for one in self.requests:
            if not one.done():
                one.set_exception(ConnectionResetError())
        self.requests = []

    def reborn(self) -> None:
        self.process = self.office.loop.spawn(f"replica {self.number}")
        self.start()


class Office:
    def __init__(
        self, seed: int, loop: StormLoop, empty: Callable[..., StormStore], replicas: int, *, rates: bool, foreign: bool
    ) -> None:
        self.loop, self.dice, self.weather = loop, Random(f"world {seed}"), Weather()
        self.effects: list[Effect] = []
        self.tampered: set[str] = set()
        self.stops_only = False
        """Nothing goes wrong but that replicas are stopped, as they should be."""
        self.said: list[str] = []
        self.slack = FakeSlack(our_app())
        self.slack.install.token = _TOKEN
        self.slack.workspace.directory.installs = {_TOKEN: self.slack.install}
        self.slack.base = "https://slack.example"
        self.slack.outbox.retries_after = REDELIVERED_AFTER
        self.slack.rates.methods = self.slack.rates.posts = rates
        names = (*ASKERS, *APPROVERS, OUTSIDER)
        cast_ = {name: self.slack.person(name, id=f"U0{name.upper()}") for name in names}
        self.slack.group("oncall", *(cast_[name] for name in APPROVERS), id="S0ONCALL")
        self.cast = cast_
        self.names = {person.id: name for name, person in cast_.items()}
        self.people = People(self.slack, cast_, everywhere(self.slack, cast_))
        self.wire = SlackWire(self.slack, loop, self.dice, self.weather)
        self.slack.outbox._transmit = partial(transmit, self)  # type: ignore[method-assign]
        more = (self._committed, self._unheld, self._coming, self._until_late, self._stored)
        self.store: StormStore = empty(loop, self.dice, self.weather, *more)
        self.settings = settings(foreign=foreign)
        self.agents = ForeignAgents(self) if foreign else None
        self.watch = Watch(self)
        self.away, self.bars, self.barred = "", "", [""] * replicas
        """Who left the group, who is barred in the file, and who in the file as each replica read it last."""
        self.changes_who_may()
        self.replicas = [Replica(self, number) for number in range(replicas)]
        self.unknown: set[str] = set()
        """Of whom Slack does not say who they are."""
        self.lost: list[Message] = []
        """What Slack lost after it had taken it."""
        self.copies: list[Message] = []
        """Cards as they were, which some people may still see."""
        self.healing: set[asyncio.Task[None]] = set()

    def note(self, what: str) -> None:
        self.said.append(f"{self.loop.now - 1_790_000_000.0:9.3f} s  {what}")

    def _unheld(self, replica: Replica, lease: Lease) -> None:
        self.watch.unheld(replica, lease, "its transaction")

    def loses(self, channel: str, ts: str) -> None:
        """Slack has said that it has a message, and has it no more."""
        messages = self.slack.workspace.messages
        message = messages.find(channel, ts)
        self.lost.append(message)
        messages.delete(self.slack.workspace.directory.channel(channel), message)
        self.note(f"Slack loses {message.metadata}")

    def _committed(self, replica: Replica) -> None:
        self.watch.look()
        self.struck("commit", replica)

    def _stored(self, vote: SubmittedVote, at: float) -> None:
        self.watch.stored[vote.voter.user, vote.confirmation].append(at)

    def struck(self, on: Moment, replica: Replica) -> list[Fault]:
        found = self.weather.moment(on)
        for fault in found:
            self.strikes(fault, replica)
        return found

    def _coming(self, on: Moment, replica: Replica) -> float:
        """How late a transaction arrives, if its process is struck before: it may not even have been sent."""
        found = self.struck(on, replica)
        unsent = [one.seconds for one in found if one.kind == "leaves meanwhile" and one.acted]
        return self.dice.uniform(0.05, 0.5) + max(unsent, default=0.0) if found else 0.0

    def _until_late(self) -> float:
        end = self.watch.next_late_start()
        return max(0.0, end - self.loop.now) + self.dice.uniform(0, 0.003) if end is not None else 0.0

    def acked(self, replica: Replica, made: Delivery) -> None:
        self.watch.acked(made)
        self.struck("ack", replica)

    def log(self, phase: str, tool: str, ticket: str, amount: int, call: str | None) -> None:
        """What a tool did in a replica, as the world sees it."""
        replica = _here[self.loop.current]
        self.ran(phase, tool, ticket, amount, call or "", replica.process.index)
        if phase == "begins":
            self.struck("tool", replica)
            if tool == "deploy":
                self.struck("joint tool", replica)

    def ran(self, phase: str, tool: str, ticket: str, amount: int, call: str, index: int = 0) -> None:
        made = Effect(self.loop.now, cast("Any", phase), tool, ticket, amount, call, index)
        self.effects.append(made)
        self.note(f"{tool} {phase} for {ticket} in process {index}")
        self.watch.tool(made)

    # Faults

    async def strike(self, faults: tuple[Fault, ...]) -> None:
        began = self.loop.now
        for fault in faults:
            await asyncio.sleep(max(0.0, began + fault.at - self.loop.now))
            if fault.on:
                self.weather.arm(fault)
            elif fault.kind in OF_REPLICAS:
                replica = self.replicas[fault.replica % len(self.replicas)]
                if not replica.process.dead:
                    self.loop.after_steps(replica.process, fault.count, partial(self.strikes, fault, replica))
            elif fault.kind in (*OF_CLOCKS, *OF_PEOPLE, *OF_CLICKS, *OF_WRITERS, "cut off", "disk is full"):
                self.strikes(fault, self.replicas[fault.replica % len(self.replicas)])
            else:
                self.weather.arm(fault)

    def strikes(self, fault: Fault, replica: Replica) -> None:
        process = replica.process
        if process.dead or self.weather.over:
            return
        if fault.kind in OF_WRITERS and self.store.dialect != "sqlite":
            return
        self.weather.met += not fault.on
        self.note(f"{fault.kind}, replica {replica.number}, {fault.seconds:.3f} s {fault.on}")
        match fault.kind:
            case "kill":
                replica.dies()
                self._later(fault.seconds, replica.reborn)
            case "freeze" | "stand still" | "suspend" | "doze":
                if process.frozen:
                    return
                process.frozen = True
                if fault.kind in ("stand still", "suspend"):
                    self.loop.shift_timers(process, fault.seconds)
                if fault.kind == "suspend":  # by less than what a lease has left when it counts as fresh
                    back = min(fault.seconds - LEASE + self.dice.uniform(0.1, 1.5), LEASE / 2)
                    replica.ahead = process.ahead = process.ahead - (3600.0 if fault.acted else back)
                if fault.kind == "doze":
                    self.weather.arm(Fault("freeze", 0.0, on="sure", seconds=LEASE + 1))
                self._later(fault.seconds, partial(setattr, process, "frozen", False))
            case "restart":
                if fault.on == "post":
                    self.stops_only = False
                    self.weather.arm(Fault("commit is late", 0.0, seconds=fault.seconds, times=2))
                self._start_task(self._restarts(replica))
            case "clock jumps":
                replica.ahead = process.ahead = process.ahead + fault.seconds
            case "disk is full":
                self.store.full_until = self.loop.now + fault.seconds
            case "cut off":
                replica.cut_off_until = self.loop.now + fault.seconds
            case "group changes":
                self._start_task(self._group_changes(fault))
            case "older confirmation":
                self._start_task(self._puts_back(fault))
            case "amount of a confirmation" | "amount of a call":
                self._writes(fault)
            case "older call":
                self._start_task(self._puts_back(fault, "runtime_calls"))
            case "call is ready":
                self._makes_ready(fault)
            case "nobody spoke":
                self._start_task(presses(self, fault))
            case "letter again":
                self._sends_again(fault)
            case "forged letter":
                self._forges(fault)
            case "leaves meanwhile":  # what was asked about them is old when the process, or the store, goes on
                if not fault.acted:
                    process.frozen = True
                    self._later(fault.seconds, partial(setattr, process, "frozen", False))
                self.leaves(self.watch.last_actor())
                self._later(fault.seconds + 3, partial(self.leaves, ""))
            case "policy changes":
                self._start_task(self._policies_change(fault))
            case "reapply":
                self._start_task(self._policies_change(fault, reapplies=True))
            case "pause":
                self._start_task(self._pauses(fault))
            case kind if kind in OF_CLICKS:
                self._start_task(presses(self, fault))
            case _:
                raise ValueError(fault.kind)

    async def _restarts(self, replica: Replica) -> None:
        process, running = replica.process, replica.running
        if process.dead or running is None:
            return
        self.loop.call_soon(replica.stopping.set, context=process.context)
        await asyncio.wait({running}, timeout=10)
        if running.done() and self.stops_only:
            self.watch.stops(replica)
        if not process.dead:
            replica.dies()
            replica.reborn()

    async def _somebody(self, fault: Fault) -> str:
        """Whose approval waits for another's, if there is one soon; or somebody who could give the other."""
        for _ in range(60):
            if voters := sorted({name for names in self.watch.half_decided().values() for name in names}):
                others = [name for name in APPROVERS if name not in voters] if fault.acted else []
                return (others or voters)[fault.count % len(others or voters)]
            await asyncio.sleep(0.2)
        return APPROVERS[fault.count % len(APPROVERS)]

    async def _group_changes(self, fault: Fault) -> None:
        for away in (await self._somebody(fault), ""):
            self.leaves(away)
            await asyncio.sleep(fault.seconds)
            if away:
                await self._press_on(fault, away)

    async def _press_on(self, fault: Fault, who: str) -> None:
        """This person presses what they have not pressed yet, and others approve what this person has approved."""
        await presses(self, replace(fault, kind="nevertheless"), who)
        await presses(self, replace(fault, kind="approves the rest"))

    def leaves(self, away: str) -> None:
        """This person alone is not in the group."""
        self.away = away
        self.slack.group("oncall", *(self.cast[name] for name in APPROVERS if name != away), id="S0ONCALL")
        self.changes_who_may()

    def changes_who_may(self, by_command: str = "") -> None:
        """Somebody who is barred in some replicas only may still decide in the others."""
        able = {tool.name: {*APPROVERS, *(ASKERS if tool.name in FOR_ALL else ())} for tool in TOOLS_HERE}
        for tool in TOOLS_HERE:
            able[tool.name] -= {self.away} if _GROUP in tool.approvers else set()
        named = {tool: frozenset(f"U0{one.upper()}" for one in names) for tool, names in able.items()}
        self.watch.able(named, [f"U0{one.upper()}" for one in (*self.barred, *filter(None, [by_command]))])

    def read_file(self, replica: Replica) -> None:
        """A replica reads its settings file."""
        replica.rules.policies = self._policies(self.bars)
        self.barred[replica.number] = self.bars
        self.changes_who_may()

    def _policies(self, bars: str) -> Policies:
        """Those of the file, with somebody barred."""
        return settings(f"user:U0{bars.upper()}" if bars else "", foreign=self.agents is not None).policies

    def _writes(self, fault: Fault) -> None:
        """Somebody changes an amount in the database."""
        table = "bot_confirmations" if fault.kind == "amount of a confirmation" else "runtime_calls"
        rows = self.store.look(f"SELECT id, body FROM {table} ORDER BY id")
        if not rows:
            return
        row = rows[fault.count % len(rows)]
        body = re.sub(r'("amount":\s?)(\d+)', lambda found: f"{found[1]}{int(found[2]) + 7000}", row.body)
        self.store.connection.execute(f"UPDATE {table} SET body = ? WHERE id = ?", (body, row.id))
        self.tampered.add(fault.kind)

    async def _puts_back(self, fault: Fault, table: str = "bot_confirmations") -> None:
        """Somebody keeps a copy of a row, and puts it back later."""
        rows = self.store.look(f"SELECT * FROM {table} ORDER BY id")
        if not rows:
            return
        row = rows[fault.count % len(rows)]
        await asyncio.sleep(fault.seconds)
        names = [name for name in row._fields if name != "id"]
        put = ", ".join(f"{name} = ?" for name in names)
        values = [getattr(row, name) for name in names]
        self.store.connection.execute(f"UPDATE {table} SET {put} WHERE id = ?", (*values, row.id))
        self.tampered.add(fault.kind)
        await presses(self, replace(fault, kind="old card", seconds=0.0))

    def _makes_ready(self, fault: Fault) -> None:
        """Somebody makes a call that waits for people look approved, and has its session looked at."""
        rows = self.store.look("SELECT id, session, body FROM runtime_calls WHERE state = 'held' ORDER BY id")
        if not rows:
            return
        row = rows[fault.count % len(rows)]
        body = json.loads(row.body)
        body["state"], body["approved"] = "ready", call_digest(body["tool"], body["args"])
        put = "UPDATE runtime_calls SET state = 'ready', body = ? WHERE session = ? AND id = ?"
        self.store.connection.execute(put, (json.dumps(body), row.session, row.id))
        self.store.connection.execute("UPDATE jobs SET due_at = 0 WHERE kind = 'session'")
        self.tampered.add(fault.kind)

    def silences(self) -> None:
        """Somebody makes nobody have spoken to any agent."""
        self.store.connection.execute("UPDATE bot_sessions SET speakers = '[]'")
        self.tampered.add("nobody spoke")

    def _forges(self, fault: Fault) -> None:
        """Somebody has the agent hear what nobody said."""
        rows = self.store.look("SELECT * FROM bot_mail WHERE kind = 'words' ORDER BY id")
        if not rows:
            return
        row = {**rows[fault.count % len(rows)]._asdict(), "mark": f"1{self.loop.now:.6f}", "done_at": None}
        del row["id"]
        put = f"INSERT INTO bot_mail ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        self.store.connection.execute(put, (*row.values(),))
        self.store.connection.execute("UPDATE jobs SET due_at = 0 WHERE kind = 'session'")
        self.tampered.add(fault.kind)

    def _sends_again(self, fault: Fault) -> None:
        """Somebody has the agent hear again what it has heard."""
        rows = self.store.look("SELECT id FROM bot_mail WHERE done_at IS NOT NULL ORDER BY id")
        if not rows:
            return
        self.store.connection.execute(
            "UPDATE bot_mail SET done_at = NULL WHERE id = ?", (rows[fault.count % len(rows)].id,)
        )
        self.store.connection.execute("UPDATE jobs SET due_at = 0 WHERE kind = 'session'")
        self.tampered.add(fault.kind)

    async def _policies_change(self, fault: Fault, *, reapplies: bool = False) -> None:
        """For a while somebody can't decide any more, also on what waits if that is put under the policies anew."""
        for bars in (await self._somebody(fault), ""):
            self.bars = bars
            for replica in self.replicas:  # each reads its file when it happens to
                await asyncio.sleep(self.dice.uniform(0, 1))
                self.read_file(replica)
            if reapplies:
                await self._reapplies(self.bars)
            if bars:
                await self._press_on(fault, bars)
            await asyncio.sleep(fault.seconds)

    async def _reapplies(self, bars: str) -> None:
        """As the command does. What it leaves as it was, it says."""
        self.changes_who_may(bars)
        rules, command = Rules(self._policies(bars)), cast("Any", _Beside(self))
        people = Directory(Slack(cast("Any", StormClient(self.wire, command))), rules)
        async for done in Reapplying(self.beside(), people, rules.policies).rows():
            self.note(f"reapplied: {done}")

    async def _pauses(self, fault: Fault) -> None:
        await self._operates(pause_runs)
        await asyncio.sleep(fault.seconds)
        await self._operates(resume_runs)

    async def _operates(self, turn: Callable[..., bool]) -> None:
        """What a command does beside the service."""
        database = self.beside()
        self.note(turn.__name__)
        await database.run(turn, OPERATOR, None)
        after: str | None = ""
        while after is not None:
            after = await database.run(mark_for_drawing, after)

    def beside(self) -> Database:
        operator = cast("Any", _Beside(self))
        return Database(StormEngine(self.store, operator, Hub()), Hub(), "storm", read_only=False, context=Seal(SECRET))

    def goes_on(self, seconds: float, work: Coroutine[Any, Any, None]) -> None:
        """Something in the world, which nobody can stop."""
        self._later(seconds, lambda: self._start_task(work))

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        self.loop.call_later(max(seconds, 0.001), then, context=self.loop.world.context)

    def _start_task(self, work: Any) -> None:
        task = self.loop.create_task(work, context=self.loop.world.context)
        self.healing.add(task)
        task.add_done_callback(self._healed, context=self.loop.world.context)

    def _healed(self, task: asyncio.Task[None]) -> None:
        self.healing.discard(task)
        task.result()

    async def heal(self) -> None:
        """All is well again."""
        self.weather.clear()
        self.store.full_until = 0.0
        for replica in self.replicas:
            replica.cut_off_until = 0.0
        while self.healing or any(one.process.dead or one.process.frozen for one in self.replicas):
            await asyncio.sleep(0.5)
        self.note("all is well again")

    async def sleeps(self, seconds: float) -> None:
        """Nobody does anything for so long. If somebody's approval waits for another's, they have left the group when
        the others come back."""
        await self.quiet(300.0)
        if voters := sorted({name for names in self.watch.half_decided().values() for name in names}):
            self.leaves(voters[0])
        until = self.loop.now + seconds
        for _ in range(_ENDS):
            if (end := self.watch.next_end(until)) is None:
                break
            self.loop.now = max(self.loop.now, end - 1.0)
            await presses(self, Fault("last moment", 0.0, count=int(end)))
            await self.quiet(300.0)
        self.loop.now = max(self.loop.now, until)
        self.note(f"{seconds:g} s have passed")
        await self.quiet(300.0)
        self.watch.looks_for_overdue()

    async def is_prompt(self) -> None:
        """In calm weather nothing fails, and what is due is done at once, not when a loop looks again."""
        seen: set[Any] = set()
        while True:
            await asyncio.sleep(0.25)
            late = {tuple(row) for row in self.store.look(_LATE, now=self.loop.now, full=self._full_channels())}
            for row in sorted(seen & late):
                self.watch.late(*row)
            seen = late

    def _full_channels(self) -> str:
        """Channels where Slack's limit, a message a second, holds up what is posted."""
        channels = self.slack.workspace.directory.channels.values()
        recent = {one.id: sum(float(ts) > self.loop.now - 15 for ts in one.messages) for one in channels}
        return " ".join(channel for channel, count in recent.items() if count > 10)

    # Rest

    def owed(self) -> list[str]:
        found = self.store.look(_OWED, now=self.loop.now)
        return [f"{row.kind} {row.key} is {row.how}, {row.trouble or 'no trouble'}" for row in found]

    async def quiet(self, within: float) -> list[str]:
        """Waits until no row has been due for a while. Returns those that still are, if that takes too long."""
        until, since = self.loop.now + within, self.loop.now
        owed: list[str] = []
        while self.loop.now < until:
            owed = self.owed()
            if owed:
                since = self.loop.now
            elif self.loop.now - since > 3.0:
                break
            await asyncio.sleep(0.5)
        return owed


class _Beside:
    """A command, which is a process of its own and meets no faults."""

    cut_off_until, number = 0.0, -1

    def __init__(self, office: Office) -> None:
        self.office, self.process = office, office.loop.world


_ENDS = 3
"""At how many ends of somebody's time people press in a long sleep."""
_GROUP = "group:S0ONCALL"
_EVERYBODY = tuple(f"user:U0{name.upper()}" for name in (*APPROVERS, *ASKERS))
_POLICIES = {"deploy": (_GROUP,), **dict.fromkeys(FOR_ALL, _EVERYBODY)}
TOOLS_HERE = tuple(replace(tool, approvers=_POLICIES.get(tool.name, tool.approvers)) for tool in TOOLS)
"""Two of a group decide on one tool's calls, so that somebody may leave it between two votes; and on some tools'
everybody who has not asked."""


_LATE = """
    SELECT j.kind, j.key, j.due_at, j.failures, j.trouble FROM jobs j
    LEFT JOIN jobs l ON l.kind = 'session' AND l.key = coalesce(j.owner, j.key)
    LEFT JOIN bot_sessions s ON s.key = coalesce(j.owner, j.key)
    WHERE j.failures > 0
       OR j.parked_at IS NULL AND j.kind <> 'session' AND j.due_at <= :now - 15
          AND :full NOT LIKE '%' || coalesce(s.channel, '-') || '%'
       OR j.parked_at IS NULL AND j.due_at <= :now - 1 AND coalesce(l.lease_until, 0) <= :now
"""
_OWED = """
    SELECT kind, key, trouble,
           CASE WHEN parked_at IS NOT NULL THEN 'parked' WHEN lease_until > :now THEN 'attended'
                WHEN due_at <= :now THEN 'due' ELSE 'put off' END AS how
    FROM jobs
    WHERE due_at <= :now OR lease_until > :now OR parked_at IS NOT NULL OR owed_since IS NOT NULL
       OR due_at <= :now + 20 AND kind IN ('confirmation', 'thread', 'session')
"""


@cache
def settings(bars: str = "", *, foreign: bool = False) -> Settings:
    """What a server of others takes back is a denial with words, so nobody edits there."""
    policies = "\n".join(policy(tool) + (f'barred = ["{bars}"]\n' if bars else "") for tool in TOOLS_HERE)
    for tool, seconds in START_WITHIN.items():
        policies = policies.replace(f'tools = ["{tool}"]\n', f'tools = ["{tool}"]\nstart_within = "{seconds:g}s"\n')
    policies = policies.replace('edit = ["amount"]', "edit = []") if foreign else policies
    text = (
        '[agent]\ntarget = "bench.chaos.agent:agent"\n[audit]\ncheckpoint_every = "10s"\n'
        f'[store]\nlease = "{LEASE:g}s"\n{policies}'
    )
    return parse_settings(
        text,
        {
            "SLACK_BOT_TOKEN": _TOKEN,
            "SLACK_SIGNING_SECRET": "0" * 32,
            "SLACK_API_URL": "https://slack.example/api/",
            "DATABASE_URL": "sqlite:///storm.db",
            "ADK_CONFIRM_SECRET": SECRET,
        },
    )


@contextlib.contextmanager
def in_place(office: Callable[[], Office | None]) -> Iterator[None]:
    """The product's own start, with the store and Slack of the storm."""

    def here() -> Replica:
        at = office()
        assert at is not None
        return _here[at.loop.current]

    async def open_store(*_: object, **__: object) -> Database:
        replica = here()
        hub = Hub()
        return Database(
            StormEngine(replica.office.store, replica, hub), hub, "storm", read_only=False, context=Seal(SECRET)
        )

    async def agents_host(*given: Any, **more: Any) -> Any:
        replica = here()
        agents_there = replica.office.agents
        if agents_there is None:
            return await open_host(*given, **more)
        return AdkHost(ForeignServer(agents_there, replica))

    async def serve(stack: Any, stop: Any, readiness: Any, settings: Any, metrics: Any, bolt: AsyncApp) -> str:
        replica = here()
        replica.bolt = bolt
        stack.push_async_callback(replica.answers_all)
        return "storm"

    def rules(*given: Any) -> Rules:
        replica = here()
        replica.rules = Rules(*given)
        replica.office.read_file(replica)
        return replica.rules

    class Rows(UserDict[str, Any]):
        """The rows that a process keeps: of one Python process, that would be all of them."""

        def __init__(self) -> None:
            """`data` is there already."""

        @property
        def data(self) -> dict[str, Any]:  # type: ignore[override]
            at = office()
            assert at is not None
            return at.loop.current.rows

    class NoSession:
        async def close(self) -> None: ...

    def client(_: object) -> StormClient:
        replica = here()
        return StormClient(replica.office.wire, replica)

    def log(phase: str, tool: str, ticket: str, amount: int, call: str | None) -> None:
        here().office.log(phase, tool, ticket, amount, call)

    places: dict[str, Any] = {
        "open_store": open_store,
        "open_host": agents_host,
        "slack_client": client,
        "slack_session": NoSession,
        "Slack": StormSlack,
        "Rules": rules,
        "_serve": serve,
    }
    before = {name: getattr(product, name) for name in places}
    for name, put in places.items():
        setattr(product, name, put)
    as_it_is, agents._log = agents._log, log
    rows, sealed_rows._kept = sealed_rows._kept, cast("Any", Rows())
    try:
        yield
    finally:
        agents._log, sealed_rows._kept = as_it_is, rows
        for name, was in before.items():
            setattr(product, name, was)
