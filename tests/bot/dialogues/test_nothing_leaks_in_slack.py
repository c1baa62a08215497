"""What a policy redacts is in no output, although the agent repeats all of its secrets."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from adk_confirm.bot.confirmation.decision_texts import ON_ITS_WAY
from adk_confirm.bot.policy.redaction import MASK
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.telemetry.logs import JsonFormatter
from adk_confirm.sandbox.people.seen import Seen
from tests.support.foreign.ear import Ear, listening, saying
from tests.support.foreign.java import Java
from tests.support.leaky import SECRETS
from tests.support.office import ONE, Office, Opens
from tests.support.scraping import get
from tests.support.stores import change
from tests.support.waiting import until

POLICY = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
redact = ["*token"]
"""


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    out, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield out
    root.removeHandler(handler)


def leaks(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text or secret in text.replace("\\", "")]


async def lived_through(at: Office) -> None:
    """Calls that come to every end, with the secrets in all that agents, tools and people say of them."""
    done = await at.ask("unlock")
    await at.bob.clicks(done, "Edit…")
    form = await at.bob.gets_modal("Edit")
    assert list(form.fields) == ["script", "number"], "what holds a secret is no field"
    await form.submits({"number": "2"})
    await at.sees(done, "Done: Unlock")
    failed, lost = await at.ask("jams"), await at.ask("loses")
    for card in (failed, lost):
        await at.bob.clicks(card, "Approve")
    await at.sees(failed, "Failed: Jams")
    await at.sees(lost, "Did this take effect? Loses")
    denied = await at.ask("unlock")
    await at.bob.clicks(denied, "Deny…")
    await (await at.bob.gets_modal("Deny")).submits({"Reason": f"never {SECRETS[0]}, nor {SECRETS[1]}"})
    await at.sees(denied, "Denied: Unlock")
    await at.ann.says("@adk-confirm safely", at.deploys, thread=denied)
    await at.sees(denied, "You know")
    filled = await at.ask("asks")
    await at.bob.clicks(filled, "Approve")
    await (await at.bob.gets_modal("Approve")).submits({"number": "3"})
    await at.sees(filled, "Done: Asks")
    await looked_at(at, done)


async def looked_at(at: Office, done: Seen) -> None:
    """All other ways in which people look."""
    long = await at.ask("unlock 5000")
    await at.refuses(at.bob, long, "All details", "unlock")
    await at.bob.opens_home("Waiting for you")
    await at.ann.opens_home("You asked for")
    await at.bob.commands("/approvals", "", at.deploys)
    await at.bob.finds("Waiting for you", at.deploys)
    await at.cyd.clicks(at.cyd.now(done), "History")
    await at.cyd.gets_modal("History")
    await at.oscar.clicks(long, "Deny…")
    await at.rests()


def written(tx: Tx) -> dict[str, str]:
    """What the store holds to be shown."""
    return {
        "ledger": "\n".join(map(str, tx.all("SELECT * FROM bot_ledger"))),
        "replies": "\n".join(map(str, tx.all("SELECT * FROM bot_outbox WHERE kind = 'answer'"))),
    }


@pytest.mark.slow
async def test_nothing_hidden_comes_out(open_office: Opens, logged: io.StringIO) -> None:
    """What commands print: `test_nothing_leaks.py`."""
    async with open_office(POLICY, target="tests.support.leaky:agent") as at:
        await lived_through(at)
        out = await at.bot.database.read(written)
        out |= {f"{number} {made.method}": str(made.args) for number, made in enumerate(at.slack.calls)}
        for person in (at.ann, at.bob, at.cyd, at.lead, at.oscar):
            for made in (person.sees(at.deploys), person.sees(), str(person.modal()), str(person.home())):
                out[f"{person.name} {made[:20]}"] = made
        out["metrics"] = (await get(f"{at.bot.url}/metrics"))[1]
    out["log"] = logged.getvalue()

    assert {where: leaks(text) for where, text in out.items() if leaks(text)} == {}
    assert out["log"]
    assert MASK in out["ledger"] or json.dumps(MASK)[1:-1] in out["ledger"], "and it is said that it was there"


