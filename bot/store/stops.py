"""Stores that somebody stopped the run in a thread, and which letter the run was about."""

from __future__ import annotations

from dataclasses import dataclass

from adk_confirm.blocks.ledger_kinds import LineKind
from adk_confirm.bot.confirmation.effects import Step
from adk_confirm.bot.confirmation.model import SLACK, State
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.agent_sessions import note_stopped
from adk_confirm.bot.store.attempts import begin
from adk_confirm.bot.store.ledger_lines import write_step
from adk_confirm.bot.store.mailbox import next_letters, stop_mark
from adk_confirm.bot.store.repository import lock_session, now, session_confirmations
from adk_confirm.runtime.jsontypes import canonical
from adk_confirm.runtime.store.database import Tx

STOPS = "bot:stops"
"""The topic of stops."""


@dataclass(frozen=True, kw_only=True)
class StopPress:
    """Somebody pressed a thread's stop button. `event` names the press, since Slack may deliver it twice."""

    app: str
    team: str
    channel: str
    thread_ts: str
    person: Person
    event: str


def stop_run(tx: Tx, stop: StopPress, *, together: bool = False) -> bool:
    """Stops the run. Returns whether one was under way that had not been stopped before. The thread's line says what
    goes on. `together`: answers wait for each other, as in `next_letters`."""
    session = f"{SLACK}{stop.team}-{stop.channel}-{stop.thread_ts}"
    key = tx.value("SELECT key FROM bot_sessions WHERE app = :app AND id = :id", app=stop.app, id=session)
    if key is None:
        return False
    lock_session(tx, key)
    if begin(tx, key, f"stop event:{stop.event}"[:320]) is not None:
        return False
    note_stopped(tx, key)  # Slack waits for a new status, even if no run was under way
    letters = next_letters(tx, key, together=together)
    if not letters or begin(tx, key, stop_mark(letters[0].id)) is not None:
        return False
    rows = session_confirmations(tx, key)
    goes_on = [row.asked.tool for row in rows if row.runs]
    waits = [row.asked.tool for row in rows if row.state is State.WAITING]
    text = canonical({"runs": [*goes_on], "waits": [*waits]})
    write_step(tx, key, Step(kind=LineKind.STOPPED, at=now(tx), who=stop.person, text=own_words(text)))
    tx.notify(STOPS)
    return True
