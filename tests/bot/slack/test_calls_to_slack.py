"""Calls to Slack: within rate limits and time limits, never twice by accident, and without secrets in the log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.blocks.click_ids import PointerMark, SaidMark, identity
from adk_confirm.blocks.kit import Message
from adk_confirm.blocks.notices import notice_message, notice_modal
from adk_confirm.bot.confirmation.confirmation import Seat
from adk_confirm.bot.slack.calls import CallLimits, Slack
from adk_confirm.bot.slack.troubles import Gone, Later, NoAnswer, RefusedBySlack, Revoked, SlackTrouble, Unsure
from tests.support.deciding import person
from tests.support.outgoing import Outgoing, outgoing
from tests.support.stores import a_lease

PLAIN = Message("hello", ())
MARKED = Message("hello", (), SaidMark("s", "e1", 0).metadata())


@pytest.fixture
async def out(request: pytest.FixtureRequest) -> AsyncIterator[Outgoing]:
    quick = "hang" in request.node.name or "late" in request.node.name
    async with outgoing(CallLimits(time_limit=1.0 if quick else 10.0)) as ready:
        yield ready


async def post(out: Outgoing, message: Message = PLAIN, **more: object) -> str:
    return await out.api.post(out.deploys.id, message, **more)  # type: ignore[arg-type]  # its keywords


def said(out: Outgoing) -> list[str]:
    return [one.text for one in out.ann.messages(out.deploys) if one.author == "adk-confirm"]


# Errors

POST = "chat.postMessage"
TOKEN = "Slack does not accept the app's token"


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        ("channel_not_found", Gone, "The app can't see this channel. Invite it there with /invite."),
        ("not_in_channel", Gone, "The app is not in this channel. Invite it there with /invite."),
        ("is_archived", Gone, "This channel is archived. Unarchive it, or name another one in the policy."),
        ("token_revoked", Revoked, f"{TOKEN} (token_revoked). Install the app again and take its new token."),
        ("invalid_auth", Revoked, f"{TOKEN} (invalid_auth). Install the app again and take its new token."),
        ("account_inactive", Revoked, f"{TOKEN} (account_inactive). Install the app again and take its new token."),
        ("service_unavailable", Later, f"Slack accepts no {POST} now (service_unavailable). Trying again in 10 s."),
        ("internal_error", Unsure, f"Slack's answer to {POST} was lost (internal_error): it may have been done."),
        ("no_such_thing", RefusedBySlack, "Slack does not take chat.postMessage: no_such_thing."),
    ],
)  # fmt: skip
async def test_what_slack_says_becomes_what_to_do(
    out: Outgoing, code: str, kind: type[SlackTrouble], sentence: str
) -> None:
    out.slack.faults.refuses("chat.postMessage", code)
    with pytest.raises(kind) as raised:
        await post(out)
    assert str(raised.value) == sentence
    assert raised.value.code == code


async def test_a_failure_without_a_word_may_have_been_done_anyway(out: Outgoing) -> None:
    out.slack.faults.fails(POST, status=503)
    with pytest.raises(Unsure, match=r"was lost \(status 503\): it may have been done"):
        await post(out)


@pytest.mark.parametrize(("status", "kind"), [(503, Later), (504, NoAnswer)])
async def test_what_a_gateway_no_longer_waited_for_may_still_be_done(
    out: Outgoing, status: int, kind: type[SlackTrouble]
) -> None:
    ts = await post(out)
    out.slack.faults.fails("chat.update", status=status)
    with pytest.raises(Later) as raised:
        await out.api.update(out.deploys.id, ts, Message("changed", ()))
    assert type(raised.value) is kind


async def test_a_scope_that_is_missing_is_named(out: Outgoing) -> None:
    out.slack.install.scopes -= {"im:write"}
    with pytest.raises(
        RefusedBySlack, match=r"lacks a scope for conversations\.open \(im:write\)\. Add it and install"
    ):
        await out.api.open_dm(out.ann.id)


async def test_slack_that_can_not_be_reached_is_tried_again_later_and_nothing_was_posted() -> None:
    async with outgoing() as out:
        out.api.client.base_url = "http://127.0.0.1:1/api/"
        with pytest.raises(Later, match="could not connect"):
            await post(out)


@pytest.mark.parametrize(
    ("given", "at", "after"),
    [
        ("7", None, 7),
        ("0", None, 1),  # a proxy that asks for no pause gets no burst
        ("Wed, 21 Oct 2015 07:28:40 GMT", "Wed, 21 Oct 2015 07:28:00 GMT", 40),
        ("Wed, 21 Oct 2015 07:27:00 GMT", "Wed, 21 Oct 2015 07:28:00 GMT", 1),
        ("Wed, 21 Oct 2099 07:28:00 GMT", None, 3600),
        ("soon", None, 30),
    ],
)
async def test_when_to_come_back_is_given_in_seconds_or_as_a_date(given: str, at: str | None, after: int) -> None:
    """Slack gives seconds, and writes the header's name in small letters. A proxy in front of it may give a date."""

    async def limited(_: web.Request) -> web.Response:
        headers = {"retry-after": given} if at is None else {"retry-after": given, "date": at}
        return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)

    proxy = web.Application()
    proxy.router.add_post("/api/chat.postMessage", limited)
    async with outgoing() as out, TestServer(proxy) as server:
        out.api.client.base_url = str(server.make_url("/api/"))
        with pytest.raises(Later) as later:
            await post(out)
    assert later.value.after == pytest.approx(after, abs=0.9)


