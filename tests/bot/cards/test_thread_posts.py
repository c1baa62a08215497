"""The thread: ledger lines in order and once, and the agent's messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from adk_confirm.bot.hosts.host import AgentMessage
from adk_confirm.bot.slack.calls import CallLimits
from adk_confirm.bot.slack.troubles import Later, SlackTrouble, Unsure
from adk_confirm.bot.store.outbox import copies_until
from tests.support.deciding import ANNA, BEN, make_policy, without_content
from tests.support.outgoing import Outgoing, outgoing


@pytest.fixture
async def out(request: pytest.FixtureRequest) -> AsyncIterator[Outgoing]:
    quick = "hang" in request.node.name or "late" in request.node.name
    async with outgoing(CallLimits(time_limit=1.0 if quick else 10.0)) as ready:
        ready.open(make_policy(quorum=2, remind_after="10m"))
        yield ready


async def post(out: Outgoing, tries: int = 4) -> int:
    """As the thread's worker does: posts the lines that are due, and stores how far it got."""
    for _ in range(tries):
        owed = [line for line in out.lines() if line.seq > out.session.told_seq]
        try:
            doubt = await out.database.read(copies_until, out.session.key)
            posted_to = await out.writer.post_lines(out.lease, out.session, owed, [out.desk.row], doubt)
        except SlackTrouble as trouble:
            out.slack.clock.advance(trouble.after if isinstance(trouble, Later) else 1)
            continue
        out.session = replace(out.session, told_seq=posted_to)
        if posted_to == out.lines()[-1].seq:
            return posted_to
    raise AssertionError("The lines could not be posted.")


async def test_a_story_too_long_for_a_message_goes_on_where_it_broke_off(out: Outgoing) -> None:
    out.open(make_policy(quorum=3))
    for _ in range(24):
        out.desk.approve(BEN)
        out.desk.edit(ANNA, replicas=len(out.desk.steps))  # each edit undoes an approval
    out.slack.faults.cuts("chat.postMessage", times=1, where=lambda args: f'"told_seq": {last(out)}' in marks(args))

    await post(out)

    text = "\n".join(out.posted()).split("\n")
    assert len(out.posted()) == 2
    fell = "↘️ @ben, decide again: anna edited Deploy: "
    assert [line.startswith(fell) for line in text] == [True] * 24
    assert len(out.slack.calls_of("chat.postMessage")) == 3


def last(out: Outgoing) -> int:
    return out.lines()[-1].seq


def marks(args: object) -> str:
    return str(args).replace("'", '"')


async def test_a_purged_line_and_one_that_is_no_story_are_passed_over(out: Outgoing) -> None:
    lines = [without_content(line) for line in out.lines()]
    assert await out.writer.post_lines(out.lease, out.session, lines, [out.desk.row]) == 1
    assert out.posted() == []


# The agent's words


def said(text: str, event: str = "e1", **more: object) -> AgentMessage:
    return AgentMessage(event=event, author="oncall", text=text, **more)  # type: ignore[arg-type]  # fields of Said


async def test_nobody_is_pinged_by_what_a_model_wrote(out: Outgoing) -> None:
    await out.writer.say(
        out.lease, out.session, said("<!channel> <@U0ANNA> <!subteam^S0ONCALL> <#C0DEPLOYS> if a <!b then")
    )
    (text,) = out.posted()
    assert text == "‹!channel> ‹@U0ANNA> ‹!subteam^S0ONCALL> ‹#C0DEPLOYS> if a <!b then"


async def test_a_long_reply_comes_in_parts_and_goes_on_after_a_lost_answer(out: Outgoing) -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "word " * 300 for n in range(20))
    out.slack.faults.cuts("chat.postMessage", acted=True, where=lambda args: "Paragraph 10." in str(args))
    with pytest.raises(Unsure):
        await out.writer.say(out.lease, out.session, said(text))
    doubt = await out.database.read(copies_until, out.session.key)
    await out.writer.say(out.lease, out.session, said(text), doubt=doubt)
    assert "\n".join(out.posted()).count("Paragraph") == 20
    assert len(out.posted()) == 3


async def test_the_reply_is_put_into_the_message_that_grew_or_posted_anew(out: Outgoing) -> None:
    async def grew(text: str) -> str:
        client = out.api.client
        started = await client.chat_startStream(
            channel=out.deploys.id,
            thread_ts=out.thread.ts,
            markdown_text=text,
            recipient_team_id=out.session.team,
            recipient_user_id=out.asker.id,
        )
        return str(started["ts"])

    kept, refused = await grew("Hel"), await grew("By")
    for doubt in (None, out.slack.clock.now()):  # and after a crash, the same again
        await out.writer.say(out.lease, out.session, said("Hello."), into=kept, doubt=doubt)
    assert await out.database.read(copies_until, out.session.key) is None
    out.slack.faults.refuses("chat.update", "edit_window_closed")
    for doubt in (None, out.slack.clock.now()):
        await out.writer.say(out.lease, out.session, said("Bye.", "e2"), into=refused, doubt=doubt)
    assert out.posted() == ["Hello.", "By", "Bye."]

    assert await out.database.read(copies_until, out.session.key) is not None
    out.slack.clock.advance(10)
    await out.writer.delete_copies(out.lease, out.session, out.slack.clock.now())
    assert out.posted() == ["Hello.", "Bye."]


async def test_lines_that_another_process_posted_too_are_deleted(out: Outgoing) -> None:
    out.desk.deny(ANNA)
    for _ in range(2):
        await out.writer.post_lines(out.lease, out.session, out.lines(), [out.desk.row])
    assert len(out.posted()) == 2

    await out.writer.delete_copies(out.lease, out.session, 0.0)
    assert [line.partition(": ")[0] for line in out.posted()] == ["🚫 @dana, denied by anna"]


async def test_lines_that_a_later_message_tells_again_are_deleted(out: Outgoing) -> None:
    """Slack shows the first message only when it is posted again, by then with one line more."""
    out.desk.approve(BEN)
    out.desk.edit(ANNA, replicas=2)  # which undoes the approval
    first = out.lines()
    out.desk.deny(BEN)
    for lines in (first, out.lines()):
        await out.writer.post_lines(out.lease, out.session, lines, [out.desk.row])
    assert len(out.posted()) == 2

    await out.writer.delete_copies(out.lease, out.session, 0.0)
    (told,) = out.posted()
    assert told.count("edited") == told.count("denied by") == 1, told


async def test_a_message_stays_if_what_tells_its_line_again_is_deleted(out: Outgoing) -> None:
    """Slack shows last the message whose lines were posted in two meanwhile."""
    out.desk.approve(BEN)
    out.desk.edit(ANNA, replicas=2)
    first = out.lines()
    out.desk.deny(BEN)
    both = out.lines()
    for lines in (first, both[len(first) :], both):
        await out.writer.post_lines(out.lease, out.session, lines, [out.desk.row])
    assert len(out.posted()) == 3

    await out.writer.delete_copies(out.lease, out.session, 0.0)
    edited, denied = out.posted()
    assert "edited" in edited
    assert "denied by" in denied
