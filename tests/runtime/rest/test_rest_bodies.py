"""Faulty requests: each gets a clear 4xx, and nothing is stored."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.runtime.jsontypes import unique_names
from adk_confirm.runtime.rest.bodies import DEEPEST, BadBody, parse
from tests.support.twins.client import REQUEST, Client
from tests.support.twins.scenes import call, say, script

RUN: dict[str, Any] = {"appName": "clerk", "userId": "ada", "sessionId": "s"}
JSON = {"Content-Type": "application/json"}


def run(**changed: object) -> dict[str, Any]:
    return {**RUN, "newMessage": {"role": "user", "parts": [{"text": script(say("Yes?"))}]}, **changed}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


async def nothing_stored(client: Client) -> bool:
    session = await client.look()
    return bool(session["events"] == [] and session["state"] == {})


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"{", "JSON decode error"),
        (b'{"a": 1} {}', "JSON decode error"),
        (b"\xff\xfe{}", "not UTF-8: byte 0"),
        ('{"appName": "clérk'.encode("latin-1"), "not UTF-8: byte 15"),
        (b'{"stateDelta": {"x": NaN}}', "NaN is not a JSON number"),
        (b'{"stateDelta": {"x": -Infinity}}', "-Infinity is not a JSON number"),
        (b'{"stateDelta": {"x": 1e999}}', "too large a number"),
        (b'{"stateDelta": {"x": 1' + b"0" * 5000 + b"}}", "JSON decode error"),
        (b'{"userId": "ada", "userId": "bob"}', '"userId\\" appears twice'),
        (b'{"a": {"confirmed": false, "confirmed": true}}', '"confirmed\\" appears twice'),
        (b'{"stateDelta": {"x": "\\ud800"}}', "half of a surrogate pair"),
        (b'{"stateDelta": {"\\udfff": 1}}', "half of a surrogate pair"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested too deeply"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (json.dumps(run(stateDelta=nested(DEEPEST))).encode(), "nested too deeply"),
    ],
)
async def test_a_body_that_is_not_json_is_refused(quick: Client, raw: bytes, said: str) -> None:
    for method, path in (
        ("POST", "/run"),
        ("POST", "/run_sse"),
        ("POST", quick.sessions),
        ("POST", f"{quick.sessions}/other"),
        ("PATCH", f"{quick.sessions}/s"),
    ):
        status, refused = await quick.request(method, path, data=raw, headers=JSON)
        assert status == 422
        assert said in json.dumps(refused["detail"], ensure_ascii=False)
    assert await nothing_stored(quick)
    assert [session["id"] for session in (await quick.request("GET", quick.sessions))[1]] == ["s"]


async def test_a_body_that_is_null_counts_as_none(quick: Client) -> None:
    for path, expected in (("/run", 422), (quick.sessions, 200), (f"{quick.sessions}/other", 200)):
        assert (await quick.request("POST", path, data=b"null", headers=JSON))[0] == expected


async def test_a_body_must_say_that_it_is_json(quick: Client) -> None:
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        status, refused = await quick.request("POST", "/run", data=json.dumps(run()).encode(), headers=headers)
        assert (status, "Content-Type: application/json" in refused["detail"][0]["msg"]) == (422, True)
    assert await nothing_stored(quick)
    kind = {"Content-Type": "application/vnd.adk+json; charset=utf-8"}
    assert (await quick.request("POST", "/run", data=json.dumps(run()).encode(), headers=kind))[0] == 200


@pytest.mark.parametrize("raw", [json.dumps(run(more="x" * (1 << 20))).encode(), b" " * ((1 << 20) + 1)])
async def test_a_body_that_is_too_large_is_not_read(quick: Client, raw: bytes) -> None:
    for path in ("/run", "/run_sse", quick.sessions, f"{quick.sessions}/other"):
        status, refused = await quick.request("POST", path, data=io.BytesIO(raw), headers=JSON)
        assert (status, refused) == (413, {"detail": "The body is too large: 1,048,576 bytes are the most."})
    assert await nothing_stored(quick)


async def test_a_body_that_claims_to_be_compressed_is_refused_whatever_it_is(quick: Client) -> None:
    """A bomb is not unpacked, and what is no gzip at all is no fault of ours."""
    bomb = gzip.compress(b" " * (1 << 26))
    for encoding in ("gzip", "deflate", "br", "zstd", "GZIP", "identity, gzip", "made-up"):
        headers = {**JSON, "Content-Encoding": encoding}
        paths = ("/run", "/run_sse", quick.sessions, f"{quick.sessions}/other")
        for raw, path in zip((bomb, b"no gzip", json.dumps(run()).encode(), bomb), paths, strict=True):
            status, refused = await quick.request("POST", path, data=io.BytesIO(raw), headers=headers)
            assert (status, "uncompressed" in refused["detail"]) == (400, True), encoding
        status, _ = await quick.request("GET", quick.sessions, data=io.BytesIO(b"no gzip"), headers=headers)
        assert status == 400, encoding
    assert await nothing_stored(quick)


async def test_thousands_of_mistakes_are_one_short_answer(quick: Client) -> None:
    """Each listed by itself, half a million of them were seconds of work and sixty megabytes."""
    for parts in ([1] * 20_000, [{"no": 1}] * 10_000):
        status, refused = await quick.request("POST", "/run", json=run(newMessage={"parts": parts}))
        assert status == 422
        assert len(json.dumps(refused)) < 20_000
    status, refused = await quick.request("POST", "/run", json=run(stateDelta={"many": [0] * 100_000}))
    assert (status, refused["detail"][0]["msg"]) == (422, "The body has more than 100,000 values")


def test_a_name_that_appears_twice_among_thousands_is_found_in_one_go() -> None:
    """Looked for by comparing each with all, a megabyte of names held the server for a minute."""
    compared = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(f"n{number}") for number in range(2000)]
    with pytest.raises(ValueError, match="appears twice"):
        unique_names([(name, 1) for name in (*names, Name("n1999"))])
    assert compared < 10 * len(names)


async def test_a_large_and_deep_body_within_the_limits_is_taken(ada: Client) -> None:
    state = {"deep": nested(DEEPEST - 4), "long": "x" * 900_000, "\u0000": "\u0000", "big": 10**30, "emoji": "🎉"}
    status, made = await ada.request("POST", ada.sessions, json={"sessionId": "big", "state": state})
    assert (status, made["state"]) == (200, state)
    assert (await ada.request("GET", f"{ada.sessions}/big"))[1]["state"] == state


async def test_ids_that_could_be_no_key_are_refused(ada: Client) -> None:
    for wrong in ("a\u0000b", "a\nb", "a\u2028b", "x" * 257, "\x7f"):
        quoted = "".join(f"%{byte:02X}" for byte in wrong.encode())
        users = f"/apps/clerk/users/{quoted}/sessions"
        for method, path, body in (
            ("POST", "/run", run(sessionId=wrong)),
            ("POST", "/run_sse", run(userId=wrong)),
            ("POST", ada.sessions, {"sessionId": wrong}),
            ("POST", f"{ada.sessions}/{quoted}", {}),
            ("GET", f"{ada.sessions}/{quoted}", None),
            ("DELETE", f"{ada.sessions}/{quoted}", None),
            ("PATCH", f"{ada.sessions}/{quoted}", {"stateDelta": {}}),
            ("GET", users, None),
            ("GET", f"{ada.sessions}/{quoted}/calls", None),
            ("POST", f"{ada.sessions}/s/calls/{quoted}", {"word": "it happened"}),
        ):
            status, refused = await ada.request(method, path, json=body)
            assert (status, refused["detail"][0]["type"]) in (
                (422, "string_length"),
                (422, "string_pattern_mismatch"),
            ), (method, path)
    assert await nothing_stored(ada)


@pytest.mark.parametrize("wrong", ["a\u0000b", "x" * 257])
async def test_an_answers_id_is_an_id_too(ada: Client, wrong: str) -> None:
    await ada.say(call("deploy", service="x", version="1"), say("Out."))
    for name in (REQUEST, "deploy"):
        part = {"functionResponse": {"id": wrong, "name": name, "response": {"confirmed": True}}}
        status, refused = await ada.post("/run", {"parts": [part]})
        assert (status, refused["detail"][0]["loc"][-1]) == (422, "id")
    assert "deployed" in json.dumps(await ada.answer((ada.request_id(), {"confirmed": True})))


async def test_an_app_or_invocation_of_an_absurd_name_is_not_found(ada: Client) -> None:
    assert (await ada.request("POST", "/run", json=run(appName="\u0000")))[0] == 404
    assert (await ada.request("POST", "/run", json={**RUN, "invocationId": "x\u0000"}))[0] == 422
    assert await nothing_stored(ada)


async def test_what_was_sent_is_repeated_only_as_far_as_it_helps(quick: Client) -> None:
    _, refused = await quick.request("POST", "/run", json=run(userId=["secret" * 1000]))
    assert len(json.dumps(refused)) < 1000


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(plain)
def test_whatever_is_json_is_read_as_what_it_is(value: Any) -> None:
    assert parse(json.dumps(value)) == value


@given(st.text())
def test_whatever_is_sent_is_read_or_refused(text: str) -> None:
    try:
        read = parse(text)
    except BadBody:
        return
    assert read == json.loads(text)
