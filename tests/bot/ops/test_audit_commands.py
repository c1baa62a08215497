"""`adk-confirm audit export`, `show` and `verify`, as auditors use them."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import pty
import re
import stat
import sys
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from adk_confirm.blocks import words
from adk_confirm.bot.audit.checkpoints import CheckpointKey
from adk_confirm.bot.audit.ledger import LedgerLine, LineKind, append, stamp
from adk_confirm.bot.cli import main
from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.confirmation import Confirmation, OutcomeKind, VoteKind
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.confirmation.states import Step, Transition
from adk_confirm.bot.ops import command
from adk_confirm.bot.ops.audit_report import Tally
from adk_confirm.bot.store.audit_log import LineFilter, pages
from adk_confirm.bot.store.cast_vote import SubmittedVote, cast
from adk_confirm.bot.store.known_names import MOST, keep_names, read_names
from adk_confirm.bot.store.ledger_rows import find_head, write_steps
from adk_confirm.bot.store.repository import find_session, save
from adk_confirm.bot.store.transactions import follow_outcome, save_preview
from adk_confirm.bot.worker.checkpoint_job import seal_moved
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store import transaction
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.seal import Seal
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, ASKER, BEN, MALLORY, call_that_became, every_state, full_member
from tests.support.office import ON_POSTGRES, POLICY, Opens, config, environment
from tests.support.postgres import ALONE
from tests.support.stores import KEYS
from tests.support.terminal import whole
from tests.support.waiting import until

SESSION = "slack-T0ACME-C0DEPLOYS-1.1"


async def deployed(at: Backoffice, **arguments: str) -> str:
    """Asked, edited by Anna, refused to Mallory, approved by both, done."""
    deploy = await at.asks("deploy_api", {"version": "2.4.1", "note": "=cmd()", **arguments})
    await at.vote(deploy, MALLORY)
    await at.vote(deploy, ANNA, version="2.4.2")
    await at.vote(deploy, BEN)
    await at.runs(deploy, '{"ok":"\\u001b[2J"}')
    return deploy


async def test_every_line_is_exported_in_the_order_of_time(at: Backoffice) -> None:
    await deployed(at)
    at.clock.passes(hours=1)
    await at.hears("and refund", thread="2.2")
    refund = await at.asks("refund", {"amount": 1500})
    await at.vote(refund, ANNA, VoteKind.DENY, reason="too much")
    said = await at.command("audit", "export")
    lines = [json.loads(line) for line in said.lines]
    assert [line["kind"] for line in lines] == [
        *("asked", "vote refused", "edited", "approval", "approved", "begun", "done"),
        *("asked", "denied"),
    ]
    assert [line["tool"] for line in lines] == ["deploy_api"] * 7 + ["refund"] * 2
    edited = lines[2]["content"]
    assert (edited["before"], edited["after"]) == ({"version": "2.4.1"}, {"version": "2.4.2"})
    assert lines[-1]["content"]["reason"] == "too much"


async def test_what_is_wanted_can_be_said(at: Backoffice) -> None:
    deploy = await deployed(at)
    at.clock.passes(hours=2)
    session = await at.hears("and refund", thread="2.2")
    await at.asks("refund", {"amount": 1500})

    async def kinds(*options: str) -> list[str]:
        return [json.loads(line)["kind"] for line in (await at.command("audit", "export", *options)).lines]

    everything = len(await kinds())
    assert everything == 8
    later = (at.clock.now.isoformat(),)
    assert await kinds("--since", *later) == ["asked"]
    assert len(await kinds("--until", *later)) == 7
    assert len(await kinds("--tool", "deploy_api")) == len(await kinds("--tool", "deploy_*")) == 7
    assert await kinds("--tool", "deploy") == []
    assert await kinds("--session", session) == await kinds("--session", at.key) == ["asked"]
    assert await kinds("--session", "system") == []
    assert len(await kinds("--until", at.clock.now.date().isoformat())) == everything, "a day is meant to its end"
    assert deploy


async def test_a_file_is_whole_and_its_owners_own(at: Backoffice) -> None:
    await deployed(at)
    said = await at.command("audit", "export", "--output", "ledger.jsonl")
    assert said.out == "7 lines are in ledger.jsonl.\n"
    written = at.directory / "ledger.jsonl"
    assert written.read_text() == (await at.command("audit", "export")).out
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    said = await at.command("audit", "export", "--format", "csv", "--output", "ledger.csv")
    assert said.out == "7 lines are in ledger.csv.\n"
    assert await at.refusal("audit", "export", "--output", "none/ledger.csv") == (
        "none/ledger.csv can't be written: No such file or directory. Name another file."
    )
    os.mkfifo(at.directory / "pipe")
    refused = await at.refusal("audit", "export", "--output", "pipe")
    assert refused == "pipe is not a file. Name another one."
    assert sorted(path.suffix for path in at.directory.glob("ledger*")) == [".csv", ".jsonl"]


async def test_an_export_goes_page_by_page(at: Backoffice) -> None:
    """However the pages fall, no line is missing and none is there twice, also of those written at one instant."""
    for _ in range(3):
        await at.asks("refund", {"amount": 1})
    await at.asks("lookup", {})
    (whole,) = [page async for page in pages(at.database, LineFilter())]
    for size in (1, 2, 3, 4):
        assert [line async for page in pages(at.database, LineFilter(), size=size) for line in page] == whole
        parts = [page async for page in pages(at.database, LineFilter(tool="re*"), size=size)]
        assert [line for page in parts for line in page] == whole[:3]


async def test_one_story_is_shown_in_full(at: Backoffice) -> None:
    deploy = await deployed(at, long="x" * 500)
    said = await at.command("audit", "show", deploy)
    when = at.clock.now.strftime("%Y-%m-%d %H:%M:%S UTC")
    assert said.lines[:3] == [
        f"Confirmation {deploy}",
        "Deploy api: 2.4.2, =cmd(): approved, done; edited version 2",
        f"    asked for by U0ASKER in C0DEPLOYS; session {SESSION}",
    ]
    story = said.lines[said.lines.index("") + 1 :]
    assert [line.removeprefix(f"{when}  ") for line in story] == [
        "⏳ deploy_api needs approval.",
        "✋ U0MALLORY tried to decide on deploy_api, but the vote did not count: the policy names others.",
        "✏️ U0ANNA edited and approved deploy_api. Earlier approvals no longer count.",
        "    version: 2.4.1 → 2.4.2",
        "👍 U0BEN approved deploy_api: 2 of 2 approvals.",
        "👍 deploy_api is approved by U0ANNA and U0BEN.",
        "▶️ deploy_api started.",
        "✅ deploy_api ran.",
    ]
    full = (await at.command("audit", "show", deploy, "--full")).lines
    assert [line for line in full if line.startswith(when)] == [line for line in story if when in line]
    story = full[full.index("") + 1 :]
    assert "    version: 2.4.1 → 2.4.2" in story
    assert f'    long: "{"x" * 500}"' in story
    assert "    as user:U0BEN, by button, on version 2" in story
    assert '    {"ok": "\\u001b[2J"}' in story, "nothing that a tool says moves the cursor"
    assert (await at.command("audit", "show", deploy[:8])).out == said.out
    session = await at.command("audit", "show", at.key)
    assert session.lines[0] == f"Session {at.key}"
    assert session.lines[session.lines.index("") :] == said.lines[said.lines.index("") :]


async def test_people_and_channels_have_names(at: Backoffice) -> None:
    """As the service saw them last."""
    await at.database.run(keep_names, {"U0ASKER": "zoë", ANNA.user: "anna", "C0DEPLOYS": "#deploys"})
    deploy = await at.asks("deploy_api")
    await at.vote(deploy, ANNA, VoteKind.DENY, reason="not today")
    story = (await at.command("audit", "show", deploy)).lines
    assert story[2] == f"    asked for by zoë (U0ASKER) in #deploys (C0DEPLOYS); session {SESSION}"
    assert story[-1].endswith("  🚫 anna (U0ANNA) denied deploy_api. “not today”")
    header, listed = (await at.command("audit", "list")).lines
    assert header == "id        asked (UTC)       state   asked by  decided by  in        call"
    when = f"{at.clock.now.astimezone():%Y-%m-%d %H:%M}"
    assert listed == f"{deploy[:8]}  {when}  denied  zoë       anna        #deploys  Deploy api 2.4.1"
    line = json.loads((await at.command("audit", "export")).lines[-1])
    assert line["names"] == {"C0DEPLOYS": "#deploys", "U0ANNA": "anna"}
    rows = csv.DictReader(io.StringIO((await at.command("audit", "export", "--format", "csv")).out))
    assert [(row["who_name"], row["channel_name"]) for row in rows] == [("zoë", "#deploys"), ("anna", "#deploys")]
    other = await at.asks("deploy_api")
    waits = (await at.command("pending")).lines[1]
    assert "  0 of 2 from anna, U0BEN  zoë in #deploys  in " in waits
    await at.vote(other, ANNA, VoteKind.DENY)
    assert "zoë" not in (await at.command("audit", "show", deploy, "--no-names")).out


async def test_filters_that_match_nothing_say_so(at: Backoffice) -> None:
    await deployed(at)
    said = await at.command("audit", "export", "--tool", "refund", "--format", "csv")
    assert said.err == "No line of the audit matches --tool refund.\n"
    assert (await at.command("audit", "list", "--tool", "refund")).out == "No call matches --tool refund.\n"
    assert json.loads((await at.command("audit", "list", "--tool", "refund", "--json")).out) == {"calls": []}


async def test_programs_read_the_rest_of_the_audit(at: Backoffice) -> None:
    deploy = await deployed(at)
    said = json.loads((await at.command("audit", "show", deploy, "--json")).out)
    assert (said["title"], [call["id"] for call in said["calls"]]) == (f"Confirmation {deploy}", [deploy])
    assert [line["kind"] for line in said["lines"]][:1] == ["asked"]
    verified = json.loads((await at.command("audit", "verify", "--json")).out)
    assert (verified["finding"], verified["broken"]) == ("consistent", None)
    assert verified["lines"] >= len(said["lines"])
    assert verified["said"][0].startswith("consistent: ")
    purged = json.loads((await at.command("audit", "purge", "--before", "90d", "--json")).out)
    assert (purged["lines"], purged["kept"]) == (0, 0)


async def test_a_program_reads_the_list(at: Backoffice) -> None:
    deploy = await deployed(at)
    (listed,) = json.loads((await at.command("audit", "list", "--json")).out)["calls"]
    assert (listed["id"], listed["state"], listed["outcome"]) == (deploy, "approved", "done")
    assert (listed["title"], listed["decided_by"]) == ("Deploy api: 2.4.2, =cmd()", ["U0ANNA", "U0BEN"])


async def test_the_list_can_be_narrowed(at: Backoffice) -> None:
    async def ids(*filters: str) -> list[str]:
        return [one["id"] for one in json.loads((await at.command("audit", "list", "--json", *filters)).out)["calls"]]

    assert (await at.command("audit", "list")).out == "Nobody was asked about a call yet.\n"
    deploy = await deployed(at)
    at.clock.passes(hours=2)
    other = await at.asks("deploy_api")
    assert await ids() == [other, deploy]
    assert [await ids("--state", state) for state in ("waiting", "approved", "done")] == [[other], [deploy], [deploy]]
    assert [await ids("--since", since) for since in ("1h", "3h")] == [[other], [other, deploy]]
    assert await ids("--since", "3h", "--state", "done", "--tool", "deploy_api") == [deploy]
    refused = await at.refusal("audit", "list", "--state", "don")
    assert refused.startswith("There is no state 'don'. There are: waiting, approved, running, done, failed, ")


def _stores(tx: Tx, key: str, made: Confirmation) -> None:
    session = find_session(tx, key)
    assert session is not None
    save(tx, session, Transition(row=made), new=True)


async def test_every_state_is_found_by_its_name(at: Backoffice) -> None:
    row = await at.row(await at.asks("deploy_api"))
    states = {}
    for number, one in enumerate(every_state(row)):
        made = replace(one, id=f"c{number:05}", asked=replace(one.asked, request_id=f"made{number}"))
        states[made.id] = made
        await at.database.run(_stores, at.key, made)
    for stage, shown in words.STATES.items():
        for name in (stage, shown):
            listed = json.loads((await at.command("audit", "list", "--json", "--limit", "999", "--state", name)).out)
            of_this = {id_ for id_, made in states.items() if shown_of(made).stage == stage}
            assert of_this <= {one["id"] for one in listed["calls"]}, name
    (first,) = [line for line in (await at.command("audit", "list", "--limit", "999")).lines if row.id[:8] in line]
    assert "  waiting, 0 of 2  " in first


async def test_a_story_says_what_was_approved_what_changed_leaf_by_leaf_and_why_it_did_not_run(at: Backoffice) -> None:
    owner: JsonObject = {"name": "Ben", "email": "ben@acme.example"}
    plan = {"shows": "--- now\n+++ then\n@@ -1 +1 @@\n-replicas: 6\n+replicas: 12\n"}
    deploy = await at.asks("deploy_api", {"version": "2.4.1", "owner": owner}, preview=plan)
    await at.vote(deploy, ANNA, owner={**owner, "email": "b@acme.example"})
    await at.vote(deploy, BEN)
    await at.runs(deploy, "its plan has changed", OutcomeKind.REFUSED)
    story = (await at.command("audit", "show", deploy)).lines
    assert story[story.index("    approved plan:") + 1 :][:2] == ["        - replicas: 6", "        + replicas: 12"]
    assert "    owner: email: ben@acme.example → b@acme.example" in story
    assert story[-1].endswith("⛔ deploy_api did not run. “its plan has changed”")
    denied = await at.asks("deploy_api", {"version": "2.4.2"}, preview=plan)
    await at.vote(denied, ANNA, VoteKind.DENY)
    assert "    plan:" in (await at.command("audit", "show", denied)).lines


async def test_a_report_counts_a_call_once_and_tells_what_operators_did_and_why(at: Backoffice) -> None:
    lost, other = await at.asks("deploy_api"), await at.asks("refund", {"amount": 2})
    for who in (ANNA, BEN):
        await at.vote(lost, who)
    await at.runs(lost, "", OutcomeKind.UNKNOWN)
    await at.vote(lost, ANNA, VoteKind.HAPPENED)
    await at.command("withdraw", other, "--as", "olivia", "--reason", "asked twice")
    at.clock.passes(seconds=1)
    found = json.loads((await at.command("audit", "report", "--json")).out)  # of the last 30 days
    assert found["ends"] == {"it happened": 1}
    assert [(one["kind"], one["who"], one["reason"]) for one in found["operators"]] == [
        ("withdrawn", "operator olivia", "asked twice")
    ]
    assert "Outcomes: people said it took effect 1.\n" in (await at.command("audit", "report")).out


async def test_a_report_as_a_page_stands_alone_and_nothing_in_it_is_markup(at: Backoffice) -> None:
    deploy = await at.asks("deploy_api")
    await at.vote(deploy, ANNA, VoteKind.DENY, reason="<script>alert(1)</script> $since")
    at.clock.passes(seconds=1)
    said = await at.command("audit", "report", "--html", "report.html")
    assert said.out == "The report is in report.html.\n"
    page = (at.directory / "report.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; $since" in page
    assert re.findall(r"<script|<link|<img|https?:|url\(", page) == []
    assert "default-src 'none'" in page
    assert '<td class="short" data-is="Part">Denials, People</td><td class="short" data-is="Demand">AI Act Art.' in page
    assert '<td class="number" data-is="Denied">1</td>' in page


async def test_a_call_that_nobody_edited_is_no_edited_version(at: Backoffice) -> None:
    """What people say about an unknown outcome is a revision too."""
    deploy = await at.asks("deploy_api", {"version": "2.4.1"})
    await at.vote(deploy, ANNA)
    await at.vote(deploy, BEN)
    await at.runs(deploy, kind=OutcomeKind.UNKNOWN)
    said = await at.command("audit", "show", deploy)
    assert (await at.row(deploy)).revision.number == 2
    assert said.lines[1] == "Deploy api 2.4.1: approved, outcome unknown"


async def test_a_story_that_went_on_in_the_system(at: Backoffice) -> None:
    await at.command("pause")
    said = await at.command("audit", "show", "system")
    assert said.lines[-1].endswith("paused runs. Approved calls start once they are resumed.")


async def test_it_verifies(at: Backoffice) -> None:
    assert (await at.command("audit", "verify")).lines == [
        "OK: no change was found",
        "  empty: no lines, so nothing to check",
        "  only an anchor (--anchor FILE) shows that none were cut off",
    ]
    await deployed(at)
    said = await at.command("audit", "verify")
    assert (said.code, *said.lines[:2]) == (0, "OK: no change was found", "  consistent: 7 lines in 1 chain")


async def test_an_id_of_any_length_is_looked_for(at: Backoffice) -> None:
    await deployed(at)
    assert "There is no confirmation and no session aaa" in await at.refusal("audit", "show", "a" * 60_000)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "abcdef12"], "There is no confirmation and no session abcdef12 in this store. "),
        (["export", "--session", "slack-x"], "There is no session slack-x in this store. A session's id looks like "),
        (["export", "--since", "last week"], "--since 'last week' is not a point in time. Write 2030-01-31, "),
        (["export", "--until", "2030-02-31"], "--until '2030-02-31' is not a point in time"),
        (["verify", "--anchor", "none.txt"], "none.txt can't be read as an anchor: No such file or directory. "),
        (
            ["verify", "--anchor", "adk-confirm.toml"],
            "The anchor holds no checkpoint that was sealed with this secret. ",
        ),
        (
            ["show", "x", "--config", "none.toml"],
            "none.toml: there is no such file. Write one with `adk-confirm init`, or name another with --config",
        ),
    ],
)
async def test_what_can_not_be_done_is_reported(at: Backoffice, arguments: list[str], sentence: str) -> None:
    assert (await at.refusal("audit", *arguments)).startswith(sentence)


async def test_nothing_is_verified_without_the_secret(at: Backoffice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADK_CONFIRM_SECRET")
    said = await at.refusal("audit", "verify")
    assert said.startswith("There is no secret to check the ledger with. Set ADK_CONFIRM_SECRET")


async def test_no_report_accuses_anybody_because_the_secret_is_another(
    at: Backoffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deployed(at)
    monkeypatch.setenv("ADK_CONFIRM_SECRET", "another secret, as long as one has to be")
    said = await at.refusal("audit", "report", "--html", "report.html")
    assert said.startswith("No report was made: this is not the store's secret, or the store was changed. Set ADK_")
    assert "SLACK_SIGNING_SECRET or SLACK_BOT_TOKEN" in said
    assert not (at.directory / "report.html").exists()


async def test_several_that_begin_alike(at: Backoffice) -> None:
    one, two = "abcdef01" * 4, "abcdef02" * 4
    for confirmation in (one, two):
        step = Step(kind=LineKind.ASKED, at=at.clock.now, who=ANNA)
        await at.database.run(write_steps, "oncall/u/s", step, confirmation=confirmation, tool="deploy")
    assert await at.refusal("audit", "show", "abcdef") == (
        f"Several confirmations begin with abcdef: {one}, {two}. Write more of the id."
    )
    assert (await at.command("audit", "show", "abcdef02")).lines[0] == f"Confirmation {two}"


async def test_of_an_id_that_is_too_short_it_says_how_many_fit(at: Backoffice) -> None:
    deploy = await deployed(at)
    said = await at.refusal("audit", "show", deploy[:3])
    said_of = f"1 call begins with {deploy[:3]}. Type `adk-confirm audit show {deploy[:8]}` for Deploy api"
    assert said.startswith(said_of)
    assert (await at.command("audit", "show", deploy[:8])).lines[0] == f"Confirmation {deploy}"


async def test_a_line_that_nobody_can_read_is_no_trace(at: Backoffice) -> None:
    await deployed(at)
    await at.database.run(lambda tx: tx.run("UPDATE bot_chains SET hash = :hash", hash="0" * 64))
    said = await at.command("audit", "verify")
    assert said.code == 1
    assert said.out == f"broken: {at.key}, line 7: it is not the line that the chain ended with\n"


# Names from the service, and what is shown meanwhile


async def test_commands_name_whom_the_service_saw(
    open_office: Opens,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "operator.toml"
    file.write_text(config(POLICY))
    async with open_office() as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Done: Reimburse", at.deploys, thread=card)

        async def listed() -> bool:
            capsys.readouterr()
            assert await asyncio.to_thread(main, ["audit", "list", "--config", str(file)]) == 0
            return "ann       bob         #deploys  Reimburse " in capsys.readouterr().out

        for name, value in environment(at.slack, database_url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("SLACK_API_URL", "http://127.0.0.1:9/")  # nobody is asked
        await until(listed)


async def test_the_names_that_were_seen_last_are_kept(at: Backoffice) -> None:
    await at.database.run(keep_names, {f"U{number}": "old" for number in range(3)})
    at.clock.passes(days=1)
    await at.database.run(keep_names, {f"W{number}": "new" for number in range(MOST - 1)})
    known = (await at.database.read(read_names)).known
    assert (len(known), known["W0"], sum(one.startswith("U") for one in known)) == (MOST, "new", 1)
    await at.database.run(keep_names, {"W0": "newer"})
    assert (await at.database.read(read_names)).of("user:W0") == "newer (user:W0)"


@pytest.mark.parametrize("after", [-1.0, 3600.0])
async def test_a_terminal_is_told_how_far_long_work_is_and_a_pipe_is_not(
    at: Backoffice, monkeypatch: pytest.MonkeyPatch, after: float
) -> None:
    await at.asks()
    at.clock.passes(days=1)
    monkeypatch.setattr(command, "UNSHOWN", after)
    for line, label in (
        ("audit verify", "Verifying"),
        ("audit export --output x.jsonl", "Exporting"),
        ("audit report --from 1d", "Verifying"),
        ("audit purge --before 1h", "Purging"),
    ):
        said = await at.command(*line.split())
        assert (said.code, label in said.out + said.err) == (0, False)
        read, write = pty.openpty()
        seen = asyncio.create_task(asyncio.to_thread(whole, read))
        with os.fdopen(write, "w") as terminal, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            patch.setattr(sys, "stderr", terminal)
            assert await asyncio.to_thread(main, line.split(), at.clock) == 0
        shown = await seen
        assert (f"{label}  [####" in shown, "100%" in shown) == ((True, True) if after < 0 else (False, False))


# For auditors


async def test_somebody_without_the_secret_verifies_with_the_public_key(
    at: Backoffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deployed(at)
    key = CheckpointKey("5a" * 32)
    made = (await at.database.run(seal_moved, KEYS, timedelta(hours=1), key, at_once=True)).made
    assert made is not None
    (at.directory / "anchor.txt").write_text(made.publish(KEYS, key))
    monkeypatch.delenv("ADK_CONFIRM_SECRET")
    verify = ("audit", "verify", "--anchor", "anchor.txt", "--public-key")
    said = await at.command(*verify, key.public)
    assert said.lines == ["OK: no change was found", "  untampered up to checkpoint 1: 7 lines in 1 chain"]
    other = await at.refusal(*verify, "5b" * 32)
    assert other.startswith("The anchor holds no checkpoint that was signed with this key. ")
    assert (await at.refusal(*verify, "my key")).startswith("A key is 64 hexadecimal digits")
    await at.database.run(lambda tx: tx.run("UPDATE bot_checkpoints SET signature = ''"))
    said = await at.command("audit", "verify", "--public-key", key.public)
    assert (said.code, said.out) == (1, "broken: checkpoints: none is signed\n")


async def test_a_report_leaves_out_what_nothing_proves(at: Backoffice) -> None:
    """Somebody who writes to the database adds an approval, of which the public key can't say that it is forged."""
    await deployed(at)
    key = CheckpointKey("5a" * 32)
    await at.database.run(seal_moved, KEYS, timedelta(hours=1), key, at_once=True)

    def forges(tx: Tx) -> None:
        (chain,) = tx.column("SELECT chain FROM bot_chains")
        content: JsonObject = {"who": {"user": "U0FORGED", "team": ANNA.team}}
        line = append(
            find_head(tx, chain), chain, LineKind.APPROVAL, content, Seal("a guess"), at=at.clock.now, salt="x"
        )
        times = {"at": line.at.timestamp(), "stamp": stamp(line.at)}
        tx.insert("bot_ledger", {**asdict(line), "kind": str(line.kind), **times})
        tx.run("UPDATE bot_chains SET seq = :seq, hash = :hash", seq=line.seq, hash=line.hash)

    await at.database.run(forges)
    at.clock.passes(seconds=1)
    found = json.loads((await at.command("audit", "report", "--from", "1d", "--json", "--public-key", key.public)).out)
    assert (found["ledger"]["lines"], found["ledger"]["unproven"]) == (7, 1)
    assert "U0FORGED" not in [one["who"] for one in found["people"]]
    by_secret = await at.command("audit", "report", "--from", "1d")
    assert (by_secret.code, "U0FORGED" in by_secret.out) == (1, False)
    assert "Left out, because nothing proves them: 1." in by_secret.out


