"""One storm, from its seed: people at work, faults, rest, and what was found."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sqlite3
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random

from adk_confirm.blocks.click_ids import CardMark, parse_mark
from adk_confirm.bot.audit.ledger import SYSTEM
from adk_confirm.bot.ops.audit_export import export_object
from adk_confirm.bot.ops.audit_verify import verification_results
from adk_confirm.bot.slack.directory import RIGHTS_KNOWN_FOR
from adk_confirm.bot.store.audit_log import LineFilter, read_page, verify_ledger
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.bot.store.open import open_store
from adk_confirm.runtime.store.seal import Seal
from bench.chaos import agent as agents
from bench.chaos.checks import check, ledger_verifies
from bench.chaos.collecting import entry, messages, messages_to_agent, whispers
from bench.chaos.history import Finding, History
from bench.chaos.plan import APPROVERS, Click, Errand, Plan, make_plan
from bench.chaos.story import Story
from tests.storms import office as offices
from tests.storms import virtual
from tests.storms.faults import BETWEEN_TWO_VOTES, OF_CLICKS, OF_PEOPLE, Fault, make_faults, without
from tests.storms.loop import StormLoop
from tests.storms.office import LEASE, SECRET, Office, in_place
from tests.storms.store import StormStore
from tests.storms.watch import HEARD_TWICE, POSTED_AGAIN

_GOES_HOME, _QUIET_WITHIN, _ROUNDS = 30.0, 300.0, 6
LOOP: StormLoop | None = None
OFFICE: Office | None = None
EMPTY: Callable[..., StormStore] | None = None
"""Makes the store of a storm, with its tables."""


@dataclass(frozen=True)
class Storm:
    """What happens in a storm."""

    seed: int
    replicas: int
    seconds: float
    rates: bool
    foreign: bool
    plan: Plan
    faults: tuple[Fault, ...]
    pause: float = 0.0
    """How long nobody does anything before people bring the rest to an end."""
    lasts: float = 2.0
    """How long what waits for a moment may still strike, when nothing new is asked or goes wrong any more."""

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong, and people do not ask for more than Slack takes."""
        calm = {*OF_CLICKS} - {"nobody answers"}
        return not self.rates and all(fault.kind in calm for fault in self.faults)


@dataclass
class Outcome:
    storm: Storm
    findings: list[Finding] = field(default_factory=list)
    met: int = 0
    steps: int = 0
    commits: int = 0
    lasted: float = 0.0
    trace: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def promises(self) -> set[str]:
        return {one.promise for one in self.findings}


def make_storm(seed: int, *, foreign: bool = False) -> Storm:
    """`foreign`: the agent is on a server of others, as it is with each fourth seed."""
    foreign = foreign or seed % 4 == 3
    dice = Random(f"storm {seed}")
    replicas, seconds = dice.choice((1, 1, 2, 2, 2, 3, 4)), dice.choice((3.0, 3.0, 3.0, 3.0, 8.0, 14.0))
    plan = make_plan(seed, seconds, lease=LEASE, every=dice.choice((1.5, 3.0, 5.0)))
    rates = dice.random() < 0.3
    faults = make_faults(dice, replicas=replicas, seconds=seconds + 4, lease=LEASE, foreign=foreign)
    pause = dice.choice((0.0, 0.0, 0.0, 35.0, 70.0, 70.0, 3700.0, 87_000.0))
    between_two_votes = any(fault.kind in BETWEEN_TWO_VOTES for fault in faults)
    if any(
        fault.kind == "kill" and fault.on in ("tool", "joint tool") for fault in faults
    ):  # what is unknown then ends
        pause = dice.choice((0.0, 70.0, 87_000.0, 87_000.0, 87_000.0))
    if dice.random() < 0.5 and any(fault.kind in ("speaks", "nobody spoke") for fault in faults):
        plan = _for_all(plan)
    elif dice.random() < (0.8 if between_two_votes else 0.2):
        plan = _half_decided(plan)
    return Storm(seed, replicas, seconds, rates, foreign, plan, faults, pause, dice.choice((2.0, 5.0, 10.0)))


