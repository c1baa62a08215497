"""Which messages the agent gets and how it answers: threads, direct messages, parallel and late results."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from adk_confirm.bot.app import running_bot
from adk_confirm.sandbox.people.seen import Seen
from tests.support.office import AT_ONCE, LAB, ON_POSTGRES, ONE, PAY, Office, Opens, configured

pytestmark = pytest.mark.office(ONE, target=LAB)


def said(at: Office, thread: Seen | None = None) -> list[str]:
    """What the agent answered, in the order in which it did."""
    seen = at.ann.messages(at.deploys, thread=thread)
    return [each.text.removeprefix("You said: ") for each in seen if each.text.startswith("You said: ")]


# What is heard


async def test_in_a_channel_the_agent_hears_its_name_and_nothing_else(at: Office) -> None:
    await at.ann.says("good morning", at.deploys)
    first = await at.ann.says("@adk-confirm hello", at.deploys)
    await at.sees(first, "You said: hello")
    talk = await at.bob.says("lunch?", at.deploys)
    await at.cyd.says("yes", at.deploys, thread=talk)
    await at.cyd.says("@ann you too?", at.deploys, thread=talk)
    await at.cyd.says("shall we ask @adk-confirm?", at.deploys, thread=talk)
    await at.sees(talk, "You said: shall we ask ?")
    await at.rests()
    assert said(at) == ["hello", "shall we ask ?"]


async def test_a_mention_is_handled_once_although_slack_delivers_it_several_times(at: Office) -> None:
    await at.ann.says("@adk-confirm hello", at.deploys)
    await at.ann.finds("You said: hello", at.deploys)
    await at.slack.settled()
    events = [made for made in at.slack.deliveries if made.kind == "events_api" and "hello" in str(made.body)]
    assert {made.what for made in events} >= {"app_mention", "message"}
    for made in events:
        assert (await at.slack.repeats(made)).acked
    await at.rests()
    assert said(at) == ["hello"]


async def test_alone_in_a_thread_one_need_not_name_it(at: Office) -> None:
    first = await at.ann.says("@adk-confirm hello", at.deploys)
    await at.sees(first, "You said: hello")
    await at.ann.says("and you?", at.deploys, thread=first)
    await at.sees(first, "You said: and you?")
    await at.ann.says("tell everybody", at.deploys, thread=first, also_to_channel=True)
    await at.sees(first, "You said: tell everybody")
    await at.ann.says("look at this", at.deploys, thread=first, files={"log.txt": b"boom"})
    await at.sees(first, "You said: look at this")

    await at.bob.says("I am here too", at.deploys, thread=first)
    await at.rests()
    await at.ann.says("so we talk among us", at.deploys, thread=first)
    await at.ann.says("@adk-confirm what now?", at.deploys, thread=first)
    await at.sees(first, "You said: what now?")
    assert said(at, first) == ["hello", "and you?", "tell everybody", "look at this", "what now?"]


async def test_while_a_card_waits_people_talk_about_it_among_themselves(at: Office) -> None:
    card = await at.ask(PAY)
    await at.oscar.says("is that too much?", at.deploys, thread=card)
    await at.slack.settled()  # Slack delivers two messages at once, in any order
    await at.ann.says("I hope not", at.deploys, thread=card)
    await at.ann.says("@adk-confirm is it?", at.deploys, thread=card)
    await at.sees(card, "You said: is it?")
    await at.bob.clicks(card, "Approve")
    await at.sees(card, 'pay: {"did":"pay"}')
    await at.rests()

    await at.ann.says("@adk-confirm thank you", at.deploys, thread=card)
    await at.sees(card, "You said: thank you")
    assert said(at, card) == ["is it?", "thank you"]


async def test_what_is_changed_deleted_or_said_by_bots_is_not_heard(at: Office) -> None:
    first = await at.ann.says("@adk-confirm hello", at.deploys)
    await at.sees(first, "You said: hello")
    await at.ann.edits(first, "@adk-confirm goodbye")
    second = await at.ann.says("never mind", at.deploys, thread=first)
    await at.sees(first, "You said: never mind")
    await at.ann.deletes(second)
    robot = at.slack.person("robot", is_bot=True)
    at.slack.workspace.directory.set_members(at.deploys.id, add=(robot.id,))
    at.slack.workspace.messages.post(
        at.deploys, robot.id, text=f"<@{at.slack.install.bot_user_id}> beep", by=at.slack.install
    )
    await at.rests()
    assert said(at) == ["hello", "never mind"]


async def test_a_direct_message_opens_a_thread_of_its_own(at: Office) -> None:
    first = await at.ann.says("hello")
    answer = await at.ann.finds("You said: hello")
    assert answer.thread == first.ts
    await at.ann.says("and?", thread=first)
    assert (await at.ann.finds("You said: and?")).thread == first.ts
    second = await at.ann.says("something else")
    assert (await at.ann.finds("You said: something else")).thread == second.ts


async def test_words_reach_the_agent_as_they_were_meant(at: Office) -> None:
    await at.ann.says("@adk-confirm is 1 < 2 && 3 > 2?", at.deploys)
    await at.ann.finds("You said: is 1 < 2 && 3 > 2?", at.deploys)


# Parallel and late


async def test_calls_of_one_turn_are_decided_each_for_itself_and_answered_together(at: Office) -> None:
    first = await at.ann.says(
        f'@adk-confirm {PAY}\nnote {{"text": "by itself"}}\npay {{"to": "Bea", "amount": 30}}', at.deploys
    )
    ada = await at.sees(first, "to Ada")
    bea = await at.sees(first, "to Bea")
    assert [line["tool"] for line in at.ran()] == ["note"]

    await asyncio.gather(at.bob.clicks(ada, "Approve"), at.cyd.clicks(bea, "Deny…"))
    await (await at.cyd.gets_modal("Deny")).submits({"Reason": "too dear"})

    answer = await at.sees(first, "too dear")
    await at.rests()
    answers = [seen.text for seen in at.ann.messages(at.deploys, thread=first) if 'note: {"did":"note"}' in seen]
    (whole,) = answers
    assert 'pay: {"did":"pay"}' in whole
    assert '"reason":"too dear"' in whole
    assert answer is not None
    assert [line.get("to") for line in at.ran()] == [None, "Ada"]


async def test_a_tool_that_asks_twice_gets_a_card_for_each_question(at: Office) -> None:
    price = await at.ask('agree {"terms": "the lease"}')
    assert "A price for the lease?" in price
    await at.bob.clicks(price, "Approve")
    await (await at.bob.gets_modal("Approve")).submits({"price": "8"})

    date = await at.sees(price, "A date for the lease?")
    assert date.ts != price.ts
    await at.cyd.clicks(date, "Approve")
    await (await at.cyd.gets_modal("Approve")).submits({"date": "friday"})

    await at.sees(price, 'agree: {"did":"agree"}')
    assert [(line["price"], line["date"]) for line in at.ran()] == [(8, "friday")]
    await at.rests()
    assert at.ann.now(price).buttons == ("All details", "History")
    assert at.ann.now(date).buttons == ("All details", "History")


# What goes wrong in the agent


async def test_a_model_that_fails_is_a_sentence_and_the_session_goes_on(
    open_office: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adk_confirm.bot.inbound.events.HINT_AFTER", 0.1)  # a bot that stops waits for it
    async with open_office(ONE, target=LAB) as at:
        first = await at.ann.says("@adk-confirm fail The quota is used up.", at.deploys)
        reply = await at.sees(first, "The quota is used up.")
        assert "Traceback" not in reply
        await at.ann.says("@adk-confirm hello", at.deploys, thread=first)
        await at.sees(first, "You said: hello")


async def test_a_tool_that_fails_says_so_on_its_card_and_to_the_agent(at: Office) -> None:
    card = await at.ask('breaks {"why": "the safe is jammed"}')
    await at.bob.clicks(card, "Approve")
    failed = await at.sees(card, "Failed: Breaks")
    assert "the safe is jammed" in failed
    assert failed.buttons == ("All details", "History", "Ask again")
    assert "It may be half done" in failed
    await at.sees(card, 'breaks: {"error":"RuntimeError: the safe is jammed"}')


async def test_a_long_reply_comes_whole_and_in_its_order(at: Office) -> None:
    first = await at.ann.says("@adk-confirm repeat 4000 w", at.deploys)
    await at.sees(first, "w3999")
    await at.rests()
    parts = [seen for seen in at.ann.messages(at.deploys, thread=first) if seen.author == "adk-confirm"]
    assert len(parts) > 1
    assert " ".join(part.text for part in parts).split() == [f"w{n}" for n in range(4000)]


# Socket Mode and replicas


@pytest.mark.office(ONE, target=LAB, socket=True)
async def test_a_socket_that_is_refreshed_comes_back_and_what_it_lost_counts_once(at: Office) -> None:
    card = await at.ask(PAY)
    before = list(at.slack.socket.connections)
    await at.slack.socket.refresh()
    await at.slack.until(lambda: set(at.slack.socket.connections) - set(before), what="a fresh connection")
    while not (made := await at.bob.clicks(card, "Approve")).acked:
        number = at.slack.workspace.changes.number  # Slack told bob that it did not work: he clicks again
        await at.slack.workspace.changes.after(number)
    await at.slack.repeats(made)
    await at.sees(card, 'pay: {"did":"pay"}')
    await at.rests()
    assert at.ann.sees(at.deploys).count(". Approved by bob") == 1
    assert len(at.ran()) == 1


@ON_POSTGRES
@pytest.mark.slow
async def test_two_replicas_share_the_work_and_do_nothing_twice(open_office: Opens, database_url: str) -> None:
    async with open_office(ONE, target=LAB) as at, AsyncExitStack() as stack:
        settings = configured(at.slack, database_url, ONE, target=LAB)
        second = await stack.enter_async_context(running_bot(settings, clock=at.slack.clock.now, limits=AT_ONCE))
        doors = [f"{at.bot.url}/slack/events", f"{second.url}/slack/events"]

        async def through(door: int, person: int, n: int) -> Seen:
            at.slack.sends_to(doors[door])
            asker = (at.ann, at.cyd)[person]
            return await asker.says(f'@adk-confirm pay {{"to": "p{n}", "amount": {n}}}', at.deploys)

        threads = [await through(n % 2, n // 2 % 2, n) for n in range(1, 9)]
        cards = await asyncio.gather(*(at.ann.finds("Approve", at.deploys, thread=thread) for thread in threads))
        for number, card in enumerate(cards):
            at.slack.sends_to(doors[number % 2])
            made = await at.bob.clicks(card, "Approve")
            at.slack.sends_to(doors[1 - number % 2])
            await at.slack.repeats(made)

        for thread in threads:
            await at.sees(thread, "Done: Pay", 'pay: {"did":"pay"}')
        await at.rests()
        for thread in threads:
            seen = at.ann.sees(at.deploys, thread=thread)
            for line in (". Approved by bob.", 'pay: {"did":"pay"}'):
                assert seen.count(line) == 1, seen
        assert sorted(str(line["to"]) for line in at.ran()) == [f"p{n}" for n in range(1, 9)]
