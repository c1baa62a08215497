"""Our own API behind the whole bot: it keeps the same promises as an agent in the bot's process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.foreign.kinds import KINDS
from tests.support.foreign.rig import Foreign
from tests.support.office import Office, office

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    (ours,) = [kind for kind in KINDS if kind.name == "ours"]
    with ours.served(tmp_path_factory.mktemp("ours")) as started:
        yield started


@pytest.fixture
async def at(
    server: Foreign, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Office]:
    server.count_anew()
    target = f'url = "{server.url}"\napp = "clerk"\ntimeout = "20s"'
    async with office(sqlite_url, tmp_path / "log", monkeypatch, target=target) as opened:
        yield opened


async def test_an_approver_edits_what_runs(at: Office, server: Foreign) -> None:
    card = await at.ask("please deploy search")
    await at.bob.clicks(card, "Edit…")
    form = await at.bob.gets_modal("Edit")
    assert "denies this call" not in str(form)
    await form.submits({"service": "mail"})
    await at.ann.finds("Done: Deploy", at.deploys, thread=card)
    assert server.ran() == [{"tool": "deploy", "service": "mail"}]


async def test_one_approval_does_not_wait_for_the_other(at: Office, server: Foreign) -> None:
    said = await at.ann.says("@adk-confirm please pay 1500 and deploy search", at.deploys)
    first = await at.ann.finds("through clerk · reimburse", at.deploys, thread=said)
    await at.bob.clicks(first, "Approve")
    await at.ann.finds("Done: Reimburse", at.deploys, thread=said)
    assert server.ran() == [{"tool": "reimburse", "amount": 1500}]
