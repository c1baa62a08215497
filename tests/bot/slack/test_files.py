"""Files that came with a message, as the model gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from adk_confirm.bot.slack.files import attachments
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.wire import Blob
from adk_confirm.sandbox.workspace.records import StoredFile
from tests.support.deciding import TEAM
from tests.support.outgoing import Outgoing, outgoing


@pytest.fixture
async def out() -> AsyncIterator[Outgoing]:
    async with outgoing() as ready:
        yield ready


def attached(out: Outgoing, name: str, content: bytes, mimetype: str = "text/plain") -> JsonObject:
    """As the event tells of it."""
    stored = StoredFile(f"F{len(out.slack.workspace.files)}", TEAM, name, out.asker.id, content, out.deploys.id)
    out.slack.workspace.files[stored.id] = stored
    address = f"{out.slack.base}/files-pri/{TEAM}-{stored.id}/{name}"
    return {"id": stored.id, "name": name, "mimetype": mimetype, "url_private_download": address}


async def test_files_are_handed_to_the_model_as_they_are(out: Outgoing) -> None:
    files = [attached(out, "notes.txt", b"two nights"), attached(out, "a.png", b"\x89PNG", "image/png")]
    assert await attachments(out.api.client, files) == (
        Blob(display_name="notes.txt", mime_type="text/plain", data=b"two nights"),
        Blob(display_name="a.png", mime_type="image/png", data=b"\x89PNG"),
    )


async def in_words(out: Outgoing, *files: JsonObject) -> list[str]:
    return [(attachment.data or b"").decode() for attachment in await attachments(out.api.client, files)]


async def test_what_can_not_be_read_is_reported_in_its_place(out: Outgoing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adk_confirm.bot.slack.files.MOST_BYTES", 2 * 1024 * 1024)
    large = attached(out, "large.bin", b"x" * (2 * 1024 * 1024 + 1))
    assert await in_words(out, large) == ["The file large.bin could not be read: it is larger than 2 MB."]
    out.slack.install.scopes -= {"files:read"}
    assert await in_words(out, attached(out, "a.txt", b"a")) == [
        "The file a.txt could not be read: Slack does not hand it out to this app, which lacks the scope files:read."
    ]


async def test_a_file_that_somebody_deleted_meanwhile(out: Outgoing) -> None:
    file = attached(out, "a.txt", b"a")
    out.slack.workspace.files.clear()
    assert await in_words(out, file) == ["The file a.txt could not be read: Slack does not hand it out (404)."]


async def test_the_token_goes_to_nobody_but_slack(out: Outgoing) -> None:
    foreign = ("https://evil.example/a", "http://files.slack.com/a", "https://slack.com.evil.example/a")
    for address in foreign:
        texts = await in_words(out, {"name": "a", "url_private_download": address})
        assert texts == ["The file a could not be read: it is not kept at Slack."]
    texts = await in_words(out, {"name": "a", "url_private_download": "https://[a"})
    assert texts == ["The file a could not be read: Slack did not hand it out in time."]
    # As of a file in a channel that another company shares.
    texts = await in_words(out, {"id": "F1", "file_access": "check_file_info"})
    assert texts == ["The file file could not be read: Slack does not say where it is."]


async def test_ten_files_are_read_and_the_others_named(out: Outgoing) -> None:
    texts = await in_words(out, *(attached(out, f"{n}.txt", b"ok") for n in range(12)))
    assert texts[:10] == ["ok"] * 10
    assert texts[10:] == [f"The file {n}.txt could not be read: only 10 files are read." for n in (10, 11)]


async def test_slack_that_can_not_be_reached_is_reported(out: Outgoing) -> None:
    file = attached(out, "a.txt", b"a")
    await out.slack._runner.cleanup()  # type: ignore[union-attr]  # it runs
    assert await in_words(out, file) == ["The file a.txt could not be read: Slack did not hand it out in time."]
