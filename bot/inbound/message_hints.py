"""Answers people who write in a thread: that the agent reads the message later, or not at all, and how to stop a
call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from blocks import verdict
from blocks.content import headline
from blocks.ids import Ref
from blocks.verdict import Stoppable
from bot.confirmation.model import Confirmation, State
from bot.confirmation.shown import Shown
from bot.policy.approvers import Unresolved
from bot.policy.model import may_decide
from bot.slack.api import Slack
from bot.slack.directory import Directory
from bot.store.incoming_words import MessageHint, MessageResult, SlackMessage, why_it_waits
from bot.store.repository import read_confirmation
from runtime.jsontypes import JsonObject
from runtime.store.database import Database

PATIENCE = 2.0
"""A message that the agent reads within this many seconds needs no hint: its answer is one."""


class HintSender:
    def __init__(self, database: Database, slack: Slack, directory: Directory) -> None:
        self._database, self._slack, self._directory = database, slack, directory

    async def give(self, listened: MessageResult, heard: SlackMessage, bot: str) -> None:
        """Sends the hint to the writer alone, where they wrote."""
        target: JsonObject = {"user": heard.person.user, "channel": heard.channel, "thread_ts": heard.thread_ts}
        match listened.sign:
            case MessageHint.QUEUED | MessageHint.PAUSED:
                await asyncio.sleep(PATIENCE)
                why = await self._database.read(why_it_waits, listened.session, heard.ts)
                if why is not None:
                    await self._slack.whisper(target, verdict.queued_message(paused=why is MessageHint.PAUSED))
            case MessageHint.HINT:
                await self._slack.whisper(target, verdict.hint_message(bot))
            case MessageHint.STOP:
                calls = await self._stoppable_calls(listened.waiting, heard)
                if calls:
                    await self._slack.whisper(target, verdict.stop_message(calls))
                elif not listened.new:
                    await self._slack.whisper(target, verdict.hint_message(bot))

    async def _stoppable_calls(self, waiting: Sequence[str], heard: SlackMessage) -> list[Stoppable]:
        calls: list[Stoppable] = []
        for confirmation in waiting:
            row = await self._database.read(read_confirmation, confirmation)
            if row is None or row.state is not State.WAITING:
                continue
            asked = row.asked.asked_by.is_also(heard.person)
            if asked or await self._may_deny(row, heard):
                what = headline(Shown(row))
                calls.append(Stoppable(Ref(row.id, row.revision.number), what, withdraws=asked))
        return calls

    async def _may_deny(self, row: Confirmation, heard: SlackMessage) -> bool:
        """Whether the person may deny, as far as is known. It is decided when they press the button."""
        call = row.asked.facts(row.revision.arguments)
        for entry in may_decide(row.policy, row.escalated):
            members = await self._directory.members(entry, call)
            if not isinstance(members, Unresolved) and any(heard.person.is_also(one) for one in members):
                return True
        return False
