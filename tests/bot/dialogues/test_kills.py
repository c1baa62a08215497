"""The bot is killed with SIGKILL at every step of a call and of a reply, and started again: nothing is missing, and
nothing happens twice.

One live card, one run (or an outcome that people are asked about), each line of the thread once and in its order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.faults import Fault
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.office import IN_CI_ON_BOTH, POLICY, Staff, operates
from tests.support.serving import ANY, Serving, serving
from tests.support.waiting import until

PAY = '@adk-confirm pay {"to": "Ada", "amount": 20}'
PAY_AT_LENGTH = f"{PAY}\nat length"
"""Its reply is too long to stand in one message with the line of the decision."""
STORY = ". Approved by bob."
ANSWER = 'pay: {"did":"pay"}'
DEAD_LETTERS = 61  # seconds after which Slack tells again what was not acknowledged
PATIENCE = 30.0


pytestmark = [pytest.mark.slow, IN_CI_ON_BOTH]


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Staff]:
    async with FakeSlack(our_app()) as slack:
        yield Staff.of(slack, tmp_path / "tools.log")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The model and the tools wait until it is there."""
    return tmp_path / "gate"


@pytest.fixture
async def bot(at: Staff, database_url: str, tmp_path: Path) -> AsyncIterator[Serving]:
    async with serving(at.slack, database_url, tmp_path, POLICY) as serves:
        yield serves


async def presses(at: Staff, button: str) -> None:
    """bob presses it on the card as soon as it is there, and again if Slack tells him that it did not work."""
    while True:
        number = at.slack.workspace.changes.number
        for card in at.cards():
            if button in card.buttons and (await at.bob.clicks(card, button, sure=True)).acked:
                return
        await at.slack.workspace.changes.after(number)


@contextmanager
def somebody(at: Staff, button: str) -> Iterator[None]:
    pressing = asyncio.create_task(presses(at, button))
    try:
        yield
    finally:
        pressing.cancel()


async def killed_and_started_again(at: Staff, bot: Serving) -> None:
    await bot.killed()
    at.slack.faults.clear()
    await bot.starts()
    at.slack.clock.advance(DEAD_LETTERS)


async def is_posted(at: Staff) -> None:
    for words in (STORY, ANSWER, "Done: Pay"):
        await at.ann.finds(words, at.deploys)


async def is_posted_whole_and_once(at: Staff) -> None:
    await is_posted(at)
    await at.slack.settled()
    seen = at.ann.sees(at.deploys)
    assert [seen.count(line) for line in (STORY, ANSWER)] == [1, 1], seen
    assert seen.index(STORY) < seen.index(ANSWER), seen
    (card,) = at.cards()
    assert card.buttons == ("All details", "History")
    assert [line["tool"] for line in at.ran()] == ["pay"]


# After a transaction, and before anything that would follow


