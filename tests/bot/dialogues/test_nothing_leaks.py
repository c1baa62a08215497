"""What a policy redacts is in no command's output, wherever it was in the call."""

from __future__ import annotations

import json

import pytest

from adk_confirm.bot.confirmation.confirmation import Ask, OutcomeKind, VoteKind
from adk_confirm.bot.policy.redaction import MASK
from adk_confirm.runtime.jsontypes import JsonObject
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, BEN, MALLORY
from tests.support.stores import change_job

SECRET = "pa55word-of-prod"
NESTED = "k3y-deep-inside"
LATER = "n3w-in-a-result"
SHORT = "zq-9x"
FILE = """
[[policy]]
inputs = ["about"]
approvers = ["user:U0ANNA"]
redact = ["pin"]

[[policy]]
tools = ["deploy*"]
approvers = ["user:U0ANNA", "user:U0BEN"]
quorum = 2
redact = ["*token*", "password", "pin"]
expires_after = "2h"
"""
ARGUMENTS: JsonObject = {
    "token": SECRET,
    "env": {"list": [{"api_token": NESTED, "pin": SHORT}], "note": "as ever"},
    "script": "curl -H @headers",
    "body": {"password": SECRET},
}


@pytest.fixture
def at(back: Backoffice) -> Backoffice:
    back.policies(FILE)
    return back


async def lived_through(at: Backoffice) -> list[str]:
    """Confirmations in every state, with the secrets in all that anybody said or got about them."""
    hint = f"Deploy with {SECRET} and {NESTED}?"
    names = [await at.asks("deploy", ARGUMENTS, hint=hint) for _ in range(6)]
    waits, done, failed, denied, edited, unknown = names
    for name in (done, failed, unknown):
        await at.vote(name, MALLORY)
        await at.vote(name, ANNA)
        await at.vote(name, BEN)
    await at.runs(done, json.dumps({"token": LATER, "echo": [SECRET, LATER], "said": f"{NESTED}!"}))
    await at.runs(failed, f"Traceback: no {SECRET} for {NESTED}", OutcomeKind.FAILED)
    await at.runs(unknown, f"lost with {SECRET}", OutcomeKind.UNKNOWN)
    await at.vote(denied, ANNA, VoteKind.DENY, reason=f"never {SECRET} nor {NESTED}")
    await at.vote(edited, ANNA, script=f"echo {SECRET}")
    await at.vote(edited, BEN, env={"note": f"{NESTED} again"}, token="overwritten-s3cret")
    await at.vote(waits, ANNA)
    asked = await at.asks("about", {}, ask=Ask.INPUT, wants_payload=True, payload={"pin": "", "days": 0})
    assert (await at.vote(asked, ANNA, payload={"pin": SHORT, "days": 2})).counted
    return [*names, asked]


async def outputs(at: Backoffice, names: list[str]) -> dict[str, str]:
    commands = [
        *("pending --json", "audit export", "audit export --format csv", "audit verify"),
        *("audit show system", f"audit show {at.key}", "audit purge --before 1d"),
        *(f"audit show {name}" for name in names),
        *("reapply --dry-run", f"withdraw {names[0]}", f"withdraw {names[1]}", "pause", "resume"),
    ]
    said = {command: await at.command(*command.split()) for command in commands}
    await at.command("audit", "export", "--output", "ledger.csv", "--format", "csv")
    written = {"a file": (at.directory / "ledger.csv").read_text()}
    return {command: one.out + one.err for command, one in said.items()} | written


def leaks(text: str) -> list[str]:
    hidden = (SECRET, NESTED, LATER, "overwritten-s3cret", SHORT)
    return [secret for secret in hidden if secret in text or secret in text.replace("\\", "")]


async def test_in_no_output_of_any_command(at: Backoffice) -> None:
    names = await lived_through(at)
    said = await outputs(at, names)
    assert {command: leaks(text) for command, text in said.items() if leaks(text)} == {}
    for command in ("pending --json", "audit export", "audit export --format csv", f"audit show {names[1]}"):
        assert MASK in said[command] or json.dumps(MASK)[1:-1] in said[command], "and it is said that it was there"


async def test_nothing_leaks_when_the_file_changes(at: Backoffice) -> None:
    names = await lived_through(at)
    file = at.directory / "adk-confirm.toml"
    for change in (("quorum = 2", "quorum = 1"), ("deploy*", "refund")):
        file.write_text(file.read_text().replace(*change))
        said = await outputs(at, names)
        assert {command: leaks(text) for command, text in said.items() if leaks(text)} == {}


async def test_nothing_leaks_when_a_condition_fails_on_a_secret(at: Backoffice) -> None:
    """The expression library quotes the value that it could not read."""
    at.policies(FILE + "when = \"args.all(name, name != 'token' || duration(args[name]) > duration('1s'))\"\n")
    refused = await at.refuses("deploy", ARGUMENTS)
    assert leaks(refused) == []
    content = "SELECT content FROM bot_ledger WHERE kind = 'call refused'"
    (content_stored,) = await at.database.read(lambda tx: tx.column(content))
    assert leaks(content_stored or "") == []
    text = json.dumps(ARGUMENTS)
    said = await at.command("explain", "--tool", "deploy", "--args", text)
    assert leaks(said.out + said.err) == []


async def test_nothing_leaks_when_rows_are_parked(at: Backoffice) -> None:
    names = await lived_through(at)
    await at.database.run(lambda tx: change_job(tx, "confirmation", parked_at=1.0, trouble="odd"))
    await at.database.run(lambda tx: change_job(tx, "session", parked_at=1.0, trouble="odd"))
    said = await outputs(at, names)
    assert {command: leaks(text) for command, text in said.items() if leaks(text)} == {}
