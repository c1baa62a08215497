"""`/healthz`, `/readyz` and `/metrics`, as an orchestrator and Prometheus ask for them."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adk_confirm.bot.app import running_bot
from adk_confirm.bot.confirmation.confirmation import OutcomeKind
from adk_confirm.bot.confirmation.states import Transition
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.pause import pause_runs, switch_runs
from adk_confirm.bot.store.transactions import follow_outcome
from adk_confirm.bot.telemetry.metrics import MOST_TOOLS, OTHER, Metrics, read_gauges
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import JobKind
from adk_confirm.runtime.store.lease import Lease, topic_of
from adk_confirm.runtime.store.tables import SCHEMA
from adk_confirm.sandbox.server.faults import Fault
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.deciding import ANNA, Desk, call_that_became, make_asked, make_policy
from tests.support.office import AT_ONCE, BOTH_WAYS, LAB, Office, Opens, configured, office, withdraws
from tests.support.scraping import Scraped, get, scrape
from tests.support.stores import SECRET, change_job, claim_due, nothing
from tests.support.waiting import until

TASKS = ("worker", "checkpoints", "names")


async def answers(url: str, fits: Callable[[int, str], bool]) -> str:
    """What `/readyz` says, once it is this."""

    async def look() -> tuple[int, str] | None:
        answer = await get(f"{url}/readyz")
        return answer if fits(*answer) else None

    _, text = await until(look)
    return text


@BOTH_WAYS
async def test_ready_says_what_it_looked_at(at: Office, socket: bool) -> None:
    assert await get(f"{at.bot.url}/healthz") == (200, "ok\n")
    slack = "Slack: ok\n" if socket else ""
    status, said = await get(f"{at.bot.url}/readyz")
    assert status == 200
    assert said == f"store: ok\n{slack}" + "".join(f"{task}: ok\n" for task in TASKS)
    assert socket or await at.slack.verifies_url()


async def test_a_store_that_does_not_answer(at: Office) -> None:
    await at.bot.database.close()
    said = await answers(at.bot.url, lambda status, _: status == 503)
    assert "store: The store is closed." in said
    assert await get(f"{at.bot.url}/healthz") == (200, "ok\n"), "alive it is all the same"


async def test_a_store_that_another_version_has_changed(open_office: Opens, caplog: pytest.LogCaptureFixture) -> None:
    async with open_office() as at:
        await at.bot.database.run(lambda tx: tx.run("UPDATE adk_confirm_versions SET version = 9"))
        for _ in range(3):
            status, said = await get(f"{at.bot.url}/readyz")
    assert status == 503
    assert len([one for one in caplog.messages if one.startswith("not ready: store: The")]) == 1
    ours = f"this program's {SCHEMA.version}"
    assert f"tables are of version 9, and {ours}: a newer program was started on it. Use that one." in said


async def test_a_store_that_can_not_be_asked_for_its_version(open_office: Opens) -> None:
    async with open_office() as at:
        await at.bot.database.run(lambda tx: tx.run("ALTER TABLE adk_confirm_versions RENAME version TO gone"))
        status, said = await get(f"{at.bot.url}/readyz")
    assert status == 503
    assert "store: could not be asked: OperationalError\n" in said


async def test_a_store_that_answers_and_takes_no_work(
    postgres_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a full disk: what is stored can be read, and nothing can be begun."""

    def fill(tx: Tx) -> None:
        tx.run(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RAISE EXCEPTION ''could not extend file'' USING ERRCODE = ''53100''; END'"
        )
        tx.run("CREATE TRIGGER full_disk BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION full_disk()")
        tx.insert("jobs", {"kind": "session", "key": "x", "due_at": 1.0})
        tx.notify(topic_of("session"))

    def clean_up(tx: Tx) -> None:
        tx.run("DROP TRIGGER full_disk ON jobs")
        tx.run("DELETE FROM jobs")

    async with office(postgres_stocked, tmp_path / "tools.log", monkeypatch) as at:
        await at.bot.database.run(fill)
        said = await answers(at.bot.url, lambda status, _: status == 503)
        assert "store: PostgreSQL could not do this (could not extend file)." in said
        await at.bot.database.run(clean_up)
        await answers(at.bot.url, lambda status, _: status == 200)