def _half_decided(plan: Plan) -> Plan:
    """With a call in each thread that needs two approvals, and gets one soon."""
    return _with(plan, "deploy", lambda errand: (Click(APPROVERS[errand.number % 3], "Approve", 0.3),))


def _for_all(plan: Plan) -> Plan:
    """With a call in each thread on which also those decide who ask for others, and nobody soon."""
    return _with(plan, "pay", lambda _: ())


def _with(plan: Plan, tool: str, clicks: Callable[[Errand], tuple[Click, ...]]) -> Plan:
    def one(errand: Errand) -> Errand:
        first, *others = errand.calls
        if all(call.tool != tool for call in others):
            first = replace(first, tool=tool, clicks=clicks(errand))
        return replace(errand, calls=(first, *others))

    return replace(plan, errands=tuple(map(one, plan.errands)))


def run(storm: Storm, *, tell: bool = False) -> Outcome:
    """One storm, whole. `tell`: notes each commit and each call to Slack."""
    global LOOP, OFFICE
    virtual.DICE.seed(f"ids {storm.seed}")
    loop = LOOP = StormLoop(Random(f"order {storm.seed}"))
    outcome = Outcome(storm)
    try:
        with in_place(lambda: OFFICE):
            outcome.findings = loop.run_until_complete(_weather(storm, loop, tell))
    except RuntimeError as error:
        outcome.findings = [Finding("everything heals", str(error))]
    finally:
        if OFFICE is not None:
            outcome.met, outcome.said = OFFICE.weather.met, OFFICE.said
            outcome.commits = OFFICE.store.commits
            OFFICE.store.close()
        outcome.steps, outcome.trace, outcome.lasted = loop.steps, loop.trace, loop.now - 1_790_000_000.0
        loop.end()
        offices._here.clear()
        model = agents.agent.model
        assert isinstance(model, agents.Thoughtful)
        model.requests.clear()
        LOOP = OFFICE = None
        if storm.seed % 16 < 2:  # it takes a tenth of the time of a storm, and two processes share the seeds
            gc.collect()
    return outcome


_LONGEST_SEARCH = 90.0


def shortest(storm: Storm) -> Outcome:
    """The storm without the faults and requests that it does not need to break the same promise."""
    until = time.perf_counter() + _LONGEST_SEARCH
    found = run(storm)
    wanted, smaller = found.promises, True
    while smaller:
        smaller = False
        parts = [
            *(replace(found.storm, faults=without(found.storm.faults, at)) for at in range(len(found.storm.faults))),
            *(
                replace(found.storm, plan=replace(found.storm.plan, errands=without(found.storm.plan.errands, at)))
                for at in range(len(found.storm.plan.errands))
            ),
        ]
        for part in reversed(parts):
            if time.perf_counter() > until:
                break
            outcome = run(part)
            if outcome.promises & wanted:
                found, smaller = outcome, True
                break
    return found


async def _weather(storm: Storm, loop: StormLoop, tell: bool) -> list[Finding]:
    global OFFICE
    assert EMPTY is not None
    at = OFFICE = Office(storm.seed, loop, EMPTY, storm.replicas, rates=storm.rates, foreign=storm.foreign)
    if tell:
        at.store.told = lambda replica, what: at.note(f"replica {replica.number} {what}")
    at.stops_only = all(fault.kind in ("restart", *OF_CLICKS, *OF_PEOPLE) for fault in storm.faults)
    for replica in at.replicas:
        replica.start()
    while not any(one.bolt for one in at.replicas):
        await asyncio.sleep(0.05)
    prompt = asyncio.create_task(at.is_prompt()) if storm.is_calm else None
    async with asyncio.TaskGroup() as group:
        group.create_task(at.people.live(storm.plan))
        group.create_task(at.strike(storm.faults))
    await asyncio.sleep(storm.lasts)
    await at.heal()
    await at.people.finish(_GOES_HOME)
    if storm.pause:
        await at.sleeps(storm.pause)
    owed = await _decide_the_rest(at, storm)
    if prompt is not None:
        prompt.cancel()
    history = _history(at, owed)
    if at.tampered:  # what somebody changed ends otherwise than people wanted; but nothing else ran
        excused = {POSTED_AGAIN, *([HEARD_TWICE] if at.tampered >= _ROLLED_BACK else [])}
        found = [one for one in at.watch.found if one.promise not in excused]
        return [*found, *ledger_verifies(Story(history))]
    found = [*at.watch.found, *(one for one in check(history) if not _is_excused(at, history, one))]
    if (looks := await _commits_at_rest(at)) > MOST_AT_REST:
        found.append(Finding("at rest nobody is busy", f"{looks} commits in {_REST:g} s of rest"))
    return found


