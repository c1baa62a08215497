"""Changes to a confirmation by time, hosts and drawing: one transaction each, with its ledger lines.

Use them as `await database.run(keep_time, confirmation_id)`. They lock the row, call the pure modules, and save the
result. Nothing here calls Slack or a host: callers pass in what they looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import Confirmation, Place, State
from adk_confirm.bot.confirmation.decision import delivery_of
from adk_confirm.bot.confirmation.edits import answer_from_form
from adk_confirm.bot.confirmation.outcome import (
    begin,
    copy_outcome,
    needs_drawing,
    note_changed_preview,
    record_unreached,
    start,
    starts_changed,
    take_back,
    tick,
)
from adk_confirm.bot.confirmation.states import Delivery, Transition, next_version
from adk_confirm.bot.confirmation.votes import take_preview
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.store.letters import RunsPaused, read_pause
from adk_confirm.bot.store.marks import SLACK_IS_LATE
from adk_confirm.bot.store.repository import (
    chain_of,
    lock_confirmation,
    lock_session,
    now,
    put_words,
    read_confirmation,
    save,
    save_places,
)
from adk_confirm.bot.store.sealed_rows import letter_is_sealed, storable
from adk_confirm.runtime.calls.call import ALTERED, EARLIER, Begin, Call, CallState, refuse_to_start, step
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import settle
from adk_confirm.runtime.wire import SessionId

_ASKED = """
    SELECT id, EXISTS (SELECT 1 FROM adk_confirm_store WHERE name = 'paused') AS paused
    FROM bot_confirmations WHERE session = :session AND request_id = :request
"""


def _change(tx: Tx, confirmation_id: str, step: Callable[[Confirmation, datetime], Transition]) -> Confirmation:
    session, row = lock_confirmation(tx, confirmation_id)
    change = step(row, now(tx))
    return row if change.row is row else save(tx, session, change)


def keep_time(tx: Tx, confirmation_id: str) -> Confirmation:
    """Applies the clock: reminders, escalation, expiry, an approval that did not start in time."""
    return _change(tx, confirmation_id, tick)


def save_preview(tx: Tx, confirmation_id: str, revision: int, made: JsonObject) -> Confirmation:
    """Stores what an edited call would do, unless it was edited once more, or decided."""
    session, row = lock_confirmation(tx, confirmation_id)
    current = row.awaits_preview and row.revision.number == revision
    return save(tx, session, take_preview(row, made, now(tx))) if current else row


def hand_over(tx: Tx, confirmation_id: str, delivery: Delivery) -> Confirmation:
    """Checks an approval for the last time before a host gets it. Raises `Illegal` if the call must not run any more.
    If the returned row has no `handed_at`, the call was refused just now."""
    session, row = lock_confirmation(tx, confirmation_id)
    if read_pause(tx) is not None:  # under the lock: `switch_runs` locks each call that may start before it returns
        raise RunsPaused
    return row if row.is_void else save(tx, session, begin(row, delivery, now(tx)))


def follow_call(tx: Tx, name: SessionId, before: Call | None, after: Call) -> Call:
    """Changes the confirmation of our own runtime's call, in the transaction that stores the call. Returns the call:
    refused if it must not begin; begun in spite of a changed preview if the policy allows that."""
    was = before.state if before is not None else None
    if after.state is CallState.READY or (was is CallState.UNKNOWN and after.settled):
        return after  # nothing has happened yet; or people said what happened, and the confirmation has it
    about = after.asked[-2:-1] if after.state is CallState.HELD else after.asked[-1:]
    key = chain_of(name)
    if about:
        lock_session(tx, key)  # before the pause is read, as in `hand_over`
    found = tx.first(_ASKED, session=key, request=storable(about[0].request_id)) if about else None
    ready = before if was is CallState.READY and after.state is CallState.HELD else None  # its preview has changed
    changed = after.request.preview if ready and after.request else None
    if ready and found is not None and starts_changed(lock_confirmation(tx, found.id)[1], changed):
        after = replace(step(ready, Begin(), tx.now()), told=after.told)
    if after.state is CallState.RUNNING:
        if found is not None and found.paused:  # runs were paused after the agent got the approval
            raise RunsPaused
        row = _start(tx, found.id, after, again=was is CallState.RUNNING, changed=changed) if found else None
        if row is not None and row.runs:
            return after
        lapsed = row.decision.reason if row is not None and row.decision and row.state is State.LAPSED else None
        after = refuse_to_start(after, lapsed or ALTERED, tx.now())
    if found is not None:
        if after.state is CallState.HELD:  # it asks once more
            ended = replace(after, state=CallState.DONE, asked=after.asked[:-1], result=None)
            if ready:
                why = f"{decision_texts.PREVIEW_CHANGED} {EARLIER}" if after.attempt else decision_texts.PREVIEW_CHANGED
                ended = replace(ended, state=CallState.REFUSED, result={"error": why})
            follow_outcome(tx, found.id, ended)
        else:
            follow_outcome(tx, found.id, after)
    return after


def _start(tx: Tx, confirmation_id: str, call: Call, *, again: bool, changed: Preview | None) -> Confirmation:
    session, row = lock_confirmation(tx, confirmation_id)
    if row.is_void:
        return row
    answer = delivery_of(row, "approved").payload
    if call.asks_input:
        answer = answer_from_form(row.asked.payload_schema, answer)
    change = start(row, call, answer, now(tx), again=again)
    if changed and change.row.runs:
        change = change.after(note_changed_preview(row, changed, now(tx)))
    return row if change.row is row else save(tx, session, change)


def record_not_arrived(tx: Tx, confirmation_id: str) -> Confirmation:
    """Records that the host does not have the approval."""
    return _change(tx, confirmation_id, take_back)


def record_out_of_reach(tx: Tx, confirmation_id: str) -> Confirmation:
    """Records that the host can't be reached now."""
    return _change(tx, confirmation_id, record_unreached)


