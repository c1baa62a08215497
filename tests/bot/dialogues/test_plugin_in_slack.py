"""A real google-adk server with our plugin behind the whole bot: edits arrive, forged answers are refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.support.foreign.passers_by import answered_by_others
from tests.support.foreign.rig import Foreign, foreign, google_adk
from tests.support.office import Office, Opens

SECRET = "shared by both, and by nobody else"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    room = tmp_path_factory.mktemp("adk")
    with foreign(room, *google_adk(), SESSIONS=f"sqlite:///{room / 'adk.db'}", PLUGIN="1", SECRET=SECRET) as started:
        yield started


@pytest.fixture
def opens(
    server: Foreign, open_office: Opens, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str | None], AbstractAsyncContextManager[Office]]:
    """The office, with this secret or with none."""
    server.count_anew()

    @asynccontextmanager
    async def opened(secret: str | None) -> AsyncIterator[Office]:
        agent = f'url = "{server.url}"\napp = "clerk"\ntimeout = "20s"'
        if secret is not None:
            monkeypatch.setenv("PLUGIN_SECRET", secret)
            agent += '\nsecret_env = "PLUGIN_SECRET"'
        async with open_office(target=agent, time_moves=False) as at:
            yield at

    return opened


@pytest.fixture
async def at(opens: Opens) -> AsyncIterator[Office]:
    async with opens(SECRET) as opened:
        yield opened


async def test_an_edit_has_the_tool_s_types_and_reaches_it(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    await at.bob.clicks(card, "Edit…")
    form = await at.bob.gets_modal("Edit")
    assert "denies this call" not in str(form)
    assert await form.submits({"amount": "much"}) is None  # a field for numbers
    assert [*form.errors] == ["amount"]
    await form.submits({"amount": "1200"})

    await at.sees(card, "Done: Reimburse")
    assert server.ran() == [{"tool": "reimburse", "amount": 1200}]


async def test_a_reason_reaches_the_model_in_the_same_turn(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    await at.denies(at.bob, card, "Book the cheaper place")

    said = await at.sees(card, "I got")
    assert "Book the cheaper place" in said.text
    assert server.ran() == []


@pytest.mark.parametrize("confirmed", [True, False])
async def test_an_answer_from_elsewhere_counts_for_nothing(at: Office, server: Foreign, confirmed: bool) -> None:
    card = await at.ask("please pay 1500")
    await answered_by_others(server, at, card, confirmed=confirmed, takes=500)
    await at.ann.says("@adk-confirm hello", at.deploys, thread=card)
    await at.sees(card, "I see: hello")
    assert server.ran() == []

    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Done: Reimburse")
    assert server.ran() == [{"tool": "reimburse", "amount": 1500}]


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("known to somebody else altogether", "its plugin has another secret than this app"),
        (None, "this app has no secret to sign with"),
    ],
    ids=["another secret", "no secret"],
)
async def test_if_the_secrets_differ_people_learn_why_and_nothing_runs(
    opens: Opens, server: Foreign, secret: str | None, said: str
) -> None:
    async with opens(secret) as at:
        card = await at.ask("please pay 1500")
        await at.bob.clicks(card, "Approve")
        await at.sees(card, said)
        assert server.ran() == []
