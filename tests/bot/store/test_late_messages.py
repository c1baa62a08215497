"""Slack may deliver a message late: what was said before the agent was called is not said to it."""

from __future__ import annotations

from adk_confirm.bot.store.mailbox import SlackMessage, receive_reply
from tests.support.backoffice import Backoffice
from tests.support.deciding import ASKER, TEAM


async def test_a_reply_from_before_the_first_mention_is_not_for_the_agent(back: Backoffice) -> None:
    async def replies(ts: str) -> bool:
        heard = SlackMessage(
            app="oncall",
            team=TEAM,
            channel="C0DEPLOYS",
            thread_ts="1.1",
            ts=ts,
            person=ASKER,
            text="@ann, you too?",
        )
        return (await back.database.run(receive_reply, heard, False)).new

    await back.hears("shall we ask?", thread="1.1")
    assert not await replies("0.9")
    assert await replies("1795664433.000200")