@pytest.mark.parametrize(("code", "kept"), [("invalid_blocks", True), ("metadata_too_large", False)])
async def test_a_message_that_is_refused_for_its_metadata_goes_without(out: Outgoing, code: str, kept: bool) -> None:
    """With it, it would be refused again and again; one that is refused for its blocks keeps it, to be found again."""
    out.slack.faults.refuses("chat.postMessage", code)
    await post(out, MARKED)
    (sent,) = [one for one in out.ann.messages(out.deploys) if one.author == "adk-confirm"]
    assert (identity(sent.message.metadata or {}) is not None) is kept


# Connections


async def test_calls_share_a_connection_and_lose_nothing_when_slack_closes_it(out: Outgoing) -> None:
    await post(out, Message("one", ()))
    await post(out, Message("two", ()))
    assert out.slack.hang_up() == 1
    async with ClientSession() as another, another.get(out.slack.base):
        pass  # after this, the closed connection is known to be closed
    await post(out, Message("three", ()))
    assert said(out) == ["one", "two", "three"]


@pytest.mark.parametrize("acted", [True, False])
async def test_an_answer_lost_on_a_connection_that_was_used_before_is_not_taken_for_a_refusal(
    out: Outgoing, acted: bool
) -> None:
    await post(out)
    out.slack.faults.cuts("chat.postMessage", acted=acted)
    with pytest.raises(Unsure):
        await post(out, MARKED)
    assert len(said(out)) == 1 + acted


# What may have been done already


@pytest.mark.parametrize("acted", [True, False])
async def test_a_post_that_is_not_sure_is_looked_for_first(out: Outgoing, acted: bool) -> None:
    out.slack.faults.cuts("chat.postMessage", acted=acted)
    with pytest.raises(Unsure):
        await post(out, MARKED)
    first = await post(out, MARKED, sure=False)
    assert await post(out, MARKED, sure=False) == first
    assert said(out) == ["hello"]


async def test_it_is_looked_for_in_its_thread_and_strays_are_deleted(out: Outgoing) -> None:
    stamps = [await post(out, MARKED, thread_ts=out.thread.ts) for _ in range(3)]
    outside = await post(out, MARKED)
    assert await post(out, MARKED, thread_ts=out.thread.ts, sure=False) == stamps[0]
    assert [one.ts for one in out.ann.messages(out.deploys) if one.author == "adk-confirm"] == [stamps[0], outside]


async def test_looking_goes_through_all_pages_but_not_far_back(out: Outgoing) -> None:
    for n in range(5):
        await post(out, Message(f"old {n}", ()))
    out.slack.clock.advance(3600)
    since = out.slack.clock.now()
    await post(out, MARKED)
    sent = await out.api.sent(out.deploys.id, since=since)
    assert [identity(one.metadata) for one in sent] == [("adk_confirmation_said", "s", "e1", 0)]
    assert len(await out.api.sent(out.deploys.id)) == 6


async def test_another_identity_is_another_message(out: Outgoing) -> None:
    await post(out, MARKED)
    await post(out, Message("hello", (), SaidMark("s", "e1", 1).metadata()), sure=False)
    await post(out, Message("hello", (), PointerMark("k1").metadata()), sure=False)
    assert len(said(out)) == 3


async def test_what_can_be_done_twice_is_put_off_when_its_answer_is_lost(out: Outgoing) -> None:
    """Whose job it is does it again. What it repeats by itself would come on top of that."""
    ts = await post(out)
    out.slack.faults.cuts("chat.update", acted=True)
    with pytest.raises(Later) as later:
        await out.api.update(out.deploys.id, ts, Message("once more", ()))
    assert (later.value.failing, len(out.slack.calls_of("chat.update"))) == (True, 1)
    await out.api.update(out.deploys.id, ts, Message("once more", ()))
    assert said(out) == ["once more"]


# In their turn


async def test_a_workspaces_limit_on_a_method_is_kept_without_ever_hearing_of_it(out: Outgoing) -> None:
    out.slack.rates.methods = True
    ts = await post(out)
    for n in range(50):
        await out.api.update(out.deploys.id, ts, Message(f"{n}", ()))
    with pytest.raises(Later) as later:
        await out.api.update(out.deploys.id, ts, Message("51", ()))
    assert 50 < later.value.after <= 61
    assert len(out.slack.calls_of("chat.update")) == 50

    out.slack.clock.advance(later.value.after)
    await out.api.update(out.deploys.id, ts, Message("51", ()))
    assert {made.status for made in out.slack.calls_of("chat.update")} == {200}


