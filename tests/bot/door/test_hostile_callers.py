"""Callers that lie, flood, forge, and reach for what is not theirs."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adk_confirm.bot.audit.checkpoints import CheckpointKey, PublicKeys
from adk_confirm.bot.confirmation.confirmation import DOOR
from adk_confirm.bot.door.asks import ASK, Ask, AskMessage, TooMany, claim, find_ask, store_ask
from adk_confirm.bot.door.permit import read_permit, sign_permit
from adk_confirm.bot.policy.approvers import caller
from adk_confirm.runtime.errors import Conflict, Invalid
from adk_confirm.runtime.jsontypes import JsonObject, as_object, canonical
from adk_confirm.runtime.rest.listening import CannotServe
from adk_confirm.runtime.store.database import Tx
from tests.support.door import CLAIM, KEY, PUBLIC, TOKENS, Answer, AtTheDoor, door
from tests.support.door import Ask as Asked
from tests.support.forked import ROOT
from tests.support.office import ON_EITHER

DEPLOY: JsonObject = {"tool": "deploy", "arguments": {"env": "prod"}}


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AtTheDoor]:
    async with door(database_url, tmp_path / "log", monkeypatch) as opened:
        yield opened


NO_TOKENS = [
    "",
    "Bearer",
    "Bearer ",
    "Bearer the token of ci",
    "Bearer the token of ci, and of nobody else, or more",
    "Basic the token of ci, and of nobody else",
    "the token of ci, and of nobody else",
    "Bearer the token of ci, and of nobody elsé",
]


async def test_without_a_callers_token_nothing_is_answered(at: AtTheDoor) -> None:
    ways = (("POST", "/v1/asks"), ("GET", "/v1/asks/1"), ("GET", "/"), ("POST", "/v1/asks/1/claim"))
    for authorization, (method, path) in product(NO_TOKENS, ways):
        async with (
            aiohttp.ClientSession() as http,
            http.request(method, f"{at.ci.url}{path}", json=DEPLOY, headers={"Authorization": authorization}) as answer,
        ):
            assert answer.status == 401, authorization
            assert as_object((await answer.json())["error"])["code"] == "unauthorized"
            assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert at.cards() == []


NO_ASKS: list[tuple[object, int, str]] = [
    ([], 400, "body: Input should be"),
    ("deploy", 400, "body: Input should be"),
    (None, 400, "body: Field required"),
    ({}, 400, "body.tool: Field required"),
    ({"tool": 7}, 400, "body.tool: Input should be a valid string"),
    ({"tool": ""}, 400, "body.tool: String should have at least 1 character"),
    ({"tool": "deploy\n"}, 400, "must have no invisible characters"),
    ({"tool": "deploy\u202e"}, 400, "must have no invisible characters"),
    ({"tool": "deploy" + "x" * 200}, 400, "body.tool: String should have at most 200 characters"),
    ({"tool": "delete_project"}, 403, "ci may not ask for delete_project"),
    ({"tool": "adk_request_confirmation"}, 403, "may not ask"),
    ({**DEPLOY, "arguments": [1]}, 400, "body.arguments: Input should be an object"),
    ({**DEPLOY, "approved": True}, 400, "body.approved: Extra inputs are not permitted"),
    ({**DEPLOY, "title": "Harmless"}, 400, "body.title: Extra inputs are not permitted"),
    ({**DEPLOY, "asker": "U0BOB"}, 400, "body.asker: Extra inputs are not permitted"),
    ({**DEPLOY, "reason": 1}, 400, "body.reason: Input should be a valid string"),
    ({**DEPLOY, "reason": "x" * 301}, 400, "body.reason: String should have at most 300 characters"),
    ({**DEPLOY, "preview": "x" * 20_001}, 400, "body.preview: String should have at most 20000 characters"),
    ({"tool": "deploy", "arguments": {"n": 2**53 + 1}}, 400, "too large a number"),
    ({"tool": "deploy", "arguments": {"n": ["x"] * 60_000}}, 400, "more than"),
]


async def test_what_is_no_ask_of_this_caller_is_refused_with_a_sentence(at: AtTheDoor) -> None:
    for body, status, said in NO_ASKS:
        answer = await at.ci.posts(body)
        assert answer.status == status, answer.body
        assert said in answer.error
    assert at.cards() == []


async def test_bodies_that_are_no_json_and_bodies_that_are_too_much(at: AtTheDoor) -> None:
    headers = {"Authorization": f"Bearer {at.ci.token}", "Idempotency-Key": "k", "Content-Type": "application/json"}
    twice = b'{"tool": "deploy", "arguments": {"env": "staging", "env": "prod"}}'
    for data, status in (
        (b"{", 400),
        (twice, 400),
        (b"[" * 5000, 400),
        (b'{"tool": "deploy", "arguments": {"a": "\\ud800"}}', 400),
        (b'{"tool": "deploy", "arguments": {"a": NaN}}', 400),
        (b"\xff", 400),
        (io.BytesIO(b" " * (1 << 21)), 413),
    ):
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{at.ci.url}/v1/asks", data=data, headers=headers) as answer,
        ):
            assert answer.status == status, data
            assert as_object(await answer.json()).keys() == {"error"}
    for odd in ({"Idempotency-Key": "x" * 300}, {}):
        refused = await at.ci.sends("POST", "/v1/asks", DEPLOY, **odd)
        assert (refused.status, "Idempotency-Key" in refused.error) == (400, True)
    compressed = {**headers, "Content-Encoding": "gzip"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{at.ci.url}/v1/asks", data=b"x", headers=compressed) as answer,
    ):
        assert answer.status == 400
    assert at.cards() == []


async def test_a_caller_sees_and_claims_its_own_asks_only(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", env="prod")
    await at.bob.clicks(await at.card(), "Approve")
    await ask.is_decided()
    for method, path, body in (
        ("GET", ask.path, None),
        ("POST", f"{ask.path}/claim", {"claim": CLAIM}),
        ("POST", f"{ask.path}/result", {"claim": CLAIM, "status": "done"}),
        ("POST", f"{ask.path}/cancel", None),
    ):
        answer = await at.nightly.sends(method, path, body)
        assert (answer.status, answer.error) == (404, "nightly has no such ask.")
    assert (await at.ci.sends("GET", "/v1/asks/../asks")).status in (404, 405)
    assert (await ask.claims()).status == 200


async def test_a_claim_is_a_text_that_nobody_guesses(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", env="prod")
    await at.bob.clicks(await at.card(), "Approve")
    await ask.is_decided()
    few: list[JsonObject] = [{}, {"claim": ""}, {"claim": "short"}, {"claim": "x" * 300}, {"claim": 1}]
    for body in (*few, {"claim": CLAIM, "force": True}):
        assert (await at.ci.sends("POST", f"{ask.path}/claim", body)).status == 400, body
    assert (await ask.claims()).status == 200


async def test_a_report_without_a_claim_or_with_a_strange_word_counts_for_nothing(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", env="prod")
    assert (await ask.reports()).error == "It has no permit: claim it first, with the same claim."
    await at.bob.clicks(await at.card(), "Approve")
    await ask.is_decided()
    assert (await ask.reports()).status == 409
    await ask.claims()
    assert (await ask.reports("approved")).status == 400
    assert (await ask.reports("done", result=2**70)).status in (200, 400)
    long = await ask.by.sends("POST", f"{ask.path}/result", {"claim": CLAIM, "status": "done", "result": []})
    assert long.status == 400


@ON_EITHER
async def test_a_caller_that_floods_is_told_to_wait_and_others_are_served(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, waiting=3, per_minute=10) as at:
        answers = await asyncio.gather(*(at.ci.posts({**DEPLOY}) for _ in range(30)))
        assert sorted({answer.status for answer in answers}) == [202, 429]
        assert sum(answer.status == 202 for answer in answers) == 3
        late = next(answer for answer in answers if answer.status == 429)
        assert int(late.headers["Retry-After"]) >= 1
        assert (await at.nightly.posts({**DEPLOY})).status == 202
        await at.slack.until(lambda: len(at.cards()) == 4 or None, what="four cards")
        await at.denies(at.bob, at.cards()[0], "no")
        await at.rests()
        async with aiohttp.ClientSession() as http, http.get(f"{at.bot.url}/metrics") as page:
            text = await page.text()
        assert 'adk_confirm_door_refused_total{caller="ci"} 27.0' in text
        assert 'adk_confirm_callers_decided_total{caller="ci",verdict="denied"} 1.0' in text


async def test_new_asks_and_requests_that_wait_have_a_limit_and_repetitions_cost_nothing(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adk_confirm.bot.door.site.MOST_AT_ONCE", 3)
    async with door(database_url, tmp_path / "log", monkeypatch, per_minute=2) as at:
        asks = [await at.ci.asks("deploy", key=key, env="prod") for key in ("one", "two", "one", "two", "one")]
        third = await at.ci.posts(DEPLOY, key="three")
        assert (third.status, "2 asks a minute" in third.error) == (429, True)
        waiting = [asyncio.create_task(asks[0].now("50s")) for _ in range(5)]
        refused: list[Answer] = []
        while len(refused) < 2:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused += [one.result() for one in done]
            waiting = [one for one in waiting if one not in done]
        assert {(one.status, "requests here that are not answered" in one.error) for one in refused} == {(429, True)}
        assert (await at.nightly.posts(DEPLOY)).status == 202
        await at.slack.until(lambda: len(at.cards()) == 3 or None, what="three cards")
        assert (await asks[0].is_cancelled()).status == 200  # what waits for nobody is always heard
        assert [(await one).is_now for one in waiting] == 3 * ["cancelled"]


@ON_EITHER
async def test_replicas_together_keep_the_limit_of_open_asks(at: AtTheDoor) -> None:
    """Each would have room for it."""
    team, database = at.slack.team.id, at.bot.database
    messages = [
        AskMessage(
            app=DOOR,
            team=team,
            channel=at.deploys.id,
            thread_ts=f"1.{number}",
            ts=ASK,
            person=caller("ci"),
            text=canonical(DEPLOY),
            caller="ci",
            ask=f"{number:032x}",
        )
        for number in range(12)
    ]
    stored = await asyncio.gather(
        *(database.run(store_ask, message, 5) for message in messages), return_exceptions=True
    )
    assert sum(isinstance(one, TooMany) for one in stored) == 7
    assert sum(isinstance(one, Ask) for one in stored) == 5


async def test_a_body_that_comes_slowly_ends_its_request(at: AtTheDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adk_confirm.runtime.rest.listening.BODY_WITHIN", 0.1)
    host, _, port = at.ci.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/asks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {at.ci.token}\r\nIdempotency-Key: k\r\n"
    writer.write(f'{head}Content-Type: application/json\r\nContent-Length: 90\r\n\r\n{{"tool": '.encode())
    said = await reader.readuntil(b"}}")
    assert said.startswith(b"HTTP/1.1 408")
    assert b"did not arrive within" in said
    writer.close()
    assert (await at.ci.posts(DEPLOY)).status == 202


@ON_EITHER
async def test_texts_that_no_database_takes(at: AtTheDoor) -> None:
    for path in ("%00", "%ff", "x" * 5000, "..%2fasks", "%F0%9F%98%80"):
        for method, what in (("GET", ""), ("POST", "/cancel")):
            answer = await at.ci.sends(method, f"/v1/asks/{path}{what}")
            assert answer.status in (400, 404), (path, answer.body)
    odd = "\x00\u202e\ufeff<!channel>\n"
    body: JsonObject = {"tool": "deploy", "arguments": {odd: odd, "": {odd: [odd]}}, "reason": odd, "preview": odd}
    asked = await at.ci.posts(body)
    assert asked.status == 202, asked.body
    assert "<!channel>" not in (await at.card("Deny…")).fallback
    assert (await at.ci.posts(body, key="\u202e")).status == 400
    hook = {"session_id": odd, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": odd}}
    answer = await at.nightly.sends("POST", "/v1/hooks/claude-code?wait=1s", {**hook, "cwd": odd})
    assert as_object(answer.body["hookSpecificOutput"])["permissionDecision"] == "deny"
    for claimed in (odd * 3, "\ud800" * 20):
        assert (await at.ci.sends("POST", f"{asked.headers['Location']}/claim", {"claim": claimed})).status == 400


@ON_EITHER
async def test_a_key_is_the_same_ask_after_a_restart(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", key="build 7", env="prod")
    await at.bob.clicks(await at.card(), "Approve")
    await ask.is_decided()
    await at.restarts()
    again = await at.ci.asks("deploy", key="build 7", env="prod")
    assert (again.path, again.answer.is_now) == (ask.path, "approved")
    other = await at.ci.posts({**DEPLOY, "reason": "another"}, key="build 7")
    assert (other.status, "another ask" in other.error) == (409, True)
    given = await again.claims()
    await at.restarts()
    again = await at.ci.asks("deploy", key="build 7", env="prod")
    assert (await again.claims("another claimant than the first")).status == 409
    assert (await again.claims()).body["permit"] == given.body["permit"]
    assert (await again.reports()).status == 200
    await at.restarts()
    again = await at.ci.asks("deploy", key="build 7", env="prod")
    assert (await again.becomes("done")).task["over"] is True
    assert (await again.reports("failed")).status == 409
    assert (await again.is_cancelled()).status == 409
    assert len(at.cards()) == 1


@ON_EITHER
async def test_of_claimants_at_two_replicas_one_gets_it(at: AtTheDoor) -> None:
    asked = await at.ci.asks("deploy", env="prod")
    await at.bob.clicks(await at.card(), "Approve")
    await asked.is_decided()
    database = at.bot.database
    ask = await database.read(find_ask, at.slack.team.id, "ci", str(asked.answer.task["id"]))
    assert ask is not None
    claims = [f"claimant number {number}" for number in range(8)]
    given = await asyncio.gather(*(database.run(claim, ask, one) for one in claims), return_exceptions=True)
    assert [one for one in given if not isinstance(one, Conflict)] == [1]
    won = next(one for one, got in zip(claims, given, strict=True) if got == 1)
    assert (await asked.claims(won)).status == 200


async def test_the_kinds_of_arguments_are_what_people_see_and_what_the_permit_is_for(at: AtTheDoor) -> None:
    """A caller may lie about its tool; a permit for a text is none for a number, a list, or the same text spelled
    otherwise."""
    lies: JsonObject = {"env": ["prod"], "count": "3", "dry": "true", "name": "caf\u00e9", "why": "because"}
    asked = await at.ci.posts({"tool": "deploy", "arguments": lies})
    card = await at.card()
    assert "why because" in card.text
    await at.bob.clicks(card, "Approve")
    await Asked(at.ci, asked).is_decided()
    given = await Asked(at.ci, asked).claims()
    assert given.body["arguments"] == lies
    permit, now = str(given.body["permit"]), at.slack.clock.now()
    assert read_permit(permit, PUBLIC, now, lies)["tool"] == "deploy"
    for name, value in (("env", "prod"), ("count", 3), ("dry", True), ("name", "cafe\u0301"), ("why", None)):
        with pytest.raises(Invalid, match="other arguments"):
            read_permit(permit, PUBLIC, now, {**lies, name: value})


# Permits


async def test_the_python_of_the_documentation_checks_a_permit(at: AtTheDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    jwt = pytest.importorskip("jwt", reason="needs PyJWT, which `make frameworks` installs")
    pytest.importorskip("rfc8785", reason="needs rfc8785, which `make frameworks` installs")
    told: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", (ROOT / "docs/door.md").read_text(), re.S)[-1], told)
    arguments: JsonObject = {"service": "checkout", "env": "prod", "ratio": 0.25, "größe": [1e21, True, None]}
    asked = await at.ci.posts({"tool": "deploy", "arguments": arguments})
    await at.bob.clicks(await at.card(), "Approve")
    await Asked(at.ci, asked).is_decided()
    permit = str((await Asked(at.ci, asked).claims()).body["permit"])
    key, other = CheckpointKey(KEY).public, CheckpointKey("22" * 32).public
    assert told["permitted"](permit, "deploy", arguments, key)
    assert not told["permitted"](permit, "pay", arguments, key)
    assert not told["permitted"](permit, "deploy", {**arguments, "env": "staging"}, key)
    head, body, signature = permit.split(".")
    none = spelled({"alg": "none", "typ": "JWT"})
    for forged, by in ((permit, other), (f"{none}.{body}.", key), (f"{head}.{body}.{signature[:-4]}AAAA", key)):
        with pytest.raises(jwt.InvalidTokenError):
            told["permitted"](forged, "deploy", arguments, by)


def claims_of(permit: str) -> JsonObject:
    part = permit.split(".")[1]
    return as_object(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


def spelled(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


async def test_a_forged_permit_counts_for_nothing(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", env="staging")
    await at.bob.clicks(await at.card(), "Approve")
    await ask.is_decided()
    permit, now = str((await ask.claims()).body["permit"]), at.slack.clock.now()
    head, body, signature = permit.split(".")
    real = claims_of(permit)
    assert read_permit(permit, PUBLIC, now) == real
    other, none = sign_permit(real, CheckpointKey("22" * 32)), {"alg": "none", "typ": "adk-confirm-permit+jwt"}
    forged = [
        "",
        "a.b.c",
        f"{head}.{body}",
        f"{head}.{body}.",
        f"{head}.{spelled({**real, 'tool': 'pay'})}.{signature}",
        f"{spelled(none)}.{body}.",
        f"{spelled(none)}.{body}.{signature}",
        f"{spelled({'alg': 'HS256', 'typ': 'adk-confirm-permit+jwt'})}.{body}.{signature}",
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}=.{body}.{signature}",
        f"{head}. {body}.{signature}",
        f"{head}.{body}.{signature}.{signature}",
        other,
        sign_permit({**real, "exp": True, "nbf": True}, CheckpointKey(KEY)),
        sign_permit({**real, "nbf": int(now) + 600}, CheckpointKey(KEY)),
        sign_permit({**real, "exp": int(now) - 1}, CheckpointKey(KEY)),
    ]
    for one in forged:
        with pytest.raises(Invalid):
            read_permit(one, PUBLIC, now)
    with pytest.raises(Invalid):
        read_permit(permit, PublicKeys(CheckpointKey("22" * 32).public), now)
    with pytest.raises(Invalid):
        read_permit(permit, PUBLIC, now, {"env": "prod"})


# Somebody who can write to the database, and has no secret


@ON_EITHER
@pytest.mark.parametrize("mark", ["claim:1", "permit:1", "report:1"])
async def test_a_forged_letter_counts_for_nothing(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, time_moves=True) as at:
        ask = await at.ci.asks("deploy", env="prod")
        await at.bob.clicks(await at.card(), "Approve")
        await ask.is_decided()
        if mark == "claim:1":
            await at.bot.database.run(forge, mark, {"claim": CLAIM})
            assert (await ask.claims()).status == 409
            return
        await ask.claims()
        if mark == "permit:1":
            await at.bot.database.run(forge, mark, {"permit": "a.b.c", "arguments": {}, "until": 1})
            assert "Somebody changed the permit" in (await ask.claims()).error
            return
        await at.bot.database.run(forge, mark, {"done": True, "result": {}})
        await at.hours_pass(1.1)
        await ask.becomes("unknown")


def forge(tx: Tx, mark: str, body: JsonObject) -> None:
    key = tx.value("SELECT key FROM bot_sessions WHERE app = 'door'")
    changed = tx.run(
        "UPDATE bot_mail SET body = :body WHERE session = :key AND mark = :mark",
        body=json.dumps(body),
        key=key,
        mark=mark,
    )
    if not changed:
        letter = {"session": key, "kind": "claim", "mark": mark, "body": json.dumps(body), "stored_at": 0, "line": 0}
        tx.insert("bot_mail", {**letter, "done_at": 1.0, "sealed": "00" * 32})


@ON_EITHER
async def test_a_changed_ask_is_no_ask(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", env="staging")
    await at.card()
    await at.bot.database.run(forge, "ask", {"text": json.dumps({"tool": "pay", "arguments": {}})})
    assert (await ask.now()).status == 404


# Settings


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("CI_TOKEN", "short", "at least 16 characters"),
        ("CI_TOKEN", "the token of nightly, likewise", "the same token"),
    ],
)
async def test_the_bot_does_not_start_with_tokens_that_prove_nothing(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setitem(TOKENS, variable, value)
    with pytest.raises(CannotServe, match=said):
        async with door(database_url, tmp_path / "log", monkeypatch):
            pass
