"""Bytes that anybody can send to the bot: before the signature is checked they are only counted and hashed.

And what a hostile server or model can send it: it is refused with a sentence, and the bot goes on.
"""

from __future__ import annotations

import asyncio
import codecs
import gzip
import io
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, urlencode, urlsplit
from uuid import uuid4

import aiohttp
import pytest
from typing_extensions import Buffer

from adk_confirm.blocks.words import FIELD_UNCHECKED, FORM_UNREADABLE
from adk_confirm.bot.inbound.bolt_app import MOST_BYTES, MOST_FIELDS
from adk_confirm.runtime.adk.signing import Announcement, announcement_metadata
from adk_confirm.sandbox.server.delivery import Reply
from tests.support.foreign import kept
from tests.support.foreign import replay as replayed
from tests.support.foreign.ear import Ear, listening
from tests.support.foreign.java import Java
from tests.support.foreign.wishes import Plain
from tests.support.office import BOTH_WAYS, ON_EITHER, Office, Opens

pytestmark = pytest.mark.filterwarnings("ignore:BasicAuth is deprecated")

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
SLOW = "slow-codec"


@pytest.fixture
def decoded() -> Iterator[list[int]]:
    """How much was handed to a decoder that only its sender asks for. Python's own punycode takes a minute for 3 MB."""
    asked: list[int] = []

    def decode(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
        asked.append(len(bytes(data)))
        return bytes(data).decode("latin-1"), len(bytes(data))

    def find(name: str) -> codecs.CodecInfo | None:
        return codecs.CodecInfo(codecs.latin_1_encode, decode, name=SLOW) if name.replace("_", "-") == SLOW else None

    codecs.register(find)
    yield asked
    codecs.unregister(find)


async def sends(at: Office, body: bytes, headers: dict[str, str]) -> Reply:
    async with (
        aiohttp.ClientSession() as http,
        http.post(at.slack.outbox.request_url, data=io.BytesIO(body), headers=headers) as got,
    ):
        return Reply(got.status, await got.text(), no_retry=False)


async def test_a_stranger_decides_nothing_about_how_bytes_are_read(at: Office, decoded: list[int]) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    body = b"a" * (MOST_BYTES - 1)
    good = at.slack.outbox.signed(body.decode(), JSON)
    for kind in (f"{JSON}; charset={SLOW}", f"{FORM}; charset={SLOW}", f"{JSON}; charset=punycode"):
        unsigned = {**good, "Content-Type": kind, "X-Slack-Signature": f"v0={'0' * 64}"}
        stranger = asyncio.create_task(sends(at, body, unsigned))
        assert (await at.oscar.clicks(at.oscar.now(card), "Approve")).acked
        assert (await stranger).status == 401
    assert decoded == []

    signed = await sends(at, body, {**good, "Content-Type": f"{JSON}; charset={SLOW}"})
    assert (signed.status, "not JSON" in signed.text) == (400, True)
    assert decoded == [], "UTF-8, whatever the sender says"


async def test_slacks_body_is_utf_8_and_not_compressed(at: Office) -> None:
    bomb = gzip.compress(b" " * (1 << 26))
    card = await at.ask("reimburse 1500 for the team dinner")
    raw = urlencode({"payload": json.dumps({"type": "block_actions"})})
    good = at.slack.outbox.signed(raw, FORM)
    for encoding in ("gzip", "deflate", "br", "x-gzip", "gzip, identity"):
        for body in (raw.encode(), gzip.compress(raw.encode()), bomb):
            reply = await sends(at, body, {**good, "Content-Encoding": encoding})
            assert (reply.status, "uncompressed" in reply.text) == (400, True)
    assert "uncompressed" not in (await sends(at, raw.encode(), {**good, "Content-Encoding": "identity"})).text

    fields = "&".join(["a=1"] * (MOST_FIELDS + 1))
    reply = await sends(at, fields.encode(), at.slack.outbox.signed(fields, FORM))
    assert (reply.status, "more than 100 fields" in reply.text) == (400, True)
    assert "Needs 1 approval" in at.ann.now(card)


async def test_what_can_be_refused_by_its_head_is_not_read(at: Office) -> None:
    """The body of these never ends: the answer does not wait for it."""
    good = at.slack.outbox.signed("{}", JSON)
    stamp, signature = "X-Slack-Request-Timestamp", "X-Slack-Signature"
    heads = (
        {**good, stamp: ""},
        {**good, stamp: str(int(time.time()) - 301)},
        {**good, stamp: str(int(time.time()) + 3600)},  # not 301: a slow machine could make it good in the end
        {**good, signature: ""},
        {**good, signature: "v0=guessed"},
        {**good, "Content-Encoding": "gzip"},
    )
    address = urlsplit(at.slack.outbox.request_url)
    for head in heads:
        lines = [f"POST {address.path} HTTP/1.1", "Host: bot", "Content-Length: 1000000"]
        lines += [f"{name}: {value}" for name, value in head.items()]
        assert await status_of(address, "\r\n".join([*lines, "", "{"])) in (400, 401), head


async def test_a_body_that_never_ends_keeps_no_connection(open_office: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adk_confirm.runtime.rest.listening.BODY_WITHIN", 0.1)
    async with open_office() as at:
        address = urlsplit(at.slack.outbox.request_url)
        head = {**at.slack.outbox.signed("{}", JSON), "X-Slack-Signature": f"v0={'0' * 64}"}
        lines = [f"POST {address.path} HTTP/1.1", "Host: bot", "Content-Length: 1000000"]
        lines += [f"{name}: {value}" for name, value in head.items()]
        assert await status_of(address, "\r\n".join([*lines, "", "{"])) == 408


async def status_of(address: SplitResult, begun: str) -> int:
    """The answer to a request of which no more ever comes."""
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(begun.encode())
        async with asyncio.timeout(60):
            return int((await reader.readline()).split()[1])
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@BOTH_WAYS
async def test_half_a_surrogate_in_a_reason_keeps_no_denial_from_the_agent(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.denies(at.bob, card, "no\ud800")
    await at.ann.finds("no?", at.deploys, thread=card)
    await at.rests()
    assert at.ran() == []


# Forms with a schema from a hostile server: they are refused with a sentence, and the bot goes on


TOLD = FORM_UNREADABLE.format(why="it takes more than 0.1 s or 10 MB to check")
TARGET = "tests.support.costly_schemas"


@pytest.mark.office(target=f"{TARGET}:drawing")
async def test_a_form_that_costs_too_much_to_draw(at: Office) -> None:
    card = await at.ask("pay 5")
    await at.bob.clicks(card, "Edit…")
    note = await at.bob.finds(TOLD, at.deploys, thread=card)
    assert note.ephemeral
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("Approved by bob", at.deploys, thread=card)


@pytest.mark.office(target=f"{TARGET}:sending")
async def test_a_value_that_costs_too_much_to_check(at: Office) -> None:
    card = await at.ask("pay 5")
    await at.bob.clicks(card, "Edit…")
    form = await at.bob.gets_modal("Edit")
    value: object = "no object"
    for _ in range(14):  # three ways on at each level: four million places
        value = {"x": value}
    answer = await form.submits({"note": json.dumps(value)})
    assert FIELD_UNCHECKED in str(answer)


# Names and ids from a hostile server or model that no database takes


@pytest.fixture
async def ear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Ear]:
    """A server that runs in this process."""
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    async with listening(Ear()) as opened:
        yield opened


@pytest.mark.parametrize("odd", ["x" * 300, "\0", "\ud800"], ids=["long", "NUL", "half a surrogate"])
@ON_EITHER
async def test_ids_that_no_database_takes(
    open_office: Opens, ear: Ear, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM puts a model's signature into the id of its call, and a server may send anything."""
    for ids in (kept, replayed):
        monkeypatch.setattr(ids, "uuid4", lambda: f"{uuid4()}{odd}")
    async with open_office(target=f'url = "{ear.url}"\napp = "clerk"') as at:
        card = await at.ask("please pay 1500")
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "Done: Reimburse", 'I got [["reimburse"')
        assert at.ran() == [{"tool": "reimburse", "amount": 1500}]


@pytest.mark.parametrize("where", ["call", "form", "preview"])
@ON_EITHER
async def test_a_name_that_no_database_takes_is_refused(
    open_office: Opens, ear: Ear, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may name an argument after half a surrogate, a server a field of a form or of a preview. The session goes
    on."""
    odd: Plain = {"\ud800": {"type": "string"}}
    twin = Java.asking

    def announces(self: Java, call: Plain, confirmation: Plain) -> Iterator[tuple[list[Plain], Plain]]:
        announced = announcement_metadata({call["id"]: Announcement(gated=True, preview={"shows": odd})})
        for parts, more in twin(self, call, confirmation):
            yield parts, {**more, "customMetadata": announced}

    def asks(call: Plain, confirmation: Plain) -> Plain:
        if where == "preview":
            return kept.request_about(call, confirmation)
        if where == "call":
            return kept.request_about({**call, "args": {**call["args"], **odd}}, confirmation)
        args = {"toolName": "survey", "message": "How?", "response_schema": {"type": "object", "properties": odd}}
        return {"functionCall": {"id": f"adk-{uuid4()}", "name": "adk_request_input", "args": args}}

    asking = "tests.support.foreign.java.request_about"
    monkeypatch.setattr(asking, asks)
    monkeypatch.setattr(Java, "asking", announces if where == "preview" else twin)
    async with open_office(target=f'url = "{ear.url}"\napp = "clerk"') as at:
        said = await at.ann.says("@adk-confirm please pay 1500", at.deploys)
        await at.sees(said, "It can't be shown, so nobody can approve it")
        monkeypatch.setattr(asking, kept.request_about)
        monkeypatch.setattr(Java, "asking", twin)
        await at.ann.says("@adk-confirm please pay 7", at.deploys, thread=said)
        card = await at.bob.finds("amount 7", at.deploys, thread=said)
        await at.bob.clicks(card, "Approve")
        await at.sees(said, "Done: Reimburse")
        assert at.ran() == [{"tool": "reimburse", "amount": 7}]