async def test_two_replicas_know_of_their_common_limit_from_slack(out: Outgoing) -> None:
    """Each keeps to the limit by itself. Both together exceed it, and each update is made all the same."""
    out.slack.rates.methods = True
    clock = out.slack.clock
    ts = await post(out)

    async def pause(seconds: float) -> None:
        clock.advance(seconds)

    client = AsyncWebClient(out.slack.bot_token, base_url=out.slack.url)
    other = Slack(client, clock=clock.now, pause=pause)
    for n in range(80):
        replica, made = (out.api, other)[n % 2], False
        while not made:
            try:
                await replica.update(out.deploys.id, ts, Message(f"{n}", ()))
                made = True
            except Later as later:
                clock.advance(later.after)
    statuses = [made.status for made in out.slack.calls_of("chat.update")]
    assert statuses.count(200) == 80
    assert 1 <= statuses.count(429) <= 4, "each replica hears it about once a minute"


async def test_a_burst_into_one_channel_goes_out_and_the_rest_comes_one_a_second(out: Outgoing) -> None:
    for n in range(7):
        await post(out, Message(f"{n}", ()))
    assert sum(out.waits) == pytest.approx(5, abs=1)
    other = out.slack.channel("other", out.ann)
    waited = len(out.waits)
    await out.api.post(other.id, PLAIN)
    assert len(out.waits) == waited


async def test_a_limit_that_one_channel_runs_into_holds_up_no_other(out: Outgoing) -> None:
    out.slack.faults.limits("chat.postMessage", retry_after=60)
    with pytest.raises(Later):
        await post(out)
    other = out.slack.channel("other", out.ann)
    await out.api.post(other.id, PLAIN)
    assert out.waits == []
    with pytest.raises(Later) as later:
        await post(out)
    assert later.value.after == pytest.approx(60, abs=2)


async def test_after_an_outage_all_who_wait_are_served_at_slacks_own_pace(out: Outgoing) -> None:
    """However often each of them came too early, because its row changed: each keeps one place in line."""
    leases = [await a_lease(out.database, f"row {n}") for n in range(12)]
    clock, waiting = out.slack.clock, dict[int, float]()

    async def tries(n: int) -> None:
        try:
            await out.api.at(leases[n]).post(out.deploys.id, Message(f"{n}", ()))
            waiting.pop(n, None)
        except Later as later:
            waiting[n] = clock.now() + later.after

    out.slack.faults.limits("chat.postMessage", retry_after=10, times=None)
    for _ in range(60):
        for n in range(12):
            await tries(n)
        clock.advance(1)
    out.slack.faults.clear()
    healed = clock.now()
    while waiting:
        n = min(waiting, key=waiting.__getitem__)
        clock.advance(max(0.0, waiting[n] - clock.now()))
        await tries(n)
    assert sorted(said(out), key=int) == [f"{n}" for n in range(12)]
    assert clock.now() - healed <= 10 + 12, "Slack's last Retry-After, and one a second"


async def test_a_trigger_is_not_waited_with(out: Outgoing) -> None:
    out.slack.faults.limits("views.open", retry_after=2)
    with pytest.raises(Later):
        await out.api.open_view("any", notice_modal("Counting…"))
    assert out.waits == []


# Views, links, people


async def test_whoever_sees_nothing_in_the_channel_gets_a_direct_message(out: Outgoing) -> None:
    """Slack shows an ephemeral message to members only."""
    for each in (out.ann, out.lead):
        seat = Seat(person=person(each.id), channel=out.deploys.id, thread_ts=out.thread.ts)
        await out.api.whisper(seat, notice_message("You may not decide."))
    assert "You may not decide." in out.lead.sees()
    assert "You may not decide." in out.ann.sees(out.deploys, thread=out.thread)
    assert "You may not decide." not in out.ann.sees()


async def test_deleting_what_is_gone_already_is_fine(out: Outgoing) -> None:
    await out.api.delete(out.deploys.id, await post(out))
    await out.api.delete(out.deploys.id, "1.000000")
    assert said(out) == []


# What is written down


async def test_no_log_holds_a_token_or_what_was_sent(out: Outgoing, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = Message("the-secret-words", ({"type": "section", "text": {"type": "mrkdwn", "text": "the-secret-words"}},))
    for fault in ("invalid_blocks", "not_in_channel", "fatal_error", "token_revoked"):
        out.slack.faults.refuses("chat.postMessage", fault)
        try:
            await post(out, secret)
        except SlackTrouble as trouble:
            logging.getLogger("test").warning("%s", trouble, exc_info=True)
    assert "sent as plain text" in caplog.text
    assert out.slack.bot_token not in caplog.text
    assert "the-secret-words" not in caplog.text