@ON_POSTGRES
async def test_a_connection_that_breaks_while_a_report_is_made_counts_nothing_twice(
    at: Backoffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "AT_ONCE", 1)  # line by line, so that it breaks in the middle
    await deployed(at)
    at.clock.passes(seconds=1)
    whole = await at.command("audit", "report", "--from", "1d", "--json")
    hear, heard = Tally.hear, list[int]()

    def hear_and_break(tally: Tally, line: LedgerLine, proven: bool) -> None:
        heard.append(line.seq)
        if len(heard) == 3:
            with psycopg.connect(at.url) as other:
                other.execute(ALONE.encode())
        hear(tally, line, proven)

    monkeypatch.setattr(Tally, "hear", hear_and_break)
    broken = await at.command("audit", "report", "--from", "1d", "--json")
    assert heard[:5] == [1, 2, 3, 1, 2]
    assert json.loads(broken.out) == json.loads(whole.out)


async def test_people_see_an_edited_call_when_its_preview_is_known(at: Backoffice) -> None:
    """Before that nobody can approve it, so the time before it is none in which anybody could have read it."""
    deploy = await at.asks("deploy_api", {"version": "2.4.1"}, preview={"shows": "1 pod"}, previews_edits=True)
    at.clock.passes(minutes=5)
    await at.vote(deploy, ANNA, version="2.4.2")
    at.clock.passes(minutes=1)
    await at.database.run(save_preview, deploy, 2, {"shows": "2 pods"})
    at.clock.passes(seconds=1)
    for who in (ANNA, BEN):
        await at.vote(deploy, who)
    at.clock.passes(seconds=1)
    found = json.loads((await at.command("audit", "report", "--from", "1d", "--json")).out)
    fast = {"timed": 2, "median_seconds": 1.0, "within_5_s": 2, "on_the_card": 2}
    assert found["approvals"] == {"approvals": 2, "edits": 1, "denials": 0, **fast}


