"""Requests that Slack would never send: they are refused cleanly, and nothing changes."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import time
from collections.abc import Iterator
from io import BytesIO
from urllib.parse import urlencode

import aiohttp
import pytest

from adk_confirm.runtime.jsontypes import Json, JsonObject, objects
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.delivery import Reply, sign
from tests.support.office import BOTH_WAYS, POLICY, Office

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
MISSING = "(not there)"
Path = tuple[str | int, ...]


async def sends(at: Office, body: JsonObject) -> Reply:
    """An interaction or an event with a good signature, whatever is in it."""
    text = json.dumps(body)
    is_event = body.get("type") == "event_callback"
    raw, kind = (text, JSON) if is_event else (urlencode({"payload": text}), FORM)
    return await at.slack.outbox.post(raw, at.slack.outbox.signed(raw, kind))


async def sends_megabytes(at: Office, megabytes: int) -> int:
    body = "x" * (megabytes * 1024 * 1024)
    headers = at.slack.outbox.signed(body, JSON)
    async with (
        aiohttp.ClientSession() as http,
        http.post(at.slack.outbox.request_url, data=BytesIO(body.encode()), headers=headers) as answer,
    ):
        return answer.status


async def waits_on(at: Office, card: Seen) -> None:
    """Nothing has happened to it."""
    await at.rests()
    assert at.ann.now(card).buttons == ("All details", "Withdraw…", "History", "Approve", "Deny…", "Edit…")
    assert "Needs 1 approval" in at.ann.now(card)
    assert "did not count" not in at.ann.sees(at.deploys)
    assert at.ran() == []


async def click_of(at: Office, card: Seen) -> JsonObject:
    """A click as Slack would send it, kept from arriving."""
    listening, at.slack.outbox.request_url = at.slack.outbox.request_url, "http://127.0.0.1:9/"
    made = await at.bob.clicks(card, "Approve")
    at.slack.outbox.request_url = listening
    assert not made.acked
    return made.body


async def test_requests_without_a_valid_signature_are_ignored(at: Office, caplog: pytest.LogCaptureFixture) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    raw = urlencode({"payload": json.dumps(await click_of(at, card))})
    post, good = at.slack.outbox.post, at.slack.outbox.signed(raw, FORM)
    now = str(int(time.time()))
    old, future = str(int(time.time()) - 301), str(int(time.time()) + 400)
    stamp, signature = "X-Slack-Request-Timestamp", "X-Slack-Signature"

    forged = {
        "another secret": good | {signature: sign("guessed", good[stamp], raw)},
        "another body": good | {signature: sign(at.slack.signing_secret, good[stamp], raw + " ")},
        "another time": good | {stamp: str(int(good[stamp]) - 1)},
        "no signature": {name: value for name, value in good.items() if name != signature},
        "an empty signature": good | {signature: ""},
        "letters of other scripts": good | {signature: "v0=\u00e9\u00e9"},
        "no version": good | {signature: good[signature].removeprefix("v0=")},
        "no timestamp": {name: value for name, value in good.items() if name != stamp},
        "too old": at.slack.outbox.signed(raw, FORM, timestamp=old),
        "from the future": at.slack.outbox.signed(raw, FORM, timestamp=future),
        "no number": at.slack.outbox.signed(raw, FORM, timestamp="yesterday"),
        "a number of other digits": good | {stamp: "١٢٣"},
        "a negative number": at.slack.outbox.signed(raw, FORM, timestamp=f"-{now}"),
        "a broken number": at.slack.outbox.signed(raw, FORM, timestamp="1e9"),
        "a number too long for a clock": at.slack.outbox.signed(raw, FORM, timestamp="9" * 400),
    }
    answers = {what: (await post(raw, headers)).status for what, headers in forged.items()}

    assert {what: status for what, status in answers.items() if status not in (400, 401)} == {}
    assert caplog.text.count("correct SLACK_SIGNING_SECRET") == 1, "an operator may have the wrong one"
    await waits_on(at, card)
    assert (await post(raw, good)).status == 200
    await at.ann.finds("Done: Reimburse", at.deploys, thread=card)


@pytest.mark.parametrize("signed", [True, False])
async def test_a_body_that_is_not_json_is_refused(at: Office, signed: bool) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    bodies = {
        ("", JSON): 400,
        ("{", JSON): 400,
        ("[]", JSON): 400,
        ('"click"', JSON): 400,
        ("null", JSON): 400,
        ("[" * 100_000, JSON): 400,
        ("payload={", FORM): 400,
        ("payload=", FORM): 400,
        ("payload=7", FORM): 400,
        ("payload=%FF%FE", FORM): 400,
    }
    for (body, kind), expected in bodies.items():
        headers = at.slack.outbox.signed(body, kind)
        if not signed:
            headers["X-Slack-Signature"] = "v0=0000"
        reply = await at.slack.outbox.post(body, headers)
        assert reply.status == (expected if signed else 401), (body[:40], kind, reply)
    assert await sends_megabytes(at, 4) == 413
    await waits_on(at, card)


FOREIGN: tuple[JsonObject, ...] = (
    {"action_id": "another_apps_button"},
    {"action_id": "adk_confirm_nothing_of_ours"},
    {"value": ""},
    {"value": "x"},
    {"value": f"{'0' * 32}.1"},
)


async def test_what_is_not_ours_is_not_acted_on(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    click = await click_of(at, card)
    ref = str(click["actions"][0]["value"])  # type: ignore[index,call-overload]  # a click's own shape
    actions: list[JsonObject] = [
        *FOREIGN,
        {"action_id": "ADK_CONFIRM_APPROVE"},
        {"action_id": "adk_confirm_approve "},
        {"value": f"{ref} "},
        {"value": ref.replace(".1", ".0")},
        {"value": ref.replace(".1", ".1e0")},
        {"value": ref.replace(".1", ".999999999")},
        {"value": f"{ref}'; DROP TABLE bot_confirmations; --"},
    ]
    for number, change in enumerate(actions):
        action: JsonObject = {**click["actions"][0], "action_ts": f"{number}.1", **change}  # type: ignore[index,dict-item]
        reply = await sends(at, {**click, "actions": [action], "trigger_id": "of another click"})
        assert reply.status in (200, 404), (change, reply)
    await at.bob.finds("There is no confirmation", at.deploys, thread=card)
    note = await at.bob.finds("The card changed.", at.deploys, thread=card)
    assert note.ephemeral
    assert "Needs 1 approval" in at.ann.now(card)
    assert at.ran() == []


async def test_forms_that_are_not_ours_are_not_acted_on(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(card, "Deny…")
    form = await at.bob.gets_modal("Deny")
    listening, at.slack.outbox.request_url = at.slack.outbox.request_url, "http://127.0.0.1:9/"
    made = await form.submits({"Reason": "no"})
    at.slack.outbox.request_url = listening
    assert made is not None
    view = made.body["view"]
    assert isinstance(view, dict)
    changes: list[JsonObject] = [
        {"callback_id": "another_apps_form"},
        {"callback_id": "adk_confirm_nothing_view"},
        {"callback_id": "adk_confirm_show_view"},
        {"callback_id": ""},
        {"private_metadata": ""},
        {"private_metadata": "x {}"},
        {"private_metadata": f"{'0' * 32}.1 {{}}"},
        {"private_metadata": "{" * 2000},
    ]
    for change in changes:
        reply = await sends(at, {**made.body, "view": {**view, **change}})
        assert reply.status in (200, 404), (change, reply)
    await waits_on(at, card)


async def test_signed_and_yet_not_slacks_shape_is_a_clean_refusal(at: Office) -> None:
    """Whatever part is missing or another kind of value: never a 500, which Slack would send again."""
    card = await at.ask("reimburse 1500 for the team dinner")
    click = await click_of(at, card)
    await at.bob.clicks(card, "Deny…")
    submitted = await (await at.bob.gets_modal("Deny")).submits()
    assert submitted is not None
    events = [made.body for made in at.slack.deliveries if made.kind == "events_api"]
    odd: tuple[Json, ...] = (MISSING, None, "x", 7, [], {}, [1])
    failed: list[tuple[Path, Json, int]] = []
    for body in (click, submitted.body, events[0]):
        for path in paths(body):
            for value in odd:
                reply = await sends(at, replaced(body, path, value))
                failed += [(path, value, reply.status)] if reply.status >= 500 else []
    assert failed == []
    assert at.ran() == []


@BOTH_WAYS
@pytest.mark.office(f"{POLICY}quorum = 2\n")
async def test_a_click_of_a_new_shape_counts(at: Office, socket: bool) -> None:
    """Slack may change what nobody here needs."""
    card = await at.ask("reimburse 1500 for the team dinner")
    click = (await at.bob.clicks(card, "Approve")).body
    await at.ann.finds("· approved by bob ·", at.deploys, thread=card)
    (action,) = objects(click["actions"])
    user: JsonObject = {"id": at.lead.id, "team_id": None, "name": 7}
    new: JsonObject = {
        **{name: value for name, value in click.items() if name not in ("trigger_id", "container", "message")},
        "user": user,
        "actions": [{**action, "action_ts": "9" * 80, "text": None}],
        "response_url": None,
        "state": ["new"],
        "view": None,
        "news": {"of": ["any", 1]},
    }
    if socket:
        await at.slack.socket.send("interactive", new, 0, "")
    else:
        assert (await sends(at, new)).status == 200
    await at.ann.finds("I reimbursed 1500", at.deploys)


@pytest.mark.slow
@pytest.mark.office(f"{POLICY}quorum = 2\n", socket=True)
async def test_in_socket_mode_what_is_not_ours_is_let_pass(at: Office) -> None:
    """Frames that are no envelopes, envelopes that hold nothing of ours: the next click is heard."""
    card = await at.ask("reimburse 1500 for the team dinner")
    click = (await at.bob.clicks(card, "Approve")).body
    await at.ann.finds("· approved by bob ·", at.deploys, thread=card)
    await at.rests()
    (connection,) = at.slack.socket.connections
    for frame in ("", "{", "[]", "null", '"click"', "{}", '{"type": "interactive"}', '{"type": 7, "payload": []}'):
        await connection.socket.send_str(frame)
    action: JsonObject = click["actions"][0]  # type: ignore[index,assignment]  # a click's own shape
    theirs: JsonObject = {"id": "U0LEAD", "username": "lead", "name": "lead", "team_id": "T0GLOBEX"}
    changes: list[JsonObject] = [{"user": theirs, "team": {"id": "T0GLOBEX", "domain": "globex"}}]
    changes += [{"actions": [{**action, "action_ts": f"{n}.1", **change}]} for n, change in enumerate(FOREIGN)]
    odd: tuple[JsonObject, ...] = ({}, {"type": "block_actions"}, {"type": "view_submission", "view": {}})
    for body in (*({**click, **change} for change in changes), *odd):
        with contextlib.suppress(TimeoutError):  # as over HTTP, not all of it is any listener's
            async with asyncio.timeout(1):
                await at.slack.socket.send("interactive", body, 0, "")
    await at.rests()
    assert "· approved by bob ·" in at.ann.now(card)
    assert at.ran() == []

    await at.lead.clicks(at.lead.now(card), "Approve")
    await at.ann.finds("I reimbursed 1500", at.deploys, thread=card)


async def test_another_workspace_is_not_served(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.rests()
    mention = at.slack.deliveries[0].body
    heard, event = at.ann.sees(at.deploys), mention["event"]
    assert isinstance(event, dict)
    elsewhere: JsonObject = {
        **mention,
        "team_id": "T0GLOBEX",
        "event": {**event, "ts": "1700000000.000100", "text": "<@U0BOT> reimburse 9 for me", "channel": "C0GLOBEX"},
        "authorizations": [{"team_id": "T0GLOBEX", "enterprise_id": None, "user_id": "U0BOT", "is_bot": True}],
    }
    assert (await sends(at, elsewhere)).status == 200
    click = await click_of(at, card)
    theirs: JsonObject = {"id": "U0BOB", "username": "bob", "name": "bob", "team_id": "T0GLOBEX"}
    reply = await sends(at, {**click, "user": theirs, "team": {"id": "T0GLOBEX", "domain": "globex"}})
    assert reply.status == 200

    await waits_on(at, card)
    assert at.ann.sees(at.deploys) == heard


async def test_a_namesake_from_another_workspace_is_somebody_else(at: Office) -> None:
    """Ids are unique in a workspace only, so a person is a pair of both."""
    card = await at.ask("reimburse 1500 for the team dinner")
    click = await click_of(at, card)
    user = click["user"]
    assert isinstance(user, dict)

    reply = await sends(at, {**click, "user": {**user, "team_id": "T0GLOBEX"}})

    assert reply.status == 200
    await at.bob.gets_modal("Not your vote")
    assert "Needs 1 approval" in at.ann.now(card)
    assert at.ran() == []


def paths(value: Json, here: Path = ()) -> Iterator[Path]:
    if here and not {"blocks", "fields"} & set(map(str, here)):
        yield here
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inside:
        if name not in ("blocks", "message", "metadata"):
            yield from paths(part, (*here, name))


def replaced(body: JsonObject, path: Path, value: Json) -> JsonObject:
    """The body with another value there; `MISSING` takes it away."""
    changed = copy.deepcopy(body)
    part: Json = changed
    for name in path[:-1]:
        part = part[name]  # type: ignore[index]  # the path comes from this very value
    part[path[-1]] = value  # type: ignore[index]
    if value == MISSING:
        del part[path[-1]]  # type: ignore[union-attr,arg-type]
    return changed