@pytest.mark.slow
@pytest.mark.office(socket=True)
async def test_a_socket_that_was_cut(at: Office) -> None:
    refused = at.slack.faults.fails("apps.connections.open", times=None)
    at.slack.socket.drop()
    said = await answers(at.bot.url, lambda status, _: status == 503)
    assert "Slack: the Socket Mode connection is down" in said
    refused.left = 0
    await answers(at.bot.url, lambda status, _: status == 200)


async def test_not_ready_while_it_stops(sqlite_url: str) -> None:
    """The doors stay open until what runs has ended, so that a balancer sees it in time."""
    async with FakeSlack(our_app()) as slack:
        ann = slack.person("ann")
        slack.channel("deploys", ann, id="C0DEPLOYS")
        async with running_bot(configured(slack, sqlite_url), limits=AT_ONCE) as bot:
            slack.sends_to(f"{bot.url}/slack/events")
            held = slack.faults.hangs("chat.postMessage")
            await ann.says("@adk-confirm hello", "C0DEPLOYS")
            await held.reached()

            async def asks_on() -> str:
                said = await answers(bot.url, lambda status, _: status == 503)
                held.release()
                return said

            asking = asyncio.create_task(asks_on())
        assert await asking == "adk-confirm: is being stopped\n"


POLICIES = """
[[policy]]
tools = ["deploy"]
approvers = ["group:S0ONCALL"]
quorum = 2
expires_after = "1h"
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
"""


async def seen(at: Office, name: str, at_least: float = 1) -> Scraped:
    """The page on which there is so much of this: what follows a click takes a moment."""

    async def look() -> Scraped | None:
        page = await scrape(at.bot.url)
        return page if page.value(name) >= at_least else None

    return await until(look)