@pytest.mark.every_case
@pytest.mark.parametrize("nth", range(1, 19))
async def test_killed_after_any_transaction(at: Staff, bot: Serving, nth: int) -> None:
    """All of them in turn, whatever they are; where the tool had been begun, people are asked."""
    await bot.starts(ANY, nth)
    with somebody(at, "Approve"), somebody(at, "Run again…"):
        await at.ann.says(PAY, at.deploys)
        stopped = asyncio.create_task(bot.reached())
        shown = asyncio.create_task(is_posted(at))
        await asyncio.wait({stopped, shown}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        await asyncio.wait({stopped})  # until then it reads the output, which has one reader
        await killed_and_started_again(at, bot)  # where it stands still, or at its end if it had fewer
        await shown
        await is_posted_whole_and_once(at)


@pytest.mark.every_case
async def test_what_could_not_begin_in_time_does_not_begin_because_a_server_came_back(at: Staff, bot: Serving) -> None:
    await bot.starts("count_next")
    card = await at.ask('pay {"to": "Ada", "amount": 20}')
    await at.bob.clicks(card, "Approve")
    await bot.reached()
    await bot.killed()

    at.slack.clock.advance(3 * 3600)
    await bot.starts(hours_later=3)

    await at.sees(
        card,
        "Not started in time: Pay",
        "not started in time: Pay: Ada, amount 20. Approved by bob.",
        "did not start within 1h",
    )
    assert at.ran() == []


# While the agent says what a call would do


@pytest.fixture
async def previewing(
    at: Staff, database_url: str, tmp_path: Path, gate: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Serving]:
    """The gate is open. A bot reached over HTTP, or in Socket Mode."""
    gate.touch()
    socket, env = request.param == "socket", {"LAB_GATE": str(gate)}
    async with serving(at.slack, database_url, tmp_path, POLICY, env=env, socket=socket) as serves:
        await serves.starts()
        yield serves


OVER_BOTH = pytest.mark.parametrize("previewing", ["http", "socket"], indirect=True)


async def dies_in_a_preview(at: Staff, bot: Serving, gate: Path, seen: Path) -> None:
    await bot.until(a_file(seen))
    await bot.killed()
    gate.touch()
    await bot.starts()
    at.slack.clock.advance(DEAD_LETTERS)


@OVER_BOTH
async def test_killed_between_an_edit_and_what_the_edited_call_would_do(
    at: Staff, previewing: Serving, gate: Path, tmp_path: Path
) -> None:
    card = await at.ask('migrate {"table": "users"}')
    gate.unlink()
    await at.edits(at.bob, card, table="slow")
    await dies_in_a_preview(at, previewing, gate, tmp_path / "plans")
    await at.sees(card, "drops slow.old")
    assert at.ran() == []
    await at.bob.clicks(at.bob.now(card), "Approve")
    await at.sees(card, ", done")
    assert [line["table"] for line in at.ran()] == ["slow"]


@OVER_BOTH
async def test_killed_between_the_preview_before_the_start_and_the_start(
    at: Staff, previewing: Serving, gate: Path, tmp_path: Path
) -> None:
    card = await at.ask('migrate {"table": "slow"}')
    (tmp_path / "plans").unlink()
    gate.unlink()
    await at.bob.clicks(card, "Approve")
    await dies_in_a_preview(at, previewing, gate, tmp_path / "plans")
    await at.sees(card, ", done")
    assert [line["table"] for line in at.ran()] == ["slow"]
    assert len(at.cards()) == 1


# While Slack has something of ours


def a_card(args: JsonObject) -> bool:
    return "adk_confirmation_card" in str(args.get("metadata"))


def a_line(args: JsonObject) -> bool:
    return "adk_confirmation_line" in str(args.get("metadata"))


def words(args: JsonObject) -> bool:
    return "adk_confirmation_said" in str(args.get("metadata"))


@pytest.mark.parametrize("acted", [True, False], ids=["done", "not-done"])
@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("conversations.info", None),
        ("chat.postMessage", a_card),
        ("chat.postMessage", a_line),
        ("chat.postMessage", words),
        ("chat.update", a_card),
        ("users.info", None),
        ("usergroups.users.list", None),
    ],
)  # fmt: skip
async def test_killed_while_slack_answers(at: Staff, bot: Serving, method: str, what: object, acted: bool) -> None:
    where = what if callable(what) else None
    await bot.starts()
    hang: Fault = at.slack.faults.hangs(method, acted=acted, where=where)
    with somebody(at, "Approve"):
        await at.ann.says(PAY_AT_LENGTH if what is a_line else PAY, at.deploys)
        await bot.until(hang.reached())
        await killed_and_started_again(at, bot)
        await is_posted_whole_and_once(at)


# Inside the agent


async def test_killed_while_the_model_thinks(at: Staff, bot: Serving, tmp_path: Path) -> None:
    await bot.starts()
    said = await at.ann.says("@adk-confirm think hard", at.deploys)
    await bot.until(a_file(tmp_path / "thinks"))
    await bot.killed()
    (tmp_path / "gate").touch()

    await bot.starts()

    await at.sees(said, "You said: think hard")
    await at.ann.says("@adk-confirm and now?", at.deploys, thread=said)
    await at.sees(said, "You said: and now?")
    assert at.ann.sees(at.deploys, thread=said).count("You said: think hard") == 1


