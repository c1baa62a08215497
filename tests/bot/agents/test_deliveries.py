"""Deliveries from the mailbox to the agent when something fails: what is sent again, what is not, what is unknown."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from adk_confirm.bot.agents.intake import Intake, who_asked
from adk_confirm.bot.agents.letters_to_host import Deliveries
from adk_confirm.bot.agents.session_worker import SessionWorker
from adk_confirm.bot.confirmation.confirmation import OutcomeKind, VoteKind
from adk_confirm.bot.confirmation.states import Delivery
from adk_confirm.bot.confirmation.stored_json import from_json
from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.host import CallAltered, DeliveryUnknown, RequestLost
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.store.letters import (
    Letter,
    finish_and_read_next,
    letters_done,
    read_mail,
)
from adk_confirm.bot.store.repository import note_turn, read_session
from adk_confirm.bot.store.transactions import hand_over
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import NotNow
from adk_confirm.runtime.store.lease import JobKey, LeaseLost
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, ASKER, BEN
from tests.support.foreign.ear import Ear, listening, saying
from tests.support.foreign.kept import request_about
from tests.support.foreign.visit import texts
from tests.support.office import Opens
from tests.support.outgoing import outgoing
from tests.support.stores import a_lease, change_job, try_lease
from tests.support.watched import Watched

NOBODY_THERE = 'url = "http://127.0.0.1:9"\napp = "oncall"'


@pytest.fixture
def at(back: Backoffice) -> Backoffice:
    back.policies('[[policy]]\ntools = ["*"]\napprovers = ["user:U0ANNA"]\n')
    return back


@pytest.fixture
async def host() -> AsyncIterator[AdkHost]:
    async with listening(Ear()) as ear:
        opened = ear.host()
        yield opened
        await opened.close()


@pytest.mark.parametrize(
    ("may_have_run", "became"), [(True, OutcomeKind.UNKNOWN), (False, OutcomeKind.REFUSED)], ids=["after", "before"]
)
async def test_a_session_that_is_gone_after_the_approval_was_sent_leaves_it_unknown(
    at: Backoffice, host: AdkHost, may_have_run: bool, became: OutcomeKind
) -> None:
    """That it did not run would be a guess, and people would have it done a second time."""
    name = await at.asks("deploy")
    await at.vote(name, ANNA)
    letter = await at.database.run(answer_of, at.key)
    body = from_json(Delivery, canonical(letter.body))
    await at.database.run(hand_over, name, body)
    deliveries = Deliveries(await a_lease(at.database), host)
    await deliveries.record_lost([letter], RequestLost("The session is gone.", may_have_run=may_have_run))
    outcome = (await at.row(name)).outcome
    assert outcome is not None
    assert outcome.kind is became


async def test_a_call_that_somebody_changed_is_an_alarm_and_what_was_to_be_sent_with_it_is_none(
    at: Backoffice, host: AdkHost
) -> None:
    changed, beside = await at.asks("deploy"), await at.asks("refund")
    letters = []
    for name in (changed, beside):
        await at.vote(name, ANNA)
        letters.append(await at.database.run(answer_of, at.key))
        await at.database.run(hand_over, name, from_json(Delivery, canonical(letters[-1].body)))
        await at.database.run(letters_done, at.key, letters[-1:])
    lost = CallAltered("It is another one now.", (await at.row(changed)).asked.request_id)
    await Deliveries(await a_lease(at.database), host).record_lost(letters, lost)
    alarms = {name: (await at.row(name)).outcome for name in (changed, beside)}
    assert [one.kind for one in alarms.values() if one is not None] == [OutcomeKind.REFUSED] * 2
    ledger = await at.database.read(lambda tx: tx.column("SELECT confirmation FROM bot_ledger WHERE kind = 'altered'"))
    assert ledger == [changed]


async def test_what_the_host_did_not_get_is_not_on_its_way_any_more(at: Backoffice, host: AdkHost) -> None:
    """So it may lapse, or be given again."""
    name = await at.asks("deploy")
    await at.vote(name, ANNA)
    letter = await at.database.run(answer_of, at.key)
    await at.database.run(hand_over, name, from_json(Delivery, canonical(letter.body)))
    assert (await at.row(name)).handed_at is not None
    session = await at.database.read(read_session, at.key)

    await Deliveries(await a_lease(at.database), host).record_not_reached(session, [letter])

    assert (await at.row(name)).handed_at is None


def answer_of(tx: Tx, key: str) -> Letter:
    """The first letter that is no words; the agent has heard those before it."""
    while (letters := read_mail(tx, key, alone=True).letters)[0].kind == "words":
        letters_done(tx, key, letters)
    return letters[0]


async def test_a_session_ends_with_its_last_letter_and_not_before(at: Backoffice) -> None:
    """What comes while a letter is sent is seen in the transaction that would end the session."""

    def due(tx: Tx) -> float | None:
        at_: float | None = tx.value("SELECT due_at FROM jobs WHERE kind = 'session'")
        return at_

    await at.hears("please deploy search")
    letters = (await at.database.read(read_mail, at.key, alone=True)).letters
    await at.hears("and tell me when it is done")
    for text, ended in (("and tell me when it is done", False), (None, True)):
        mail = await at.database.run(finish_and_read_next, at.key, letters, alone=True, may_end=True)
        letters = mail.letters
        assert ([one.body["text"] for one in letters], mail.ended) == ([text] if text else [], ended)
        assert (await at.database.read(due) is None) == ended


async def breaks(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def test_words_are_not_said_a_third_time_while_the_second_may_still_arrive(at: Backoffice) -> None:
    """Each time by a process that knows only what the store says."""
    await at.hears("please deploy search")
    session = await at.database.read(read_session, at.key)
    mail = await at.database.run(finish_and_read_next, at.key, (), alone=True, may_end=True)
    lease = await a_lease(at.database)
    async with listening(Ear(instead={"/run_sse": breaks})) as ear:
        for expected in (1, 2, 2):
            host = ear.host()
            sending = await Deliveries(lease, host).exchange(session, mail, ())
            assert sending is not None
            with pytest.raises(DeliveryUnknown):
                await texts(sending)
            await host.close()
            assert len(ear.at("/run_sse")) == expected
            if expected == 1:
                await at.database.run(lambda tx: tx.run("UPDATE bot_attempts SET at = at - 60"))


@pytest.mark.parametrize("word", ["words", "approved", "denied"])
async def test_what_was_noted_long_before_it_is_sent_is_noted_again(at: Backoffice, word: str) -> None:
    """A process stands still right after its note, wakes, sends and dies. Another one counts from the sending on."""
    name = await at.asks("deploy")
    row = await at.row(name)
    if word != "words":
        await at.vote(name, ANNA, VoteKind.APPROVE if word == "approved" else VoteKind.DENY)
        await at.database.run(answer_of, at.key)
    session = await at.database.read(read_session, at.key)
    lease = await a_lease(at.database)
    call: JsonObject = {"id": row.asked.call_id, "name": row.asked.tool, "args": {**row.asked.arguments}}
    asking = request_about(call, {"hint": "Approve?", "confirmed": False})
    asking["functionCall"]["id"] = row.asked.request_id
    content: JsonObject = {"role": "model", "parts": [{"functionCall": call}, asking]}
    event: JsonObject = {"id": "x1", "author": "oncall", "invocationId": "e1", "timestamp": 1, "content": content}
    event["longRunningToolIds"] = [row.asked.request_id]

    async def sends(host: AdkHost, stands_still: float) -> None:
        mail = await at.database.read(read_mail, at.key, alone=True)
        sending = await Deliveries(lease, host).exchange(session, mail, ())
        assert sending is not None
        at.clock.passes(seconds=stands_still)
        await texts(sending)

    async with listening(Ear(instead={"/run_sse": breaks})) as ear:
        path = f"/apps/{session.session.app}/users/{session.session.user_id}/sessions/{session.session.id}"
        ear.instead[path] = saying(json.dumps({"id": session.session.id, "events": [event]}))
        for seconds in (60.0, 0.0):
            host = ear.host()
            with pytest.raises((DeliveryUnknown, NotNow)):
                await sends(host, seconds)
            await host.close()
            assert len(ear.at("/run_sse")) == 1


async def test_an_agent_that_can_not_be_reached_is_tried_again_later_and_not_at_once(open_office: Opens) -> None:
    async with open_office(target=NOBODY_THERE) as office:
        await office.ann.says("@adk-confirm hello", office.deploys)
        await office.ann.finds("does not answer right now", office.deploys)
        await office.rests()

        def waits(tx: Tx) -> float:
            return float(tx.value("SELECT due_at FROM jobs WHERE kind = 'session'")) - tx.now()

        assert await office.bot.database.read(waits) > 0.5


async def test_a_worker_that_lost_the_lease_sends_nothing_to_the_agent(at: Backoffice) -> None:
    """Between the last thing that was written and the sending another replica has taken the session."""
    await at.hears("please deploy search")

    def taken(tx: Tx) -> None:
        change_job(tx, "session", lease_token="another", lease_until=tx.now() + 60)

    async def watch(when: str, what: str) -> None:
        if (when, what) == ("after", "begin_attempt"):
            await at.database.run(taken)

    async with listening(Ear()) as ear, outgoing() as out:
        host = ear.host()
        intake = Intake(out.directory, out.api, at.rules)
        session_worker = SessionWorker(host, out.api, at.database, intake, at.rules)
        lease = await try_lease(Watched(at.database, watch), JobKey("session", at.key))
        assert lease is not None
        with pytest.raises(LeaseLost):
            async with lease:
                await session_worker.attend(at.key, lease, await lease.read(session_worker.look, at.key))
        await host.close()
        assert [one.path for one in ear.asked if one.path.startswith("/run")] == []


async def asker(at: Backoffice, *turns: str) -> Person | None:
    session = await at.database.read(read_session, at.key)
    return await at.database.read(who_asked, session, turns)


async def test_what_follows_from_an_answer_was_asked_for_by_who_asked_for_the_call(at: Backoffice) -> None:
    """The server resumes under another invocation id, and Ben's words already wait in the mailbox."""
    name = await at.asks("deploy")
    await at.vote(name, ANNA)
    letter = await at.database.run(answer_of, at.key)
    await at.hears("thanks", who=BEN)
    await at.database.run(note_turn, letter.id, "the answer's invocation")
    assert await asker(at, "the answer's invocation") == ASKER
    assert await asker(at, "another invocation") is None