def follow_outcome(tx: Tx, confirmation_id: str, call: Call) -> Confirmation:
    """Copies what the host says became of the call."""
    return _change(tx, confirmation_id, lambda row, at: copy_outcome(row, call, at))


@dataclass(frozen=True)
class VotesShown:
    """Tells the metrics about votes that all cards show now for the first time: seconds from storing to showing."""

    seconds: tuple[float, ...]


def save_drawn(tx: Tx, confirmation_id: str, places: tuple[Place, ...]) -> Confirmation:
    """Stores where cards are and which version they show. If all show the current version, nothing is left to draw."""
    session, row = lock_confirmation(tx, confirmation_id)
    by_place = {(place.channel, place.thread_ts): place for place in places}
    kept = tuple(by_place.pop((place.channel, place.thread_ts), place) for place in row.places)
    after = replace(row, places=(*kept, *by_place.values()))
    fresh = [vote for vote in row.votes if vote.heard is not None and row.shown < vote.heard <= after.shown]
    if fresh:
        at = now(tx)
        tx.report(VotesShown(tuple((at - vote.stored_at).total_seconds() for vote in fresh)))
    if places:
        save_places(tx, after)
    if not needs_drawing(after):
        if row.doubt == 1:
            after = save(tx, session, Transition(row=replace(after, doubt=0)))
        settle(tx, "card", confirmation_id)
    return after


def draw_again(tx: Tx, confirmation_id: str) -> None:
    """Has each place drawn again, since an older drawing may have arrived after a newer one, and once more when no
    older one can arrive any more. Whoever draws looks for copies first."""
    if read_confirmation(tx, confirmation_id) is not None:  # it was not purged
        _change(tx, confirmation_id, lambda row, at: Transition(row=next_version(_in_doubt(row, at), at)))


def draw_again_late(tx: Tx, confirmation_id: str) -> None:
    """Has each place drawn again when the drawing that was sent just now, without an answer, can't arrive any more. The
    card is not made due now: whoever draws it tries again after a pause anyway."""
    if read_confirmation(tx, confirmation_id) is not None:  # it was not purged
        session, row = lock_confirmation(tx, confirmation_id)
        save(tx, session, Transition(row=_in_doubt(row, now(tx))), draws=False)


def _in_doubt(row: Confirmation, at: datetime) -> Confirmation:
    return replace(row, redraw_at=at + timedelta(seconds=SLACK_IS_LATE), doubt=2)


class RetryResult(Enum):
    """What happened when a person asked the agent to try the same message again, or to ask for a call again."""

    AGAIN = "again"
    NOT_YOURS = "not yours"
    GONE = "gone"


def say_again(tx: Tx, letter_id: int, person: Person) -> RetryResult:
    """Puts a person's message into the mailbox again. Its mark depends on the message, so that a second click adds
    nothing."""
    row = tx.first("SELECT * FROM bot_mail WHERE id = :id AND kind = 'words'", id=letter_id)
    if row is None or not letter_is_sealed(tx, row):
        return RetryResult.GONE
    session = lock_session(tx, row.session)
    if row.person != person.user or person not in session.speakers:
        return RetryResult.NOT_YOURS
    put_words(tx, session, mark=f"retry:{letter_id}", body=row.body, person=person)
    return RetryResult.AGAIN


def ask_once_more(tx: Tx, confirmation_id: str, words: str, person: Person) -> RetryResult:
    """Puts `words` into the mailbox in the name of the person who asked for the call, so that the agent asks for it
    again: once for each confirmation."""
    session, row = lock_confirmation(tx, confirmation_id)
    if person != row.asked.asked_by or person not in session.speakers:
        return RetryResult.NOT_YOURS
    new = put_words(tx, session, mark=f"again:{row.id}", body=canonical({"text": words}), person=person)
    return RetryResult.AGAIN if new else RetryResult.GONE