async def test_a_report_tells_what_was_asked_from_what_was_decided(at: Backoffice) -> None:
    """What still waits, what was asked before the period, and what somebody outside answered after the decision."""
    at.policies('[[policy]]\ntools = ["refund", "lookup"]\napprovers = ["user:U0ANNA"]\n')
    old, left = await at.asks("refund", {"amount": 1}), await at.asks("refund", {"amount": 2})
    await at.vote(old, BEN)  # is none of its approvers
    at.clock.passes(minutes=1)
    since = at.clock.now.isoformat()
    await at.vote(old, ANNA)
    mine, theirs, outside = [await at.asks("lookup", {"row": row}) for row in range(3)]
    await at.vote(mine, ASKER, VoteKind.WITHDRAW)
    await at.command("withdraw", theirs, "--as", "olivia")
    await at.database.run(follow_outcome, outside, call_that_became(OutcomeKind.DONE))
    denied, waits = await at.asks("lookup", {}), await at.asks("lookup", {})
    await at.vote(denied, ANNA, VoteKind.DENY)
    await at.database.run(follow_outcome, denied, call_that_became(OutcomeKind.DONE))
    await at.refuses("rotate_key", {})
    at.clock.passes(minutes=1)
    until = at.clock.now.isoformat()
    for later in (left, waits):
        await at.vote(later, ANNA)
    shown = await at.command("audit", "report", "--from", since, "--to", until)
    assert shown.out.partition("CALLS\n")[2].partition("\n\n")[0].splitlines() == [
        "In the period: asked 5, still open 1, decided but asked before 1, refused without asking 1.",
        "Decided: approved 1, denied 1, withdrawn 2, answered outside this app 1.",
        "Withdrawn by operators: 1.",
        "Outcomes: done 1.",
        "Alarms: answered outside this app 1, answered outside after a decision 1.",
    ]
    head, *tools = shown.out.partition("TOOLS\n")[2].partition("\n\n")[0].splitlines()
    assert head == "Tool        Asked  Asked before  Approved  Denied  Withdrawn  Elsewhere  Open  Refused"
    assert [line.split() for line in tools] == [
        ["lookup", "5", "0", "0", "1", "2", "1", "1", "0"],
        ["refund", "0", "1", "1", "0", "0", "0", "0", "0"],
        ["rotate_key", "0", "0", "0", "0", "0", "0", "0", "1"],
    ]
    assert shown.lines[-1] == "None in the period: refused votes, grants."


