"""When people see that an agent is at work: when it is, and not while only the store is slow."""

from __future__ import annotations

from pathlib import Path

from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.bot.agents.streaming import AT_WORK, RunDisplay
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.store.agent_status import AgentStatus, read_status
from adk_confirm.bot.store.letters import SlackMessage, receive_mention
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.repository import read_session
from adk_confirm.runtime.store.lease import JobKey
from tests.support.skipping import Skipping, in_skipping_time
from tests.support.stores import SECRET, try_lease
from tests.support.waiting import until
from tests.support.watched import Watched, When

WORDS = SlackMessage(
    app="oncall", team="T0", channel="C0", thread_ts="1.0", ts="1.0", person=Person("T0", "U0ANN"), text="hello"
)


def test_an_agent_is_shown_at_work_once_the_store_answers_in_time(tmp_path: Path) -> None:
    async def slow_at_first(loop: Skipping) -> None:
        tried: list[str] = []

        async def slow(when: When, what: str) -> None:
            if (when, what) == ("before", "begin_in_time") and len(tried) < 2:
                await loop.skip(10 * AT_WORK)
            if (when, what) == ("after", "begin_in_time"):
                status = await database.read(read_status, heard.session)
                tried.append(status.wanted)
                await loop.skip(AT_WORK)

        database = await open_store(f"sqlite:///{tmp_path / 'x.db'}", SECRET, loop.wall)
        heard = await database.run(receive_mention, WORDS, stops=True)
        watched = Watched(database, slow)
        lease = await try_lease(watched, JobKey("session", heard.session), term=3600.0)
        assert lease is not None
        session = await database.read(read_session, heard.session)
        display = RunDisplay(Slack(AsyncWebClient("xoxb-0")), database, lease, session, 1)
        await loop.skip(AT_WORK)
        await until(lambda: AgentStatus.PROCESSING in tried)
        assert tried[0] is AgentStatus.ACTIVE
        await display.end()
        await database.close()

    in_skipping_time(slow_at_first)


def test_a_run_that_ended_while_the_store_was_slow_was_never_at_work(tmp_path: Path) -> None:
    async def slow_until_the_end(loop: Skipping) -> None:
        done: list[str] = []

        async def slow(when: When, what: str) -> None:
            if what == "begin_in_time":
                if when == "before":
                    await display.end()
                done.append(when)

        database = await open_store(f"sqlite:///{tmp_path / 'x.db'}", SECRET, loop.wall)
        heard = await database.run(receive_mention, WORDS, stops=True)
        lease = await try_lease(Watched(database, slow), JobKey("session", heard.session), term=3600.0)
        assert lease is not None
        session = await database.read(read_session, heard.session)
        display = RunDisplay(Slack(AsyncWebClient("xoxb-0")), database, lease, session, 1)
        await loop.skip(AT_WORK)
        await until(lambda: "after" in done)
        assert (await database.read(read_status, heard.session)).wanted is AgentStatus.ACTIVE
        await database.close()

    in_skipping_time(slow_until_the_end)
