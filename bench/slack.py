"""Times in Slack: from a mention to the card, and from a click to the ack, the tool and the final card."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from adk_confirm.sandbox.refusals import NotFound
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.workspace.records import Channel
from bench.charts import clicks
from bench.clicks import BARE, OURS, ClickFigures, compared
from bench.figures import Goal, goals, number, percentile, table, times
from bench.office import Office, office

COUNTS = Path(__file__).parents[1] / "tests" / "counts.json"
PATIENCE = 150.0
"""How many seconds a scenario waits for something before the part fails."""
CHANNELS, THREADS, EACH, RATE, KNOWN = 40, 100, 10, 100.0, 4
LENGTH, NEAR = 100, 10
"""How many calls one thread gets, and over how many of them in a row a figure is taken."""
HEADS = ("", "mention → card", "click → ack", "click → tool starts", "click → final card", "CPU", "Slack calls")
_CLICK = (
    "the bare app stores nothing; behind our ack are the vote, its ledger line and their seals in a transaction, "
    "which alone costs more CPU than the bare app's whole click. Going on would cost the promise that a click counts "
    "once it is acknowledged"
)
_MANY = (
    "the transactions alone cost about 4 ms with nothing in them, when they come one at a time: each goes to a thread "
    "and back. The rest is their statements, and the event loop: "
    "drawing cards, and calls to Slack and from it. Fewer need a thread's owner who keeps all of it in memory, and one "
    "row for what a thread owes instead of one for each card, line and reply"
)
_STORE = (
    "each lane of a thread (its agent, its cards, its lines) still loads and saves its own rows. Going on would cost "
    "one aggregate for each thread, which its holder keeps in memory and saves as a whole. Deciding and starting in "
    "one commit was built and left out: one write fewer, but a slower ack, and more unknown outcomes after a kill"
)
_FOUR = (
    "the card, its update, the line of the decision and the reply: what an agent says never shares a message with "
    "what the ledger says, and only a new message notifies those who follow the thread. Going on would cost the line "
    "of the decision, or the agent's own message"
)
_LONGER = (
    "the agent's history is given to the model whole each time, and the thread's calls are read with it. Going on "
    "would cost a session that stays in memory between two runs"
)
_FINALS = (
    "a channel takes one post a second and 50 updates a minute from an app, and every cycle has three of them. Going "
    "on would cost a line or an update for each approval"
)
_SHARED = (
    "the people and their Slack use the same two cores, so whoever clicks last waits that long for their call. Going "
    "on would cost a replica: each adds a core"
)
_ONE_CORE = (
    "a click costs about 20 ms of CPU in all, with its card, its line and the reply, and a Python process can use "
    "one core. So 100 a second for ten seconds are more than it can do, and the last calls start late. Their clicks "
    "are acknowledged in Slack's three seconds. Going on would cost a second replica on PostgreSQL, or a third of the "
    "CPU of a click"
)


@dataclass
class SlackTimes:
    """Seconds for each card, ack, start of a tool and final card; and per cycle the CPU seconds and the calls by
    method."""

    cards: list[float] = field(default_factory=list)
    acks: list[float] = field(default_factory=list)
    tools: list[float] = field(default_factory=list)
    finals: list[float] = field(default_factory=list)
    refused: int = 0
    cpu: float | None = None
    calls: Counter[str] = field(default_factory=Counter)
    limited: int = 0  # calls that Slack answered with 429
    cycles: int = 0

    def add(self, other: SlackTimes) -> None:
        self.cards += other.cards
        self.acks += other.acks
        self.tools += other.tools
        self.finals += other.finals
        self.refused += other.refused

    @property
    def calls_each(self) -> float:
        return self.calls.total() / self.cycles if self.cycles else 0.0


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    part = 8 if quick else 1
    channels, threads = CHANNELS // part, THREADS // part
    clicked = await compared(folder, 1_200 // part)
    at_once = {1: await _one_at_a_time(folder / "one", 10 // part)}
    for count in (channels // 4, channels // 2, channels):
        at_once[count] = await _at_once(folder / f"{count}", count)
    asked = await _asked_at_once(folder / "many", channels)
    growth = await _in_one_thread(folder / "long", 2 * NEAR if quick else LENGTH)
    found = {
        "one at a time": at_once[1],
        **{f"{count} at once, over {count} channels": of for count, of in at_once.items() if count > 1},
        f"{4 * channels} asked at once, over {channels} channels": asked,
    }
    steady, burst, failing = await _many_clicks(folder / "clicks", threads)
    many = {
        f"{RATE:.0f} clicks a second, over {threads} threads": steady,
        f"a burst of {threads * EACH:,} clicks, over {threads} threads": burst,
        f"{RATE:.0f} clicks a second, while every post to Slack fails": failing,
    }
    one, forty = at_once[1], at_once[channels]
    ways = table(HEADS, [_row(name, of) for name, of in found.items()])
    return "\n\n".join(
        [
            "`adk-confirm serve` on SQLite. The local Slack and its people are another process. Each cell has the "
            "median; in brackets is the slowest card, or the 99th percentile of acks and starts. A cycle is a "
            "mention, a card, a click, the tool, the final card, a line in the thread and the agent's reply. CPU and "
            "calls are those of one cycle. Slack's rates are on, such as one post a second into a channel and 50 "
            "updates a minute:",
            clicks(folder, ways),
            ways,
            _methods(one),
            "From here on the rates are off, so that a thousand cards appear quickly. One thread that gets longer and "
            f"longer, one call at a time; each row is over {NEAR} of its calls in a row:",
            table(("call of the thread", "mention → card", "click → final card", "CPU"), _rows_of_growth(growth)),
            "Many clicks:",
            table(HEADS, [_row(name, of) for name, of in many.items()]),
            _against_bolt(clicked),
            goals(
                *_goals_of_cycles(one, forty, asked),
                *_goals_of_the_store(),
                _goal_of_growth(growth),
                *_goals_of_clicks(clicked, steady, burst, failing),
            ),
        ]
    )


# The scenarios


async def _one_at_a_time(folder: Path, cycles: int) -> SlackTimes:
    """The first cycle of each channel is not counted, because the channel and its people are looked up in it."""
    found = SlackTimes(cycles=cycles)
    async with office(folder, channels=KNOWN) as at:
        cpu, calls = 0.0, 0
        for cycle in range(KNOWN + cycles):
            if cycle == KNOWN:
                cpu, calls = at.cpu(), len(at.slack.calls)
            one = await _whole_way(at, [[f"o-{cycle}"]], at.channels[cycle % KNOWN :])
            if cycle >= KNOWN:
                found.add(one)
        return _with_costs(at, found, cpu, calls)


async def _at_once(folder: Path, channels: int) -> SlackTimes:
    async with office(folder, channels=channels + 1) as at:
        await _whole_way(at, [["o-0"]], at.channels[channels:])
        cpu, calls = at.cpu(), len(at.slack.calls)
        found = await _whole_way(at, [[f"o-{n}"] for n in range(1, channels + 1)], at.channels)
        found.cycles = channels
        return _with_costs(at, found, cpu, calls)


async def _asked_at_once(folder: Path, channels: int) -> SlackTimes:
    """Measures the cards only: at 50 updates a minute, this many final cards would take minutes."""
    async with office(folder, channels=channels) as at:
        orders = [[f"o-{n}"] for n in range(4 * channels)]
        return SlackTimes(cards=await ask(at, orders, at.channels * 4))


async def _in_one_thread(folder: Path, length: int) -> list[SlackTimes]:
    """One call after another in the same thread, in groups of `NEAR`. The first call is left out, since channel and
    people are looked up in it."""
    found: list[SlackTimes] = []
    async with office(folder, limits=False) as at:
        thread = await at.ann.says("@adk-confirm o-0", at.channels[0])
        for number in range(length + 1):
            if number % NEAR == 1:
                found.append(SlackTimes(cycles=NEAR, cpu=-at.cpu()))
            order, replies, said = f"o-{number}", at.watched.replies, time.time()
            if number:
                await at.ann.says(f"@adk-confirm {order}", at.channels[0], thread=thread)
            await at.cards([order], PATIENCE)
            decided = await decide(at, [order], None)
            await at.replies(replies + 1, PATIENCE)
            if found:
                found[-1].add(decided)
                found[-1].cards.append(at.watched.posted[order] - said)
                if number % NEAR == 0:
                    found[-1].cpu = ((found[-1].cpu or 0.0) + at.cpu()) / NEAR
    return found


async def _many_clicks(folder: Path, threads: int) -> tuple[SlackTimes, SlackTimes, SlackTimes]:
    """Each thread's agent asks for several calls. Then the calls are clicked, one of each thread in turn."""
    several = [[f"o-{thread * EACH + n}" for n in range(EACH)] for thread in range(2 * threads + threads // 5 + 1)]
    async with office(folder, channels=threads, limits=False) as at:
        found = []
        for begin, rate in ((0, RATE), (threads, None)):
            orders = several[begin : begin + threads]
            replies = at.watched.replies
            await ask(at, orders, at.channels)
            cpu = at.cpu()
            decided = await decide(at, in_turn(orders), rate)
            await at.replies(replies + threads, PATIENCE)
            decided.cpu = (at.cpu() - cpu) / (threads * EACH)
            found.append(decided)
        few = several[2 * threads :]
        await ask(at, few, at.channels)
        at.slack.faults.fails("chat.*", times=None)
        failing = await decide(at, in_turn(few), RATE, final=False)
        at.slack.faults.clear()
    return found[0], found[1], failing


# Their steps


def in_turn(orders: Sequence[list[str]]) -> list[str]:
    """The first of each thread, then the second of each, and so on."""
    return [order for several in zip(*orders, strict=True) for order in several]


async def _whole_way(at: Office, orders: Sequence[list[str]], channels: Sequence[Channel]) -> SlackTimes:
    replies = at.watched.replies
    cards = await ask(at, orders, channels)
    found = await decide(at, in_turn(orders), None)
    await at.replies(replies + len(orders), PATIENCE)
    found.cards = cards
    return found


async def ask(at: Office, orders: Sequence[list[str]], channels: Sequence[Channel]) -> list[float]:
    """Asks for each list of orders in a thread of its own, and waits for the cards."""
    said: dict[str, float] = {}
    for each, channel in zip(orders, channels, strict=False):
        said |= dict.fromkeys(each, time.time())
        await at.ask(each, channel)
    await at.cards(said, PATIENCE)
    return [at.watched.posted[order] - when for order, when in said.items()]


async def decide(at: Office, orders: Sequence[str], rate: float | None, *, final: bool = True) -> SlackTimes:
    """Approves each order, all at once or this many a second. Clicks again where Slack got no ack."""
    clicked: dict[str, float] = {}

    async def click(order: str, number: int) -> Delivery:
        clicked[order] = time.time()
        return await at.approve(order, number)

    start, tasks = time.time(), []
    for place, order in enumerate(orders):
        if rate is not None:
            await asyncio.sleep(max(0.0, start + place / rate - time.time()))
        tasks.append(asyncio.create_task(click(order, place)))
    made = dict(zip(orders, await asyncio.gather(*tasks), strict=True))
    refused = [order for order, delivery in made.items() if not delivery.acked]
    for order in refused:
        with suppress(NotFound):  # it counted, though its ack came too late
            await at.approve(order)
    began = await at.started(orders, PATIENCE)
    if final:
        await at.finals(orders, PATIENCE)
    return SlackTimes(
        acks=[delivery.acked_after for delivery in made.values() if delivery.acked_after is not None],
        tools=[began[order] - clicked[order] for order in orders],
        finals=[at.watched.final[order] - clicked[order] for order in orders] if final else [],
        refused=len(refused),
    )


def _with_costs(at: Office, found: SlackTimes, cpu: float, calls: int) -> SlackTimes:
    """Adds the costs. `cpu` and `calls` are what had been used before."""
    found.cpu = (at.cpu() - cpu) / found.cycles
    made = at.slack.calls[calls:]
    found.calls = Counter(one.method for one in made if one.status != 429)
    found.limited = sum(one.status == 429 for one in made)
    return found


# The texts of the document


def _row(name: str, of: SlackTimes) -> list[str]:
    cells = [_cell(of.cards, 1.0), _cell(of.acks, 0.99), _cell(of.tools, 0.99), _cell(of.finals, 1.0)]
    cpu = f"{of.cpu * 1000:.0f} ms" if of.cpu is not None else "–"
    return [name, *cells, cpu, f"{of.calls_each:.1f}" if of.cycles else "–"]


def _cell(seconds: Sequence[float], high: float) -> str:
    if not seconds:
        return "–"
    return f"{_duration(percentile(seconds, 0.5))} ({_duration(percentile(seconds, high))})"


def _duration(seconds: float) -> str:
    return f"{number(seconds)} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _rows_of_growth(growth: Sequence[SlackTimes]) -> list[list[str]]:
    shown = dict.fromkeys((0, len(growth) // 2, len(growth) - 1))
    return [
        [
            f"{place * NEAR + 2} to {place * NEAR + NEAR + 1}",
            _cell(growth[place].cards, 1.0),
            _cell(growth[place].finals, 1.0),
            f"{(growth[place].cpu or 0.0) * 1000:.0f} ms",
        ]
        for place in shown
    ]


def _methods(of: SlackTimes) -> str:
    calls = ", ".join(f"{count / of.cycles:.2f} `{method}`" for method, count in of.calls.most_common())
    return (
        f"The calls of a cycle, one at a time: {calls}. Besides, {of.limited / of.cycles:.1f} were answered with 429 "
        "and repeated: people here click within milliseconds, so that all posts of a cycle fall into one second. In "
        "the other rows the channels and people are new, and the calls include the look-ups of them."
    )


def _against_bolt(clicked: ClickFigures) -> str:
    rows = [
        [
            name,
            clicked.found.shown(name, "rate"),
            f"{clicked.found.median(name, 'cpu') * 1000:.2f} ms",
        ]
        for name in (OURS, BARE)
    ]
    return (
        "Clicks that are acknowledged over signed HTTP, over 32 connections. Ours counts each as one of two votes; the "
        f"bare Bolt app only acknowledges:\n\n{table(['', 'clicks a second', 'CPU of a click'], rows)}"
    )


def _goals_of_cycles(one: SlackTimes, forty: SlackTimes, asked: SlackTimes) -> list[Goal]:
    calls, cpu = one.calls_each, (one.cpu or 0) * 1000
    return [
        Goal("3 Slack calls a cycle", f"{calls:.1f}", calls <= 3.05, _FOUR),
        Goal("25 ms of CPU a cycle", f"{cpu:.0f} ms", cpu <= 25, _MANY),
        _within("40 at once: all cards within 5 s", forty.cards, 1.0, 5.0),
        _within("40 at once: all final cards within 2 s of the click", forty.finals, 1.0, 2.0, _FINALS),
        _within("160 asked at once: all cards within 20 s", asked.cards, 1.0, 20.0),
    ]


def _goals_of_the_store() -> list[Goal]:
    """What a test allows a cycle at most, a person who waits included (`tests/bot/test_cost.py`)."""
    allowed = json.loads(COUNTS.read_text(encoding="utf-8"))["at most"]
    return [
        Goal(
            f"in the store, {what} of a cycle: {most}",
            f"at most {allowed[f'{what} of a cycle']}",
            allowed[f"{what} of a cycle"] <= most,
            _STORE,
        )
        for what, most in (("writes", 8), ("reads", 1), ("statements", 60))
    ]


def _goal_of_growth(growth: Sequence[SlackTimes]) -> Goal:
    ratio = (growth[-1].cpu or 0.0) / (growth[0].cpu or 1.0)
    return Goal("the 100th call of a thread costs 1.2 times the CPU of the 2nd", times(ratio), ratio <= 1.2, _LONGER)


def _goals_of_clicks(clicked: ClickFigures, steady: SlackTimes, burst: SlackTimes, failing: SlackTimes) -> list[Goal]:
    ratio = clicked.found.median(OURS, "rate") / clicked.found.median(BARE, "rate")
    return [
        _within(
            "100 clicks a second: half of the tools start within 50 ms of the click", steady.tools, 0.5, 0.05, _ONE_CORE
        ),
        _within("100 clicks a second: 99 % of the tools start within 300 ms", steady.tools, 0.99, 0.3, _ONE_CORE),
        _within("100 clicks a second: the last tool starts within 5 s", steady.tools, 1.0, 5.0),
        _within("the same while every post to Slack fails", failing.tools, 1.0, 5.0),
        _within("100 clicks a second: 99 % of the acks within 100 ms", steady.acks, 0.99, 0.1, _ONE_CORE),
        _within("the burst: the last tool starts within 5 s", burst.tools, 1.0, 5.0, _ONE_CORE),
        _within("100 votes a second that decide nothing: 99 % of the acks within 100 ms", clicked.acks, 0.99, 0.1),
        Goal(
            "the burst: nothing refused, nothing left",
            f"{burst.refused} refused, all ran once",
            not burst.refused,
            "these got no ack within Slack's three seconds, and counted when they were clicked again. Going on would "
            "cost a queue in front of the store that acknowledges what is not stored yet, which breaks a promise",
        ),
        Goal("0.6 of a bare Bolt app", f"{ratio:.2f}", ratio >= 0.6, _CLICK),
    ]


def _within(wanted: str, seconds: Sequence[float], part: float, most: float, why: str = _SHARED) -> Goal:
    found = percentile(seconds, part)
    return Goal(wanted, _duration(found), found <= most, why)