async def test_a_median_and_the_votes_within_five_seconds_agree_as_they_are_shown(at: Backoffice) -> None:
    for seconds in (1, 5.04, 20):
        refund = await at.asks("refund", {"amount": seconds})
        at.clock.passes(seconds=seconds)
        await at.vote(refund, ANNA)
    at.clock.passes(seconds=1)
    found = json.loads((await at.command("audit", "report", "--json")).out)
    assert (found["approvals"]["median_seconds"], found["approvals"]["within_5_s"]) == (5.0, 2)


async def test_a_period_in_which_nothing_happened_is_a_short_report(at: Backoffice) -> None:
    anchor = "Only an anchor (--anchor FILE) shows that none were cut off."
    one = "Consistent: 1 line in 1 chain. No checkpoint covers them yet."
    for ledger in ("Empty: no lines, so nothing to check.", one):
        shown = await at.command("audit", "report", "--from", "1h")
        said = " ".join(shown.lines[shown.lines.index("LEDGER") + 1 :])
        nothing = "None in the period: calls, refused votes, alarms, denials, grants, operators."
        assert said == f"{ledger} {anchor} Lines in the period: 0.  {nothing}"
        await at.command("audit", "report", "--from", "1h", "--html", "report.html")
        verdict = ledger.partition(":")[0].lower()
        page = (at.directory / "report.html").read_text()
        assert f'<p class="verdict {verdict}">The ledger is {verdict}</p>' in page
        assert "<table>" not in page
        await at.asks("refund", {})
        at.clock.passes(hours=2)


