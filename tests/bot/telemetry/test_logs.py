"""The log: one object a line, with the ids that it is about, and without secrets."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from adk_confirm.bot.audit.checkpoints import checkpoint, read_anchor
from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.store.ledger_rows import write_steps
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.pause import pause_runs, switch_runs
from adk_confirm.bot.store.repository import now
from adk_confirm.bot.telemetry.spans import log_line
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.telemetry.logs import JsonFormatter, TextFormatter, configure, log_context
from tests.support.deciding import NOON
from tests.support.forked import ROOT
from tests.support.office import BOTH_WAYS, LAB, Opens
from tests.support.stores import KEYS, SECRET, change_job

SECRETS = ("t0p-s3cret", "Z0RA")
"""In every argument, reason and result; in a real one nobody knows what to look for."""

POLICY = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
redact = ["token"]
"""


@pytest.fixture(params=[TextFormatter(), JsonFormatter()], ids=["text", "json"])
def written(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """Everything, from every library too, through the formatter that `serve` uses."""
    out, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(out)
    handler.setFormatter(request.param)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    names = ("slack_bolt", "slack_sdk", "aiohttp", "sqlalchemy", "sqlalchemy.engine", "asyncio", "adk_confirm")
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield out
    root.removeHandler(handler)


def a_line(args: JsonObject) -> bool:
    return "adk_confirmation_line" in str(args.get("metadata"))


@pytest.mark.slow
@BOTH_WAYS
async def test_neither_secrets_nor_arguments_whatever_the_level(open_office: Opens, written: io.StringIO) -> None:
    """Everything that can be done to a call, at DEBUG, with Slack failing in between."""
    async with open_office(POLICY, target=LAB) as at:
        at.slack.faults.fails("chat.update", status=503)
        at.slack.faults.refuses("chat.postMessage", "invalid_blocks", where=a_line)
        at.slack.faults.garbles("agents.sessions.setStatus")
        card = await at.ask('pay {"to": "Z0RA-PAYEE", "amount": 20, "token": "t0p-s3cret"}')
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Done: Pay", at.deploys, thread=card)
        for line in ('breaks {"why": "Z0RA-WHY t0p-s3cret"}', 'loses {"what": "Z0RA-WHAT"}'):
            card = await at.ask(line)
            await at.bob.clicks(card, "Approve")
            await at.rests()
        card = await at.ask('pay {"to": "Z0RA-PAYEE", "amount": 20, "token": "t0p-s3cret"}')
        await at.oscar.clicks(card, "Approve")
        await at.bob.clicks(card, "Edit…")
        await (await at.bob.gets_modal("Edit")).submits({"to": "Z0RA-OTHER"})
        await at.ann.finds("Z0RA-OTHER", at.deploys, thread=card)
        card = await at.ask('order {"item": "Z0RA-IS-NO-ITEM"}\npay {"to": "Z0RA-PAYEE", "amount": 7}')
        await at.bob.clicks(card, "Deny…")
        await (await at.bob.gets_modal("Deny")).submits({"Reason": "Z0RA-REASON"})
        await at.ann.says("@adk-confirm fail Z0RA-WORDS", at.deploys)
        # Rows that nobody can read, and a store that is gone under a click.
        card = await at.ask('pay {"to": "Z0RA-PAYEE", "amount": 20}')
        await at.ann.commands("/approvals", "Z0RA-COMMAND", at.deploys)
        await at.rests()
        broken = '{"v":1,"asked":{"tool":"Z0RA-TOOL","arguments":"Z0RA-NOT-AN-OBJECT"}}'
        await at.bot.database.run(lambda tx: tx.run("UPDATE bot_confirmations SET body = :body", body=broken))
        await at.bot.database.run(lambda tx: change_job(tx, "confirmation", due_at=tx.now()))
        await at.later(seconds=5)
        await at.bob.clicks(card, "History")
        card = await at.ask('pay {"to": "Z0RA-PAYEE", "amount": 20}')
        await at.bot.database.close()
        await at.bob.clicks(card, "Approve")

    lines = written.getvalue().splitlines()
    assert len(lines) > 100
    assert [line for line in lines if any(secret in line for secret in SECRETS)] == []
    tokens = (at.slack.bot_token, at.slack.signing_secret, at.slack.app_token, "ticket=")
    assert [line for line in lines if any(token in line for token in tokens)] == []


def messages_about(written: io.StringIO, ids: str) -> list[str]:
    """The steps of the ledger that the log tells of what has these ids, in their order."""
    found_lines = []
    for line in written.getvalue().splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            if found["logger"] == "adk_confirm.ledger":
                assert found["level"] == "info"
                parts = [f"{name} {found[name]}" for name in ("session", "confirmation") if name in found]
                found_lines += [found["message"]] if ", ".join(parts) == ids else []
        elif line.startswith("INFO adk_confirm.ledger: ") and line.partition(" [")[2].rstrip("]") == ids:
            found_lines.append(line.removeprefix("INFO adk_confirm.ledger: ").partition(" [")[0])
    return found_lines


async def test_each_step_of_the_ledger_is_a_line_with_its_ids(open_office: Opens, written: io.StringIO) -> None:
    async with open_office(POLICY, target=LAB) as at:
        card = await at.ask('pay {"to": "Z0RA-PAYEE", "amount": 20, "token": "t0p-s3cret"}')
        await at.oscar.clicks(card, "Approve")
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Done: Pay", at.deploys, thread=card)
        await switch_runs(at.bot.database, pause_runs)
        (name,) = await at.bot.database.read(lambda tx: tx.column("SELECT id FROM bot_confirmations"))

    session = f"session slack-T0ACME-{at.deploys.id}-{card.message.thread_ts}"
    lines = messages_about(written, f"{session}, confirmation {name}")
    (heard,) = [line for line in messages_about(written, session) if line.startswith("heard ")]
    numbers = sorted(line.partition(" (")[2] for line in [*lines, heard])
    assert numbers == [f"line {number} of its chain)" for number in range(1, len(lines) + 2)]
    steps = [line.partition(" (")[0] for line in lines]
    assert [step for step in steps if step != "begun"] == ["asked", "vote refused", "approval", "approved", "done"]
    assert messages_about(written, "") == ["paused (line 1 of its chain)"]
    ledger = [line for line in written.getvalue().splitlines() if "adk_confirm.ledger" in line]
    assert [line for line in ledger if any(secret in line for secret in SECRETS)] == []


def lines_of(formatter: logging.Formatter, name: str, message: str, *args: object, exc: bool = False) -> str:
    error: BaseException | None = None
    try:
        try:
            int("Z0RA")
        except ValueError as cause:
            raise KeyError("Z0RA") from cause
    except KeyError as raised:
        error = raised
    exc_info = (type(error), error, error.__traceback__) if exc and error else None
    record = logging.LogRecord(name, logging.ERROR, "/x/there.py", 7, message, args, exc_info)
    return formatter.format(record)


def test_an_exception_is_logged_by_kind_and_place() -> None:
    written = lines_of(TextFormatter(), "bot.x", "it failed", exc=True)
    assert "Z0RA" not in written
    assert written.startswith("ERROR bot.x: it failed\n  KeyError\n")
    assert "\n  ValueError\n" in written, "what caused it too"
    assert "in lines_of" in written
    assert "Z0RA" not in lines_of(JsonFormatter(), "bot.x", "it failed", exc=True)


@pytest.mark.parametrize(
    ("message", "args", "sentence"),
    [
        ("Failed to run listener (error: Z0RA)", (), "Failed to run listener"),
        ("sending %s to %s", ("Z0RA", "x"), "sending"),
        ("{'text': 'Z0RA'}", (), "something to say"),
        ("Task failed\nfuture: Z0RA", (), "Task failed"),
    ],
)
def test_of_a_library_that_carries_our_words_only_the_opening_is_logged(
    message: str, args: tuple[object, ...], sentence: str
) -> None:
    assert lines_of(TextFormatter(), "slack_bolt.AsyncApp", message, *args) == (
        f"ERROR slack_bolt.AsyncApp: {sentence} … (there.py:7)"
    )
    assert "Z0RA" in lines_of(TextFormatter(), "my_agents.oncall", "Z0RA says %s", "hello"), (
        "the user's own lines are theirs"
    )


def test_what_nobody_caught() -> None:
    """In the process's main thread, and in another."""
    script = """
import threading
from adk_confirm.runtime.telemetry.logs import configure
configure()
thread = threading.Thread(target=int, args=("Z0RA",)); thread.start(); thread.join()
int("Z0RA")
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Z0RA" not in ended.stderr
    assert ended.stderr.count("CRITICAL adk_confirm: ended by what nobody caught\n  ValueError\n") == 2


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_a_log_is_an_anchor(formatter: logging.Formatter) -> None:
    point = checkpoint(None, {}, NOON, KEYS)
    line = lines_of(formatter, "adk_confirm.audit", "%s", point.publish(KEYS))
    assert read_anchor(line, KEYS) == {1: point.sealed}


def test_nobody_begins_a_line_of_the_log_with_what_they_name_something() -> None:
    named, spelled = (
        "x\nINFO bot.y\x1b\x7f\u2028\x85\u202e\u2066\u200b\ud800\U000e0041é",
        ("x\\nINFO bot.y\\u001b\\u007f\\u2028\\u0085\\u202e\\u2066\\u200b\\ud800\\udb40\\udc41é"),
    )
    assert lines_of(TextFormatter(), "bot.x", "no tool %s", named) == f"ERROR bot.x: no tool {spelled}"
    line = lines_of(JsonFormatter(), "bot.x", "no tool %s", named)
    assert (spelled in line, json.loads(line)["message"]) == (True, f"no tool {named}")


def test_ids_hold_for_what_is_inside() -> None:
    with log_context(session="s-1"), log_context(confirmation="c-1"):
        assert lines_of(TextFormatter(), "bot.x", "hm") == "ERROR bot.x: hm [session s-1, confirmation c-1]"
        line = json.loads(lines_of(JsonFormatter(), "bot.x", "hm"))
        assert (line["session"], line["confirmation"]) == ("s-1", "c-1")
    assert lines_of(TextFormatter(), "bot.x", "hm") == "ERROR bot.x: hm"


def test_the_level_is_for_our_own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """At DEBUG, the SDKs write down what they send."""
    root = logging.Logger("root")
    monkeypatch.setattr(logging, "root", root)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # and put back
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(logging.Logger, "manager", logging.Manager(root))  # type: ignore[arg-type]  # a root all the same
    root.addHandler(logging.StreamHandler())  # a launcher's
    configure("json", "debug")
    assert logging.getLogger("adk_confirm.bot.app").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("slack_sdk.web").isEnabledFor(logging.INFO)
    (handler,) = root.handlers
    assert isinstance(handler.formatter, JsonFormatter)


async def test_what_is_taken_back_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def fails(tx: Tx) -> None:
        write_steps(tx, "oncall/u/s", Step(kind=LineKind.PAUSED, at=now(tx)))
        raise Invalid("It is taken back.")

    store = await open_store(":memory:", SECRET)
    store.listen(log_line)
    with pytest.raises(Invalid):
        await store.run(fails)
    await store.close()
    assert "adk_confirm.ledger" not in caplog.text
