"""Calls Slack's streaming methods. A stream is a message that grows until it is stopped. Remembers what a workspace
refuses."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from slack_sdk.web.async_chat_stream import AsyncChatStream
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.cards.live import LiveReply
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Gone, RefusedBySlack, SlackTrouble
from bot.slack.outbound.feature_support import Feature
from bot.slack.outbound.methods import APPEND_STREAM, START_STREAM, STOP_STREAM
from bot.store.agent_sessions import AgentStatus, note_shown, status_after_stream
from bot.store.repository import Session
from runtime.jsontypes import JsonObject
from runtime.store.lease import Lease

log = logging.getLogger(__name__)

_DONT_WAIT = 0.0

_NO_TASKS = frozenset(
    {
        "unknown_method", "missing_scope", "not_allowed", "not_allowed_token_type", "feature_not_enabled",
        "not_an_agent", "method_deprecated", "invalid_arguments", "invalid_blocks", "invalid_chunks",
        "streaming_mode_mismatch",
    }
)  # fmt: skip
"""Slack's errors for a stream that shows tool calls."""

_ABOUT_ARGUMENTS = frozenset({"invalid_arguments", "invalid_blocks", "invalid_chunks", "streaming_mode_mismatch"})
"""Slack's errors for a stream with text only: streams are allowed, but not this one."""


class Streams:
    """`tasks`: show the tool calls that lead to a reply."""

    def __init__(self, sender: Sender, *, tasks: bool) -> None:
        self._sender, self._tasks = sender, tasks

    def show_tasks(self, session: Session) -> bool:
        """Whether replies there show tool calls, as far as is known."""
        takes = self._sender.features.accepts
        wanted = self._tasks and takes(Workspace.of(session), Feature.TASKS, session.channel)
        return wanted and takes(Workspace.of(session), Feature.STREAM, session.channel)

    async def refuse_tasks(self, session: Session, trouble: SlackTrouble) -> None:
        if trouble.code in _NO_TASKS:
            await self._note_refusal(session, Feature.TASKS, trouble)

    async def _note_refusal(self, session: Session, feature: Feature, trouble: SlackTrouble) -> None:
        await self._sender.features.note_refusal(Workspace.of(session), feature, trouble, session.channel)

    async def start(
        self, lease: Lease, session: Session, live: LiveReply, chunks: list[JsonObject], fresh: str
    ) -> None:
        """Begins a stream if Slack accepts it: first with tool calls, then without."""
        tasks = self.show_tasks(session)
        try:
            await self._start(lease, session, live, [*chunks, *_words(fresh)], tasks=tasks)
            return
        except (Gone, RefusedBySlack) as trouble:
            if not tasks or trouble.code not in (_NO_TASKS if chunks else _ABOUT_ARGUMENTS):
                await self._note_refusal(session, Feature.STREAM, trouble)
                return
            await self._note_refusal(session, Feature.TASKS, trouble)
        if not fresh.strip():
            return
        try:
            await self._start(lease, session, live, _words(fresh), tasks=False)
        except (Gone, RefusedBySlack) as trouble:
            await self._note_refusal(session, Feature.STREAM, trouble)

    async def _start(
        self, lease: Lease, session: Session, live: LiveReply, chunks: list[JsonObject], *, tasks: bool
    ) -> None:
        direct = session.channel.startswith("D")
        client = self._sender.client()
        stream = await client.chat_stream(
            channel=session.channel,
            thread_ts=session.thread_ts,
            recipient_team_id=None if direct else session.team,
            recipient_user_id=None if direct else session.starter.user,
            task_display_mode="plan" if tasks else None,
            buffer_size=1,
        )
        await self._sender.under(lease.sure).ask(
            Workspace.of(session),
            START_STREAM,
            lambda _: _append(stream, chunks),
            into=session.channel,
            patience=_DONT_WAIT,
        )
        live.stream, live.ts = stream, stream.ts

    async def append(
        self, lease: Lease, session: Session, live: LiveReply, chunks: list[JsonObject], fresh: str
    ) -> None:
        sender, stream = self._sender.under(lease.sure), live.stream
        assert stream is not None
        content = [*chunks, *_words(fresh)]
        try:
            await sender.ask(
                Workspace.of(session), APPEND_STREAM, lambda _: _append(stream, content), patience=_DONT_WAIT
            )
        except RefusedBySlack as trouble:
            if not chunks or trouble.code not in _NO_TASKS:
                raise
            await self._note_refusal(session, Feature.TASKS, trouble)
            if fresh.strip():
                words = _words(fresh)
                await sender.ask(
                    Workspace.of(session), APPEND_STREAM, lambda _: _append(stream, words), patience=_DONT_WAIT
                )

    async def stop(self, lease: Lease, session: Session, ts: str, chunks: Sequence[JsonObject] = ()) -> None:
        """Ends a stream. `chunks`: the ends of tool calls that it shows as running.

        Slack would show the session as active from then on. So it is told the status, which keeps the stop button while
        the agent goes on, and saves a call of its own. What Slack refuses is left out.
        """
        status = await lease.read(status_after_stream, session.key)
        try:
            await self._stop(lease, session, ts, chunks, status)
        except (Gone, RefusedBySlack) as trouble:
            if not (chunks or status) or trouble.code not in _NO_TASKS:
                log.info("a stream had ended: %s", trouble)
                return
            status = AgentStatus.ACTIVE if status else None
            try:
                await self._stop(lease, session, ts, (), None)
            except (Gone, RefusedBySlack) as again:
                log.info("a stream had ended: %s", again)
                return
        if status is not None:
            await lease.run(note_shown, session.key, status)

    async def _stop(
        self, lease: Lease, session: Session, ts: str, chunks: Sequence[JsonObject], status: AgentStatus | None
    ) -> None:
        status_argument: dict[str, Any] = {} if status is None else {"session_status": str(status)}
        await self._sender.under(lease.sure).ask(
            Workspace.of(session),
            STOP_STREAM,
            lambda client: client.chat_stopStream(
                channel=session.channel, ts=ts, chunks=chunks or None, **status_argument
            ),
        )


async def _append(stream: AsyncChatStream, chunks: list[JsonObject]) -> AsyncSlackResponse:
    response = await stream.append(chunks=chunks)
    assert response is not None  # with a zero buffer, text is sent at once
    return response


def _words(fresh: str) -> list[JsonObject]:
    return [{"type": "markdown_text", "text": fresh}] if fresh.strip() else []
