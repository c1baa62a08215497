"""Sets the status and title of a thread in Slack's agent sessions. Does nothing in a workspace without them."""

from __future__ import annotations

import logging

from bot.config.rules import RulesInForce
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Later, SlackTrouble
from bot.slack.outbound.feature_support import Feature
from bot.slack.outbound.methods import RENAME_SESSION, SET_SESSION_STATUS, Method
from bot.store.agent_sessions import (
    StatusChange,
    begin_next,
    begin_processing,
    needs_title,
    next_status,
    note_not_changed,
    note_titled,
)
from bot.store.repository import Session, session_confirmations
from runtime.jsontypes import JsonObject
from runtime.store.lease import Lease

log = logging.getLogger(__name__)

_NO_STOP = "missing_agent_session_stopped_event_subscription"
_DONT_WAIT = 0.0


class AgentSessions:
    def __init__(self, sender: Sender, rules: RulesInForce | None = None) -> None:
        self._sender, self._rules = sender, rules
        self._warned: set[str] = set()

    def is_supported(self, session: Session) -> bool:
        """Whether the workspace has agent sessions, as far as is known."""
        return self._sender.features.accepts(Workspace.of(session), Feature.SESSION, session.channel)

    async def show_processing(self, lease: Lease, session: Session) -> bool:
        """Shows that the agent works, with a stop button. Returns False if Slack does not show it."""
        change = await lease.run(begin_processing, session.key)
        if change is None:
            return True
        try:
            return await self._set(lease, session, change, patience=_DONT_WAIT)
        except Later as later:
            log.info("no status is shown: %s", later)
            return False

    async def show(self, lease: Lease, session: Session) -> float | None:
        """Updates the status. Returns the seconds until the next look, or None."""
        if not self.is_supported(session):
            return None
        found = await lease.read(next_status, session.key)
        if found.change is not None:
            found = await lease.run(begin_next, session.key)
        if found.change is not None:
            await self._set(lease, session, found.change)
        return found.again

    async def _set(
        self, lease: Lease, session: Session, change: StatusChange, *, patience: float | None = None
    ) -> bool:
        args: JsonObject = {"channel_id": session.channel, "thread_ts": session.thread_ts, "status": str(change.status)}
        title = await self._title(lease, session, change)
        if change.before is None:
            args |= {"title": title} if title else {}
            args |= {"initiator_user_id": session.starter.user}
        try:
            answer = await self._ask(lease, session, SET_SESSION_STATUS, args, patience)
        except SlackTrouble as trouble:
            if not isinstance(trouble, Later) or trouble.limited:  # on other errors the change may have been made
                await lease.run(note_not_changed, session.key, change)
            if await self._sender.features.note_refusal(
                Workspace.of(session), Feature.SESSION, trouble, session.channel
            ):
                return False
            raise
        self._warn(session, answer)
        if title and not answer.get("title"):
            await self._rename(lease, session, title)
        return True

    async def _rename(self, lease: Lease, session: Session, title: str) -> None:
        """Sets a title for a thread that was a session before and has none, so that people can tell it from others."""
        if not await lease.read(needs_title, session.key):
            return
        args: JsonObject = {"channel_id": session.channel, "thread_ts": session.thread_ts, "title": title}
        try:
            await self._ask(lease, session, RENAME_SESSION, args, _DONT_WAIT)
        except Later:
            return  # the next status sets it
        except SlackTrouble as trouble:
            log.info("a session stays without a title: %s", trouble)
        await lease.run(note_titled, session.key)

    async def _title(self, lease: Lease, session: Session, change: StatusChange) -> str:
        """The first words of the thread, without what the policies hide. Before the first request that is unknown."""
        rows = await lease.read(session_confirmations, session.key)
        hides = self._rules is not None and any(policy.redact for policy in self._rules.now.policies.entries)
        title = "" if hides and not rows else change.title
        for row in rows:
            title = row.redactor.mask_text(title)
        return title

    async def _ask(
        self, lease: Lease, session: Session, method: Method, args: JsonObject, patience: float | None
    ) -> JsonObject:
        sender = self._sender.under(lease.sure)
        return await sender.ask(
            Workspace.of(session), method, lambda client: client.api_call(method.name, json=args), patience=patience
        )

    def _warn(self, session: Session, answer: JsonObject) -> None:
        if answer.get("warning") == _NO_STOP and session.team not in self._warned:
            self._warned.add(session.team)
            log.warning(
                "People in %s see no stop button: the app is not subscribed to agent_session_stopped. "
                "Take the event from `adk-confirm manifest`.",
                session.team,
            )
