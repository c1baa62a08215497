"""Keeps a reaction on the first message of a thread: whether a call waits there, or how the last one ended.

Off by default, since each change costs one or two calls to Slack. `attempts` remembers which reaction is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from bot.confirmation.model import Confirmation, OutcomeKind, State
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Later, SlackTrouble
from bot.slack.outbound.methods import ADD_REACTION, REMOVE_REACTION, Method
from bot.store.attempts import Attempts
from bot.store.repository import Session
from runtime.store.lease import Lease

log = logging.getLogger(__name__)


WAITS, DONE, NOT_DONE, TOO_LATE = SIGNS = ("hourglass_flowing_sand", "white_check_mark", "no_entry", "hourglass")
_AS_WANTED = ("already_reacted", "no_reaction")


class Reactions:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def show(self, lease: Lease, session: Session, rows: Sequence[Confirmation]) -> None:
        """Updates the reaction. If Slack refuses, nothing is retried."""
        wanted, attempts = sign(rows), Attempts(lease)
        for name in SIGNS:
            shown = await attempts.earlier(session.key, _mark(name)) is not None
            if shown == (name == wanted):
                continue
            try:
                await self._call(lease, session, name, ADD_REACTION if name == wanted else REMOVE_REACTION)
            except Later:
                raise
            except SlackTrouble as trouble:
                log.info("a reaction is not shown: %s", trouble)
            await (attempts.forget if shown else attempts.begin)(session.key, _mark(name))

    async def _call(self, lease: Lease, session: Session, name: str, method: Method) -> None:
        at, args = Workspace.of(session), {"channel": session.channel, "name": name}
        try:
            await self._sender.under(lease.sure).ask(
                at, method, lambda client: client.api_call(method.name, params={**args, "timestamp": session.thread_ts})
            )
        except SlackTrouble as trouble:
            if trouble.code not in _AS_WANTED:
                raise


def sign(rows: Sequence[Confirmation]) -> str | None:
    """The reaction for a thread with these confirmations. None if nobody was asked."""
    asked = [row for row in rows if not row.quiet]
    if not asked:
        return None
    if any(_open(row) for row in asked):
        return WAITS
    last = max(asked, key=lambda row: row.changed_at)
    if last.state in (State.EXPIRED, State.LAPSED):
        return TOO_LATE
    happened = last.outcome is not None and last.outcome.kind in (OutcomeKind.DONE, OutcomeKind.HAPPENED)
    return DONE if happened else NOT_DONE


def _open(row: Confirmation) -> bool:
    running = row.outcome is None or row.outcome.kind in (OutcomeKind.RUNNING, OutcomeKind.UNKNOWN)
    return row.state is State.WAITING or (row.state is State.APPROVED and running)


def _mark(name: str) -> str:
    return f"reaction:{name}"