async def test_a_table_fits_the_terminal_and_cuts_a_word_only_if_it_must(at: Backoffice) -> None:
    await at.database.run(keep_names, {ANNA.user: "anna.with-a.name", BEN.user: "n" * 200})
    await at.asks("deploy_" + "x" * 200)
    denied = await at.asks("transfer_between_accounts", {})
    await at.vote(denied, ANNA, VoteKind.DENY, reason="it is the nightly-smoke-tests account " + "y" * 300)
    await at.command("pause", "--as", "o" * 60, "--reason", "an outage")
    at.clock.passes(seconds=1)
    shown = await at.command("audit", "report")
    assert max(map(len, shown.lines)) <= 100
    table = shown.out.partition("DENIALS\n")[2].partition("\n\n")[0]
    for word in (f"{at.clock.now:%Y-%m-%d}", "transfer_between_accounts", "anna.with-a.name", "nightly-smoke-tests"):
        assert word in table


async def test_a_period_is_reported_as_evidence(at: Backoffice) -> None:
    before = at.clock.now.isoformat()
    await deployed(at)
    at.clock.passes(minutes=10)
    one, two = await at.asks("refund", {"amount": 1500}), await at.asks("re|fund", {"amount": 2})
    at.clock.passes(seconds=4)
    await at.vote(one, ANNA, VoteKind.DENY, reason="too much | [click](x) " + "a long reason " * 9)
    at.clock.passes(seconds=36)
    await at.vote(two, ANNA)
    await at.runs(two, "it broke", OutcomeKind.FAILED)
    await at.command("pause", "--as", "lee", "--reason", "fire drill")
    at.clock.passes(hours=1)
    now = at.clock.now.isoformat()
    await at.asks("refund", {"amount": 3})

    said = await at.command("audit", "report", "--from", before, "--to", now, "--json")
    assert said.code == 0
    found = json.loads(said.out)
    assert (found["asked"], found["ledger"]["intact"], found["ledger"]["lines"]) == (3, True, 15)
    assert (found["made"], found["store"]) == (stamp(at.clock.now), at.database.url)  # without a password
    assert (found["decisions"]["approved"], found["decisions"]["denied"]) == (2, 1)
    assert (found["ends"]["done"], found["ends"]["failed"]) == (1, 1)
    fast = {"timed": 2, "median_seconds": 20.0, "within_5_s": 1, "on_the_card": 2}
    assert found["approvals"] == {"approvals": 2, "edits": 1, "denials": 1, **fast}
    ben, anna = found["people"]
    assert (anna["who"], anna["approvals"], anna["edits"], anna["denials"]) == ("U0ANNA", 1, 1, 1)
    assert (ben["who"], ben["approvals"], ben["median_seconds"], ben["within_5_s"]) == ("U0BEN", 1, 0.0, 1)
    assert found["votes_that_did_not_count"] == {"not an approver": 1}
    assert [(one["tool"], one["reason"][:21]) for one in found["denials"]] == [("refund", "too much | [click](x)")]
    assert [(one["kind"], one["who"], one["reason"]) for one in found["operators"]] == [
        ("paused", "operator lee", "fire drill")
    ]
    assert {one["tool"]: one["approved"] for one in found["tools"]} == {"deploy_api": 1, "re|fund": 1, "refund": 0}

    shown = await at.command("audit", "report", "--from", before, "--to", now)
    assert shown.lines[1].startswith("Made ")
    assert "LEDGER\nConsistent: " in shown.out
    assert max(map(len, shown.lines)) <= 100
    assert (
        "Votes to approve: 2. Half of them came within 20 s of the ask.\nWithin 5 s: 1. Pressed on the card: 2; in"
        in shown.out
    )
    assert "CALLS\nIn the period: asked 3.\nDecided: approved 2, denied 1.\n" in shown.out
    assert "Outcomes: done 1, failed 1.\n" in shown.out
    (failed,) = found["to_look_at"]
    assert (failed["confirmation"], failed["ended"]) == (two, "failed")
    assert f"  re|fund  {two[:8]}      failed\n" in shown.out
    assert shown.lines[-1] == "None in the period: alarms, grants."
    assert "refund  " in shown.out
    assert "too much | [click](x)" in shown.out
    assert "AI Act" not in shown.out, "that is for auditors, on the page"

    at.policies('[[policy]]\ntools = ["deploy"]\napprovers = ["user:U0ANNA"]\ngrant = { for = "session", uses = 1 }\n')
    facts, grants = Facts(account=full_member(ANNA)), list[str]()
    for _ in range(2):
        grants.append(await at.asks("deploy", {}))
        ballot = SubmittedVote(
            id=grants[-1], confirmation=grants[-1], revision=1, kind=VoteKind.APPROVE, voter=ANNA, grant=True
        )
        await at.database.run(cast, ballot, at.rules.policies, lambda *_: facts)
        if len(grants) == 1:
            allowed = await at.asks("deploy", {}, rights={ANNA: facts})
            (line,) = [line for line in (await at.command("audit", "list")).lines if allowed[:8] in line]
            assert "  allowed  " in line
        at.clock.passes(seconds=1)
    await at.command("revoke", grants[-1])
    at.clock.passes(seconds=1)
    found = json.loads((await at.command("audit", "report", "--from", now, "--json")).out)
    told = [(one["confirmation"], one["given_by"], one["used"], one["ended"]) for one in found["grants"]]
    assert told == [(grants[0], ["U0ANNA"], 1, "used up"), (grants[1], ["U0ANNA"], 0, "revoked")]
    assert "  revoked by operator" in (await at.command("audit", "report", "--from", now)).out
    assert found["let_through_by_grants"] == 1

    assert "is not before --to" in await at.refusal("audit", "report", "--from", now, "--to", before)