def _is_excused(at: Office, history: History, finding: Finding) -> bool:
    """Whether a promise about what people see is broken by what Slack lost: nobody learns of that. A call whose card is
    lost can't be decided. What an agent elsewhere says after its connection broke is looked for only for a while."""
    threads = {(one.channel_id, one.thread_ts) for one in at.lost}
    tickets = {call.ticket for call in history.asked if call.thread in threads}
    for one in at.lost:
        mark = parse_mark(one.metadata)
        tickets |= {at.people.ticket_of(mark.confirmation, one)} if isinstance(mark, CardMark) else set()
    return finding.thread in threads or finding.ticket in tickets


_ROLLED_BACK = {"older call", "letter again"}
"""A call and its letter as they were: nothing runs again, and people are told that somebody changed the database."""

_REST, MOST_AT_REST = 20.0, 60
"""Seconds, and the commits of all replicas in them: each looks every five seconds, and makes checkpoints."""


async def _commits_at_rest(at: Office) -> int:
    before = at.store.commits
    await asyncio.sleep(_REST)
    return at.store.commits - before


async def _decide_the_rest(at: Office, storm: Storm) -> list[str]:
    owed: list[str] = []
    for number in range(_ROUNDS):
        if number == _ROUNDS // 2:  # else what nobody else may decide would wait for who left
            at.leaves("")
            await asyncio.sleep(RIGHTS_KNOWN_FOR)
        owed = await at.quiet(_QUIET_WITHIN)
        if owed or not await at.people.decide_open_calls(storm.plan):
            return owed
    return [*owed, "people's words did not bring everything to an end"]


def _history(at: Office, owed: list[str]) -> History:
    tx, seal = at.store.tx(whole=True), Seal(SECRET)
    tx.context = seal
    report = verify_ledger(tx, seal)
    lines = [line for line in read_page(tx, LineFilter(), None, 10_000) if line.chain != SYSTEM]
    exported = [json.dumps(export_object(line, KnownNames())) for line in lines]
    return History(
        asked=tuple(at.people.asked),
        said=tuple(messages_to_agent(at.slack, at.people)),
        clicked=tuple(at.people.clicked),
        effects=tuple(at.effects),
        messages=tuple(messages(at.slack)),
        whispers=tuple(whispers(at.slack)),
        ledger=tuple(entry(json.loads(line)) for line in exported),
        names=dict(at.names),
        tickets=at.people.tickets,
        verified=(0 if report.broken is None else 1, " ".join(verification_results(report))),
        owed=tuple(owed),
    )


def in_memory() -> Callable[..., StormStore]:
    """Stores on SQLite, with their tables, which are made before the clocks are replaced."""
    with tempfile.TemporaryDirectory(prefix="adk-confirm-storm-") as folder:
        file = Path(folder) / "empty.db"

        async def make() -> None:
            await (await open_store(f"sqlite:///{file}", SECRET)).close()

        asyncio.run(make())
        connection = sqlite3.connect(file)
        connection.execute("PRAGMA journal_mode=DELETE")
        made = connection.serialize()
        connection.close()
    return partial(StormStore, made)


def quiet_python() -> None:
    """Nobody reads the log of a storm, and what is left of dead replicas says nothing."""
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda _: None
    warnings.simplefilter("ignore")
    gc.disable()
