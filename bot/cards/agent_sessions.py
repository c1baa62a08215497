"""Sets the status and the title of a thread in Slack's agent sessions. Where Slack refuses, nothing is shown."""

from __future__ import annotations

import logging
import re
from contextlib import suppress

from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.policy.redaction import mask_said
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.rate_limits import RENAME_SESSION, SET_SESSION_STATUS, Method
from adk_confirm.bot.slack.troubles import Later, SlackTrouble
from adk_confirm.bot.store.agent_status import AgentStatus, ShownStatus, first_words, note_status
from adk_confirm.bot.store.repository import Session, session_confirmations
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.lease import Lease

log = logging.getLogger(__name__)

LONGEST_TITLE = 80
_NO_STOP = "missing_agent_session_stopped_event_subscription"


class AgentSessions:
    def __init__(self, slack: Slack, rules: Rules) -> None:
        self._slack, self._rules = slack, rules

    async def show(self, lease: Lease, session: Session, status: ShownStatus) -> None:
        """Has Slack show the status that is wanted."""
        assert status.change is not None
        await lease.run(note_status, session.key, status.change)  # before the call, since its answer may be lost
        try:
            await self._set(lease, session, status.change, is_new=status.shown is None)
        except SlackTrouble as trouble:
            if not isinstance(trouble, Later) or trouble.limited:
                await lease.run(note_status, session.key, status.shown)
            if isinstance(trouble, Later) and trouble.limited:
                raise
            log.info("no status or title is shown: %s", trouble)

    async def _set(self, lease: Lease, session: Session, status: AgentStatus, *, is_new: bool) -> None:
        title = await self._title(lease, session)
        args: JsonObject = {"status": str(status)}
        if is_new:
            args |= {"initiator_user_id": session.starter.user} | ({"title": title} if title else {})
        answer = await self._ask(lease, session, SET_SESSION_STATUS, args)
        if answer.get("warning") == _NO_STOP:
            log.warning(
                "People in %s see no stop button: the app is not subscribed to agent_session_stopped. "
                "Take the event from `adk-confirm manifest`.",
                session.team,
            )
        if title and answer.get("title") == "":  # it was a session before, or nobody knew yet what to hide
            with suppress(SlackTrouble):
                await self._ask(lease, session, RENAME_SESSION, {"title": title})

    async def _title(self, lease: Lease, session: Session) -> str:
        """The first words of the thread, without what the policies hide. Empty before the first request if any policy
        hides something, since it is not known yet which policy applies."""
        rows = await lease.read(session_confirmations, session.key)
        if not rows and any(policy.redact for policy in self._rules.policies.entries):
            return ""
        words = title_of(await lease.read(first_words, session.key))
        (title,) = await mask_said((row.redactor for row in rows), words)
        return title

    async def _ask(self, lease: Lease, session: Session, method: Method, args: JsonObject) -> JsonObject:
        slack = self._slack.at(lease)
        return await slack.call(method, channel_id=session.channel, thread_ts=session.thread_ts, **args)


def title_of(words: str) -> str:
    """
    >>> title_of("<@U0BOT> please  deploy\\ncheckout")
    'please deploy checkout'
    >>> len(title_of("word " * 100))
    75
    """
    title = " ".join(re.sub(r"<[@!#][^>]*>", "", words).split())
    if len(title) <= LONGEST_TITLE:
        return title
    cut = title[: LONGEST_TITLE - 1].rpartition(" ")[0]
    return f"{cut or title[: LONGEST_TITLE - 1]}…"