async def test_what_the_file_hid_while_people_were_asked_stays_hidden_after_it_left_the_file(
    open_office: Opens,
) -> None:
    """The agent's words come before the result is known that they quote."""
    async with open_office(POLICY, target="tests.support.leaky:agent") as at:
        card = await at.ask("unlock")
        await at.rests()
        await at.stops()
        await at.starts(POLICY.replace('redact = ["*token"]', ""))
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "Done: Unlock")
        await at.rests()
        said = {f"{number} {made.method}": str(made.args) for number, made in enumerate(at.slack.calls)}
    assert {where: leaks(text) for where, text in said.items() if leaks(text)} == {}


class Evasive(Java):
    """From its first run that answers something on, its sessions can't be read, until it `tells` again."""

    def __init__(self) -> None:
        super().__init__()
        self.tells = True

    async def get(self, request: web.Request) -> web.Response:
        return await super().get(request) if self.tells else web.Response(status=503)

    async def run_sse(self, request: web.Request) -> web.StreamResponse:
        self.tells = "functionResponse" not in await request.text()
        return await super().run_sse(request)


async def test_words_wait_until_the_result_is_known_that_they_quote(
    open_office: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the policy that hides it has left the file, and the session can't be read while the agent speaks."""
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "foreign.log"))
    policy = '[[policy]]\ntools = ["*"]\napprovers = ["user:U0BOB"]\n'
    hides, server = 'redact = ["deployed"]\n', Evasive()
    async with (
        listening(Ear(java=server)) as ear,
        open_office(policy + hides, target=f'url = "{ear.url}"\napp = "clerk"') as at,
    ):
        card = await at.ask("please deploy search")
        await at.rests()
        await at.stops()
        await at.starts(policy)
        await at.bob.clicks(card, "Approve")
        await at.sees(card, ON_ITS_WAY)
        server.tells = True
        said = await at.sees(card, "I got")
        assert MASK in said.text
        posted = "".join(str(made.args.get("text")) for made in at.slack.calls)
    assert "deployed" in posted
    assert '"search"' not in posted


async def test_what_a_refused_call_hid_is_hidden_in_what_the_agent_says_of_it(open_office: Opens) -> None:
    """Nobody was asked, so no card keeps what the policy hides."""
    async with open_office(POLICY, target="tests.support.leaky:agent") as at:
        said = await at.ann.says("@adk-confirm unlock 9000", at.deploys)
        await at.sees(said, "too long for a window in Slack")
        await at.sees(said, "I used")
        said = await at.ann.says("@adk-confirm misfits", at.deploys)
        await at.sees(said, "The arguments of unlock do not fit", "I used")
        await at.rests()
        posted = {f"{number} {made.method}": str(made.args) for number, made in enumerate(at.slack.calls)}
    assert {where: leaks(text) for where, text in posted.items() if leaks(text)} == {}


async def test_what_a_call_hid_stays_hidden_after_somebody_changed_its_row(open_office: Opens) -> None:
    """Nothing of the row counts any more, and so nobody knows from it what its policy hides."""
    async with open_office(POLICY, target="tests.support.leaky:agent") as at:
        card = await at.ask("unlock")
        await at.bot.database.run(lambda tx: change(tx, "bot_confirmations", sealed=""))
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "I used")
        await at.rests()
        posted = {f"{number} {made.method}": str(made.args) for number, made in enumerate(at.slack.calls)}
    assert {where: leaks(text) for where, text in posted.items() if leaks(text)} == {}


@pytest.mark.parametrize("status", [422, 429, 500])
async def test_what_a_server_repeats_of_a_call_is_in_no_log_and_no_list_of_failed_work(
    open_office: Opens, logged: io.StringIO, status: int
) -> None:
    async with listening(Ear()) as ear, open_office(ONE, target=f'url = "{ear.url}"\napp = "clerk"') as at:
        card = await at.ask("please deploy search")
        await at.rests()
        ear.instead["/run_sse"] = saying(json.dumps({"detail": [{"input": {"token": SECRETS[0]}}]}), status)
        await at.bob.clicks(card, "Approve")
        trouble = await until(lambda: at.bot.database.read(read_trouble))
    assert str(status) in trouble
    assert leaks(trouble) == leaks(logged.getvalue()) == []


def read_trouble(tx: Tx) -> str:
    """Why the work on a session was put off."""
    return tx.value("SELECT trouble FROM jobs WHERE kind = 'session'") or ""