async def test_killed_right_after_a_stop_the_run_stays_stopped(at: Staff, bot: Serving, tmp_path: Path) -> None:
    await bot.starts(stops_after="stop_run")
    said = await at.ann.says("@adk-confirm think hard", at.deploys)
    await bot.until(a_file(tmp_path / "thinks"))
    await at.slack.until(lambda: said.ts in at.deploys.sessions or None, what="the stop button")
    at.ann.stops(at.deploys, said)
    await bot.reached()
    await bot.killed()
    (tmp_path / "thinks").unlink()

    await bot.starts()

    await at.sees(said, "ann stopped the agent.")
    await at.ann.says("@adk-confirm and now?", at.deploys, thread=said)
    await at.sees(said, "You said: and now?")
    assert at.ann.sees(at.deploys, thread=said).count("stopped the agent") == 1
    assert "You said: think hard" not in at.ann.sees(at.deploys, thread=said)
    assert not (tmp_path / "thinks").exists()


async def killed_in_the_tool(at: Staff, bot: Serving, tool: str) -> Seen:
    """The card that is there then."""
    await bot.starts()
    card = await at.ask(f'{tool} {{"on": "the roof"}}')
    await at.bob.clicks(card, "Approve")
    await at.sees(card, f"Running: {tool.capitalize()}")
    assert [line["tool"] for line in at.ran()] == ["begins"]
    await bot.killed()
    await bot.starts()
    return card


async def test_what_slack_does_after_all_for_the_dead_does_not_stay(at: Staff, bot: Serving) -> None:
    await bot.starts()
    card = await at.ask('work {"on": "the roof"}')
    hang: Fault = at.slack.faults.hangs("chat.update", where=a_card)
    await at.bob.clicks(card, "Approve")
    await bot.until(hang.reached())
    await bot.killed()
    await bot.starts()
    await at.bob.finds("Did this take effect? Work", at.deploys)

    hang.release()

    await at.bob.finds("Running: Work", at.deploys)
    await at.slack.until(lambda: "Did this take effect? Work" in at.bob.now(card), timeout=60, what="the question")


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("word", "sentence"),
    [("Yes, it did", "It took effect: people looked"), ("No, it didn't", "It did not take effect: people looked")],
)
async def test_killed_in_the_tool_people_say_what_became_of_it(
    at: Staff, bot: Serving, word: str, sentence: str
) -> None:
    await killed_in_the_tool(at, bot, "work")
    asks = await at.bob.finds("Did this take effect? Work", at.deploys)
    assert asks.buttons == ("All details", "History", "Yes, it did", "No, it didn't", "Run again…")
    await at.oscar.clicks(asks, word, sure=True)
    await at.oscar.gets_modal("you are not an approver")

    await at.bob.clicks(asks, word, sure=True)

    await at.ann.finds("effect: Work", at.deploys)
    await at.ann.finds(sentence, at.deploys)
    (card,) = at.cards()
    assert card.buttons == ("All details", "History")
    assert at.ann.sees(at.deploys).count("did this take effect?") == 1
    assert [line["tool"] for line in at.ran()] == ["begins"]


@pytest.mark.every_case
async def test_killed_in_the_tool_people_are_asked_though_runs_are_paused(
    at: Staff, bot: Serving, database_url: str, tmp_path: Path
) -> None:
    """What ran may have taken effect, whoever paused what. Nothing else begins before somebody says `resume`."""
    await bot.starts()
    works, redoes = await at.ask('work {"on": "the roof"}'), await at.ask('redo {"on": "the floor"}')
    waits = await at.ask(PAY.removeprefix("@adk-confirm "))
    for card, tool in ((works, "Work"), (redoes, "Redo")):
        await at.bob.clicks(card, "Approve")
        await at.sees(card, f"Running: {tool}")
    await bot.killed()
    await operates(at, database_url, "pause", "--reason", "an older copy")
    (tmp_path / "gate").touch()
    await bot.starts()

    asks = await at.ann.finds("Did this take effect? Work", at.deploys, thread=works)
    await at.bob.clicks(waits, "Approve")
    await at.ann.finds("Paused: Pay", at.deploys, thread=waits)
    await at.bob.clicks(asks, "Yes, it did", sure=True)
    await at.ann.finds("Took effect: Work", at.deploys, thread=works)
    assert [line["tool"] for line in at.ran()] == ["begins", "begins"]
    assert "Running: Redo" in at.bob.now(redoes).text

    await operates(at, database_url, "resume")

    await at.sees(redoes, "Done: Redo")
    await at.sees(waits, "Done: Pay")
    await at.ann.finds("It took effect: people looked", at.deploys, thread=works)
    assert sorted(str(line["tool"]) for line in at.ran()) == ["begins", "begins", "begins", "pay", "redo"]