@BOTH_WAYS
@pytest.mark.office(POLICIES)
async def test_a_decision_is_counted_by_verdict_and_tool(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    assert (await scrape(at.bot.url)).value("adk_confirm_waiting") == 1
    await at.later(minutes=2)
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("Done: Reimburse", at.deploys, thread=card)

    page = await seen(at, "adk_confirm_click_to_card_seconds_count")
    assert page.value("adk_confirm_decided_total") == 1
    assert page.value("adk_confirm_decided_total", verdict="approved", tool="reimburse") == 1
    assert page.value("adk_confirm_time_to_decision_seconds_sum", verdict="approved") >= 120
    assert page.value("adk_confirm_click_to_ack_seconds_count", way="button") == 1
    assert page.value("adk_confirm_click_to_card_seconds_count") == 1
    assert page.value("adk_confirm_slack_call_seconds_count", method="chat.postMessage") >= 1
    assert page.value("adk_confirm_outside_answers_total") == 0


@pytest.mark.office(POLICIES)
async def test_every_way_to_decide_counts_once(at: Office) -> None:
    denied = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(denied, "Deny…")
    await (await at.bob.gets_modal("Deny")).submits({"Reason": "no"})
    await at.ann.finds("Denied", at.deploys, thread=denied)
    withdrawn = await at.ask("reimburse 1700 for the offsite")
    await withdraws(at.ann, withdrawn)
    await at.ann.finds("Withdrawn", at.deploys, thread=withdrawn)
    expired = await at.ask("deploy checkout 2.4.1")
    await at.later(hours=2)
    await at.ann.finds("Expired", at.deploys, thread=expired)

    page = await scrape(at.bot.url)
    assert page.value("adk_confirm_decided_total") == 3
    for verdict, tool in (("denied", "reimburse"), ("withdrawn", "reimburse"), ("expired", "deploy")):
        assert page.value("adk_confirm_decided_total", verdict=verdict, tool=tool) == 1
    assert page.value("adk_confirm_click_to_ack_seconds_count", way="form") == 2


@pytest.mark.office(POLICIES)
async def test_a_click_that_could_not_be_stored_is_distinguished(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.bot.database.close()
    made = await at.bob.clicks(card, "Approve")
    assert not made.acked

    page = await scrape(at.bot.url)
    assert page.value("adk_confirm_clicks_not_acked_total", way="button") == 1
    assert not page.has("adk_confirm_click_to_ack_seconds_count")
    assert page.value("adk_confirm_store_up") == 0
    assert not page.has("adk_confirm_waiting"), "no number is better than an old one"


@pytest.mark.office(POLICIES)
async def test_a_store_that_can_not_be_read_leaves_this_processs_own_counts(at: Office) -> None:
    await at.ask("reimburse 1500 for the team dinner")
    await at.bot.database.run(lambda tx: tx.run("ALTER TABLE bot_confirmations RENAME TO gone"))
    page = await scrape(at.bot.url)
    assert page.value("adk_confirm_store_up") == 0
    assert page.has("adk_confirm_slack_call_seconds_count")
    assert not page.has("adk_confirm_waiting")


@pytest.mark.office(POLICIES)
async def test_what_slack_refuses_and_puts_off(at: Office) -> None:
    at.slack.faults.limits("chat.update", retry_after=1)
    at.slack.faults.refuses("chat.update", "cant_update_message")
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("I reimbursed 1500", at.deploys, thread=card)

    page = await seen(at, "adk_confirm_slack_errors_total")
    assert page.value("adk_confirm_slack_rate_limited_total", method="chat.update") == 1
    assert page.value("adk_confirm_slack_errors_total", method="chat.update", code="cant_update_message") == 1


@pytest.mark.office(POLICIES)
async def test_an_answer_from_outside_counts_as_such(at: Office) -> None:
    await at.ask("reimburse 1500 for the team dinner")
    (name,) = await at.bot.database.read(lambda tx: tx.column("SELECT id FROM bot_confirmations"))
    for _ in range(2):
        await at.bot.database.run(follow_outcome, name, call_that_became(OutcomeKind.DONE, confirmed=True))

    page = await scrape(at.bot.url)
    assert page.value("adk_confirm_outside_answers_total") == 1
    assert page.value("adk_confirm_decided_total", verdict="elsewhere") == 1


@pytest.mark.office(POLICIES, target=LAB)
async def test_what_nobody_knows_is_shown(at: Office) -> None:
    card = await at.ask('loses {"what": "the line"}')
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("Did this take effect? Loses", at.deploys, thread=card)

    page = await seen(at, "adk_confirm_unknown")
    assert (page.value("adk_confirm_unknown"), page.value("adk_confirm_waiting")) == (1, 0)
    assert page.value("adk_confirm_paused") == 0
    await switch_runs(at.bot.database, pause_runs)
    assert (await seen(at, "adk_confirm_paused")).value("adk_confirm_paused") == 1


def tried_again(fault: Fault, times: int) -> bool:
    return fault.met > times


def card_is_put_off(tx: Tx) -> bool:
    """Whether a card failed and waits for its next attempt."""
    off = "SELECT 1 FROM jobs WHERE kind = 'card' AND owed_since IS NOT NULL AND due_at > :now"
    return tx.first(off, now=tx.now()) is not None


@pytest.mark.office(POLICIES)
async def test_what_is_put_off_again_and_again_grows_old(at: Office) -> None:
    down = at.slack.faults.fails("chat.update", status=503, times=None)
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("I reimbursed 1500", at.deploys, thread=card)
    for _ in range(3):
        await at.slack.until(partial(tried_again, down, down.met))
        await until(partial(at.bot.database.read, card_is_put_off))
        await at.later(minutes=10, meanwhile=True)

    await seen(at, "adk_confirm_oldest_owed_seconds", 25 * 60)


@pytest.mark.office(POLICIES)
async def test_parked_rows_by_kind(at: Office) -> None:
    await at.ask("reimburse 1500 for the team dinner")
    await at.rests()
    await at.bot.database.run(lambda tx: change_job(tx, "confirmation", parked_at=1.0, due_at=None))

    page = await scrape(at.bot.url)
    assert page.labels("adk_confirm_parked", "kind") == {"session", "confirmation", "card", "thread", "reply"}
    assert page.value("adk_confirm_parked", kind="confirmation") == 1
    assert page.value("adk_confirm_parked") == 1


@asynccontextmanager
async def counting() -> AsyncIterator[Metrics]:
    database = await open_store(":memory:", SECRET)
    yield Metrics(database)
    await database.close()


async def test_however_many_tools_there_are_the_series_are_bounded() -> None:
    async with counting() as metrics:
        for number in range(MOST_TOOLS + 50):
            desk = Desk(make_policy(), make_asked(f"tool_{number}"))
            desk.approve(ANNA)
            metrics.heard(Transition(row=desk.row, steps=tuple(desk.steps)))
        page = Scraped((await metrics.page(""))[0].decode())

    tools = page.labels("adk_confirm_decided_total", "tool")
    assert len(tools) == MOST_TOOLS + 1
    assert page.value("adk_confirm_decided_total", tool=OTHER) == 50


async def nobody(key: str, lease: Lease, found: None) -> None:
    raise AssertionError("it is only claimed")


@pytest.mark.parametrize("kind", ["sqlite_url", "postgres_url"])
async def test_a_scrape_and_a_claim_read_no_table_whole(kind: str, request: pytest.FixtureRequest) -> None:
    """Among 100,000 waiting rows, and millions that are decided, each number is found through an index of its own."""

    def plans(tx: Tx) -> list[str]:
        explained: list[str] = []

        class Explaining(Tx):
            def _execute(self, sql: str, values: dict[str, object]) -> Any:
                how = "EXPLAIN QUERY PLAN" if tx.dialect == "sqlite" else "EXPLAIN"
                plan = super()._execute(f"{how} {sql}", values).fetchall()
                explained.extend(" ".join(map(str, row)) for row in plan)
                return super()._execute(sql, values)

        if tx.dialect == "postgresql":
            tx.run("SET LOCAL enable_seqscan = off")
        explaining = Explaining(tx._connection, tx.dialect, time.time)
        read_gauges(explaining)
        claim_due(explaining, JobKind("card", nothing, nobody), 8, 30.0)
        return explained

    database = await open_store(request.getfixturevalue(kind), SECRET)
    try:
        found = await database.run(plans)
    finally:
        await database.close()
    within = re.compile(r"SCAN (found|placed|numbered|\(subquery)")  # the rows that another part of the statement found
    read = [line for line in found if not within.search(line)]
    whole = [line for line in read if "Seq Scan" in line or ("SCAN " in line and "INDEX" not in line)]
    assert whole == []
    assert [line for line in found if "jobs" in line and "PRIMARY KEY" in line] == []
    assert any("bot_confirmations_unknown" in line for line in found)
    assert any("bot_confirmations_running" in line for line in found)
    assert any("bot_confirmations_open" in line for line in found)


async def test_the_docs_name_each_metric_that_there_is() -> None:
    async with counting() as metrics:
        page = (await metrics.page(""))[0].decode()
    ours = {
        (f"{family.name}_total" if family.type == "counter" else family.name): family.type
        for family in text_string_to_metric_families(page)
        if family.name.startswith("adk_confirm_")
    }
    operations = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(adk_confirm_\w+)` \| (\w+) \|", operations, re.MULTILINE)) == ours
    described = operations.partition("The background tasks:\n")[2].partition("\nA task that fails")[0]
    named = {name for line in described.split() for name in re.findall(r"`([a-z-]+)`", line)}
    assert named == {*TASKS, "reloading"}