async def test_who_asked_is_whose_message_began_the_turn_and_nobody_else(at: Backoffice) -> None:
    """Ben speaks while nobody knows whose the request is."""
    await at.hears("deploy it")
    await at.database.run(lambda tx: letters_done(tx, at.key, read_mail(tx, at.key, alone=True).letters))
    first = await at.database.read(lambda tx: tx.value("SELECT id FROM bot_mail"))
    for turn in ("the asker's invocation", "that of the same message, sent again", "the asker's invocation"):
        await at.database.run(note_turn, first, turn)
    await at.hears("and me?", who=BEN)
    (letter,) = await at.database.read(lambda tx: read_mail(tx, at.key, alone=True).letters)
    assert await asker(at, "the asker's invocation") == ASKER
    assert await asker(at, "that of the same message, sent again") == ASKER
    assert await asker(at, "Ben's invocation") is None
    assert await asker(at, "asker") is None, "a part of a name is none"
    assert await asker(at, "", "") is None, "a server that names no turns says nothing about them"
    assert await asker(at, "an answer's invocation", "the asker's invocation") == ASKER
    await at.database.run(note_turn, letter.id, "Ben's invocation")
    assert await asker(at, "Ben's invocation") == BEN
    forged = """UPDATE bot_mail SET turn = '["another invocation"]' WHERE id = :id"""
    await at.database.run(lambda tx: tx.run(forged, id=letter.id))
    assert await asker(at, "another invocation") is None