async def test_killed_in_the_tool_people_have_it_run_again(at: Staff, bot: Serving, tmp_path: Path) -> None:
    await killed_in_the_tool(at, bot, "work")
    (tmp_path / "gate").touch()
    asks = await at.bob.finds("Did this take effect? Work", at.deploys)

    await at.cyd.clicks(asks, "Run again…", sure=True)

    await at.ann.finds("Done: Work", at.deploys)
    await at.ann.finds('work: {"did":"work"}', at.deploys)
    (card,) = at.cards()
    assert card.buttons == ("All details", "History")
    await at.ann.finds("done in a second run: Work the roof. Approved by cyd", at.deploys)
    assert [line["tool"] for line in at.ran()] == ["begins", "begins", "work"]


async def test_killed_in_a_tool_that_may_run_again_it_runs_again(at: Staff, bot: Serving, tmp_path: Path) -> None:
    (tmp_path / "gate").unlink(missing_ok=True)
    await killed_in_the_tool(at, bot, "redo")
    (tmp_path / "gate").touch()

    await at.ann.finds("Done: Redo", at.deploys)
    await at.ann.finds('redo: {"did":"redo"}', at.deploys)
    assert "Did this take effect? Redo" not in at.ann.sees(at.deploys)
    assert [line["tool"] for line in at.ran()] == ["begins", "begins", "redo"]


async def a_file(path: Path) -> None:
    await until(path.exists)


# In the middle of a reply


def whole(args: JsonObject) -> bool:
    """The reply, to take the place of what was seen of it."""
    return "and ends." in str(args.get("blocks"))


@pytest.mark.parametrize(
    "where", ["it grows", "chat.stopStream", "chat.stopStream done", "chat.update", "chat.update done"]
)
async def test_a_reply_is_there_whole_and_once(at: Staff, bot: Serving, gate: Path, where: str) -> None:
    """Wherever the process dies: what was seen of it by then does not look like the reply."""
    await bot.starts()
    said = await at.ann.says("@adk-confirm speak", at.deploys)
    await at.ann.finds("It goes on,", at.deploys, thread=said, timeout=PATIENCE)
    if where.startswith("chat."):
        method, _, acted = where.partition(" ")
        hang = at.slack.faults.hangs(method, acted=bool(acted), where=whole if method == "chat.update" else None)
        gate.touch()
        await bot.until(hang.reached())
    await killed_and_started_again(at, bot)
    gate.touch()

    reply = await at.ann.finds("and ends.", at.deploys, thread=said, timeout=PATIENCE)
    await at.slack.until(lambda: halves(at, said) == [] or None, timeout=PATIENCE)
    await at.ann.says("@adk-confirm is that all?", at.deploys, thread=said)
    await at.ann.finds("You said: is that all?", at.deploys, thread=said, timeout=PATIENCE)
    assert [seen.ts for seen in at.ann.messages(at.deploys, thread=said) if "and ends." in seen] == [reply.ts]
    assert halves(at, said) == []


async def test_killed_after_the_run_and_before_slack_has_named_what_is_seen_of_it(
    at: Staff, bot: Serving, gate: Path
) -> None:
    await bot.starts("open_and_finish")
    hang = at.slack.faults.hangs("chat.startStream", acted=True)
    said = await at.ann.says("@adk-confirm speak", at.deploys)
    await bot.until(hang.reached())
    assert halves(at, said)
    gate.touch()
    await bot.reached()
    await killed_and_started_again(at, bot)

    await at.ann.finds("and ends.", at.deploys, thread=said, timeout=PATIENCE)
    await at.slack.until(lambda: halves(at, said) == [], timeout=PATIENCE)


def halves(at: Staff, thread: Seen) -> list[Seen]:
    """What looks like a reply, and is none, or is still being written."""
    seen = [one for one in at.ann.messages(at.deploys, thread=thread) if one.author == "adk-confirm"]
    return [one for one in seen if one.message.streaming_since is not None or ("It " in one and "ends." not in one)]
