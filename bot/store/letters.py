"""A session's mailbox: what people say and decide until its agent has received it, and what holds the agent back:
pauses and stops. Transaction functions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from typing import Any

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.confirmation import SLACK, Confirmation, State
from adk_confirm.bot.confirmation.states import Step, Transition, UnsealedPart, next_version
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.agent_status import end_work, note_stopped
from adk_confirm.bot.store.ledger_rows import content_of, unbroken_lines, write_steps
from adk_confirm.bot.store.marks import begin_attempt, earlier_attempt
from adk_confirm.bot.store.repository import (
    Session,
    chain_of,
    lock_confirmation,
    lock_session,
    now,
    people_text,
    put_words,
    save,
    save_people,
    session_confirmations,
    session_is_sealed,
    session_seal,
    whose_turn,
)
from adk_confirm.bot.store.sealed_rows import letter_is_sealed
from adk_confirm.runtime.jsontypes import JsonObject, canonical, objects
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import NotNow, owe, settle
from adk_confirm.runtime.store.tables import noted
from adk_confirm.runtime.wire import SessionId

ANSWERS = ("answer", "refusal")

_MOST_AT_ONCE = 50


@dataclass(frozen=True)
class Letter:
    """Something that a session's agent has not received yet: a message, an answer, a refusal, or what people said about
    an unknown outcome."""

    id: int
    kind: str
    mark: str
    body: JsonObject
    person: str | None
    confirmation: str | None
    line: int = 0  # of a message: the last line of the session's chain when it was stored
    sealed: bool = True  # False: it is void, and nothing can be read of it

    @property
    def trace(self) -> str | None:
        """The trace that the letter belongs to, as a `traceparent`."""
        trace = self.body.get("trace")
        return trace if isinstance(trace, str) else None

    @property
    def files(self) -> list[JsonObject]:
        return objects(self.body.get("files"))


@dataclass(frozen=True)
class DecisionsAhead:
    """Which decisions may overtake a message that waits for Slack: all but those whose ids are in `sent`, and those of
    `turns`, which have requests about which nobody was asked yet."""

    sent: Collection[int] = ()
    turns: Collection[str] = ()


_WAITING = "SELECT * FROM bot_mail WHERE session = :key AND done_at IS NULL ORDER BY id"
_NEXT = f"{_WAITING} LIMIT :most"
_PAUSED_OR_STOPPED = """
    SELECT EXISTS (SELECT 1 FROM adk_confirm_store WHERE name = :paused) AS paused,
        EXISTS (SELECT 1 FROM bot_attempts WHERE scope = :key AND mark = :stopped) AS stopped,
        (SELECT at_work <> 0 OR status = 'processing' FROM bot_sessions WHERE key = :key) AS shown
"""


@dataclass(frozen=True)
class Mail:
    """The letters that the agent gets next, and the session's confirmations at that moment."""

    letters: tuple[Letter, ...]
    paused: bool
    rows: tuple[Confirmation, ...]
    stopped: bool = False  # somebody stopped the run about the first letter
    shown: bool = False  # people see the agent at work, from the run before
    ended: bool = False  # nothing is left to do in the session, and this is stored

    def about(self, letter: Letter) -> Confirmation | None:
        """The confirmation that the letter's decision is about. None if somebody changed its row."""
        return next((row for row in self.rows if row.id == letter.confirmation), None)


def read_mail(tx: Tx, key: str, *, alone: bool, decisions_ahead: DecisionsAhead | None = None) -> Mail:
    """The agent's next mail. `alone`: answers that belong to no turn go one by one. Messages wait for no decision."""
    ahead, most = decisions_ahead or DecisionsAhead(), None if decisions_ahead else _MOST_AT_ONCE
    waiting = _waiting(tx, key, most)
    if decisions_ahead is not None:
        waiting = [one for one in waiting if one.kind != "words" and one.id not in ahead.sent]
    rows = tuple(session_confirmations(tx, key)) if waiting else ()
    turns = {row.id: row.asked.turn for row in rows}
    if len(waiting) == most and any(_turn(letter, turns) for letter in waiting):
        waiting = _waiting(tx, key)
    undecided = {row.asked.turn for row in rows if row.state is State.WAITING} | {*ahead.turns}
    letters = next_together(waiting, turns, undecided, alone=alone)
    if not letters:
        return Mail((), paused=False, rows=rows)
    if letters[0].kind == "words" and letters[0].sealed and _was_heard(tx, key, letters[0]):
        letters = (replace(letters[0], body={}, person=None, sealed=False),)
    found = tx.first(_PAUSED_OR_STOPPED, paused=PAUSED, key=key, stopped=stop_mark(letters[0].id))
    return Mail(letters, bool(found.paused), rows, bool(found.stopped), bool(found.shown))


def finish_and_read_next(tx: Tx, key: str, received: Sequence[Letter], *, alone: bool, may_end: bool = False) -> Mail:
    """Marks letters as received, and returns the next mail. `may_end`: if there is none, and nobody has to be told that
    an approval waits, the session is done."""
    if may_end:
        lock_session(tx, key)
    letters_done(tx, key, received)
    mail = read_mail(tx, key, alone=alone)
    if not may_end or mail.letters or any(approvals_held_back(mail.rows)):
        return mail
    _set_due(tx, key, None)
    return replace(mail, ended=True)


def _letter(tx: Tx, row: Any) -> Letter:
    if not letter_is_sealed(tx, row):
        return Letter(row.id, row.kind, row.mark, {}, None, row.confirmation, sealed=False)
    return Letter(row.id, row.kind, row.mark, json.loads(row.body), row.person, row.confirmation, row.line)


def _waiting(tx: Tx, key: str, most: int | None = None) -> list[Letter]:
    found = tx.all(_WAITING, key=key) if most is None else tx.all(_NEXT, key=key, most=most)
    return [_letter(tx, row) for row in found]


def next_together(
    letters: Sequence[Letter], turns: Mapping[str, str], undecided: Collection[str], *, alone: bool
) -> tuple[Letter, ...]:
    """The next letters that the agent gets together: one alone, the answers of one turn once all of its requests are
    decided, or all answers that wait and belong to no turn. `turns`: each confirmation's turn. `undecided`: the turns
    with a request that is not decided."""
    for number, letter in enumerate(letters):
        if letter.kind not in ANSWERS:
            return (letter,)
        turn = _turn(letter, turns)
        if not turn:
            rest = takewhile(lambda one: one.kind in ANSWERS and not _turn(one, turns), letters[number:])
            return (letter,) if alone else tuple(rest)
        if turn not in undecided:
            return tuple(one for one in letters if one.kind in ANSWERS and _turn(one, turns) == turn)
    return ()


def approvals_held_back(rows: Sequence[Confirmation]) -> Iterator[tuple[Confirmation, list[Confirmation]]]:
    """The approved calls that wait for other decisions of their turn, each with the undecided confirmations."""
    for row in rows:
        turn = row.asked.turn
        undecided = [one for one in rows if turn and one.asked.turn == turn and one.state is State.WAITING]
        if row.state is State.APPROVED and row.outcome is None and row.is_first and undecided:
            yield row, undecided


def _turn(letter: Letter, turns: Mapping[str, str]) -> str:
    if letter.confirmation is not None:
        return turns.get(letter.confirmation, "")
    return str(letter.body.get("turn") or "")


def is_stopped(tx: Tx, key: str, letter: int) -> bool:
    """Whether somebody stopped the run about this letter."""
    return earlier_attempt(tx, key, stop_mark(letter)) is not None


def stop_mark(letter: int) -> str:
    """The mark in `bot_attempts` which says that somebody stopped the run about this letter."""
    return f"stopped:{letter}"


def letters_done(tx: Tx, key: str, letters: Sequence[Letter]) -> None:
    """Marks letters as received, or as no longer needed. Each message gets a ledger line, so that nobody who
    changes the database can make the agent hear it again."""
    for letter in letters:
        tx.run("UPDATE bot_mail SET done_at = :now WHERE id = :id", id=letter.id, now=tx.now())
        if letter.kind == "words" and letter.sealed:
            write_steps(tx, key, Step(kind=LineKind.HEARD, at=now(tx), text=own_words(letter.mark)))


def _was_heard(tx: Tx, key: str, letter: Letter) -> bool:
    """Whether the agent received the message before. A line since then that is missing, changed or purged counts as
    well: it could be the line that says so."""
    lines = unbroken_lines(tx, key, letter.line + 1)
    contents = [content_of(line) for line in lines or () if line.kind is LineKind.HEARD]
    return lines is None or any(content is None or content.get("text") == letter.mark for content in contents)


def refuse_letter(tx: Tx, key: str, letter: Letter) -> None:
    """Drops a void letter, and says so in the thread. Its confirmation may be forged as well, so it
    is checked."""
    lock_session(tx, key)
    letters_done(tx, key, [letter])
    what = UnsealedPart.WORDS if letter.kind == "words" else UnsealedPart.LETTER
    write_steps(tx, key, Step(kind=LineKind.UNSEALED, at=now(tx), text=what))
    if letter.confirmation is not None:
        owe(tx, "confirmation", letter.confirmation, owner=key, turn=key)


def session_done(tx: Tx, key: str, *, again: float | None = None, told: Collection[str] = ()) -> None:
    """Marks the session as having nothing to do, unless something came meanwhile: a letter, or an approval that waits
    and that is not among those of which people are `told`. `again`: look again in this many seconds."""
    lock_session(tx, key)
    mail = read_mail(tx, key, alone=True)
    came = mail.letters or any(row.id not in told for row, _ in approvals_held_back(mail.rows))
    _set_due(tx, key, tx.now() if came else None if again is None else tx.now() + again)


def _set_due(tx: Tx, key: str, due_at: float | None) -> None:
    """Stores that a run has ended, and when the session is due again."""
    if lock_session(tx, key).at_work:
        end_work(tx, key)
    settle(tx, "session", key, due_at, turn=None if due_at is None else whose_turn(tx, key))


PAUSED = "paused"
"""The name under which a store notes that runs are paused."""


@dataclass(frozen=True)
class PausedRuns:
    """Since when runs are paused, by whom, and why."""

    since: datetime
    by: str | None = None
    reason: str | None = None


class RunsPaused(NotNow):
    """The agent gets nothing and no approved call starts, until runs are resumed."""

    def __init__(self) -> None:
        super().__init__(5.0, "Runs are paused.")


def read_pause(tx: Tx) -> PausedRuns | None:
    """Returns the pause if `adk-confirm pause` stopped all runs, otherwise None."""
    found = noted(tx, PAUSED)
    if found is None:
        return None
    try:
        stored = json.loads(found)
        return PausedRuns(datetime.fromisoformat(stored["at"]), stored.get("by"), stored.get("reason"))
    except (ValueError, KeyError, TypeError, AttributeError):  # unreadable, but runs are paused anyway
        return PausedRuns(now(tx))


@dataclass(frozen=True, kw_only=True)
class SlackMessage:
    """A person's message to the agent, as Slack delivered it."""

    app: str
    team: str
    channel: str
    thread_ts: str
    ts: str
    person: Person
    text: str
    files: tuple[JsonObject, ...] = ()
    trace: str | None = None

    @property
    def session(self) -> SessionId:
        return SessionId(self.app, f"{SLACK}{self.team}-{self.person.user}", self.id)

    @property
    def id(self) -> str:
        return f"{SLACK}{self.team}-{self.channel}-{self.thread_ts}"


class MessageHint(StrEnum):
    """A hint that the writer gets at once."""

    STOP = "stop"  # how to stop waiting calls
    HINT = "hint"  # how to reach the agent, and how to vote
    SPOKE = "spoke"  # whoever speaks to the agent can't approve the calls that wait
    QUEUED = "queued"  # the agent is at work and reads this next
    PAUSED = "paused"  # runs are paused; the agent reads this later


@dataclass(frozen=True)
class MessageResult:
    """What happened to a message. `new`: the agent will get it. `waiting`: the calls of the session that wait."""

    new: bool = False
    sign: MessageHint | None = None
    session: str = ""
    waiting: tuple[str, ...] = ()


def receive_mention(tx: Tx, heard: SlackMessage, stops: bool) -> MessageResult:
    """Handles a message that mentions the agent, or that was sent to the agent alone."""
    before = _session_at(tx, heard)
    spoke = before is not None and heard.person in lock_session(tx, before).speakers
    key = _put(tx, before, heard)
    if key is None:
        return MessageResult()
    waiting = _waiting_calls(tx, key)
    if not spoke:
        _draw_again(tx, waiting)
    sign = why_it_waits(tx, key, heard.ts)
    if waiting and (stops or not spoke):
        sign = MessageHint.STOP if stops else MessageHint.SPOKE
    return MessageResult(new=True, sign=sign, session=key, waiting=waiting)


def _draw_again(tx: Tx, waiting: Sequence[str]) -> None:
    """Has the cards of waiting calls drawn again: whoever spoke to the agent can't approve these calls now."""
    for session, row in (lock_confirmation(tx, id_) for id_ in waiting):
        if row.state is State.WAITING and row.policy.allow_requester is False:
            save(tx, session, Transition(row=next_version(row, now(tx))))


def receive_reply(tx: Tx, heard: SlackMessage, stops: bool) -> MessageResult:
    """Handles a reply in a session's thread without a mention. It is for the agent while nobody else wrote in the
    thread, unless it asks to stop a waiting call."""
    key = _session_at(tx, heard)
    if key is None:
        return MessageResult()
    session = lock_session(tx, key)
    present, stood = session.present | {heard.person}, session_is_sealed(tx, session)
    if present != session.present:
        save_people(tx, replace(session, present=present), stood=stood)
    waiting = _waiting_calls(tx, key)
    began = tx.value("SELECT min(mark) FROM bot_mail WHERE session = :key AND kind = 'words'", key=key)
    if began is not None and float(heard.ts) < float(began):
        return MessageResult()  # Slack delivered it late: it was said before anybody called the agent
    if len(present) == 1 and stood and not (stops and waiting):
        return receive_mention(tx, heard, stops)
    if not waiting or begin_attempt(tx, key, f"reply:{heard.ts}") is not None:
        return MessageResult()  # people talk to each other, or Slack delivered the message twice
    if stops:
        return MessageResult(sign=MessageHint.STOP, session=key, waiting=waiting)
    first = begin_attempt(tx, key, f"reply hint:{heard.person.user}") is None
    return MessageResult(sign=MessageHint.HINT if first else None, session=key, waiting=waiting)


_WAITING_TO_SPEAK = """
    SELECT mark, EXISTS (SELECT 1 FROM adk_confirm_store WHERE name = :switch) AS paused FROM bot_mail
    WHERE session = :key AND done_at IS NULL ORDER BY id
"""


def why_it_waits(tx: Tx, key: str, mark: str) -> MessageHint | None:
    """Why the agent can't read a message now: runs are paused, or other messages come first. None if it can."""
    waiting = tx.all(_WAITING_TO_SPEAK, key=key, switch=PAUSED)
    if all(one.mark != mark for one in waiting):
        return None
    if waiting[0].paused:
        return MessageHint.PAUSED
    return None if waiting[0].mark == mark else MessageHint.QUEUED


def _waiting_calls(tx: Tx, key: str) -> tuple[str, ...]:
    found = "SELECT id FROM bot_confirmations WHERE session = :key AND state = 'waiting' ORDER BY created"
    return tuple(tx.column(found, key=key))


def store_message(tx: Tx, heard: SlackMessage) -> str | None:
    """Puts a message into the session's mailbox, and returns the session's key. The first message of a thread creates
    the session. None if the message was stored before."""
    return _put(tx, _session_at(tx, heard), heard)


def _put(tx: Tx, key: str | None, heard: SlackMessage) -> str | None:
    """Like `store_message`, for a caller that has looked for the session. `key`: the session's, if there is one."""
    session = lock_session(tx, key or _create_session(tx, chain_of(heard.session), heard))
    body: JsonObject = {"text": heard.text, "files": list(heard.files), "ts": heard.ts, "trace": heard.trace}
    new = put_words(tx, session, mark=heard.ts, body=canonical(body), person=heard.person)
    return session.key if new else None


def _create_session(tx: Tx, key: str, heard: SlackMessage) -> str:
    """Creates the session, unless another replica was faster. Returns the key of the session that there is now."""
    people = frozenset({heard.person})
    session = Session(
        key=key,
        session=heard.session,
        team=heard.team,
        channel=heard.channel,
        thread_ts=heard.thread_ts,
        starter=Person(heard.team, heard.person.user),
        speakers=people,
        present=people,
        told_seq=0,
    )
    session = replace(session, sealed=session_seal(tx, session))
    # Slack sends two events for one mention, perhaps to two replicas at once.
    row = {
        "key": key,
        "app": heard.app,
        "user_id": heard.session.user_id,
        "id": heard.id,
        "team": heard.team,
        "channel": heard.channel,
        "thread_ts": heard.thread_ts,
        "starter": heard.person.user,
        "speakers": people_text(people),
        "present": people_text(people),
        "told_seq": 0,
        "created": tx.now(),
        "sealed": session.sealed,
    }
    if tx.insert("bot_sessions", row, if_absent=True):
        tx.known["bot_sessions"][key] = session
        return key
    made = _session_at(tx, heard)  # another replica made it just now, perhaps for another person
    assert made is not None
    return made


def _session_at(tx: Tx, heard: SlackMessage) -> str | None:
    key: str | None = tx.value("SELECT key FROM bot_sessions WHERE app = :app AND id = :id", app=heard.app, id=heard.id)
    return key


STOPS = "bot:stops"
"""The topic that is notified when somebody stops a run."""


@dataclass(frozen=True, kw_only=True)
class StopPress:
    """Somebody pressed a thread's stop button. `event` names the press, since Slack may deliver it twice."""

    app: str
    team: str
    channel: str
    thread_ts: str
    person: Person
    event: str


_UNDER_WAY = "SELECT 1 FROM bot_mail WHERE id = :id AND session = :key AND done_at IS NULL"


def stop_run(tx: Tx, stop: StopPress) -> bool:
    """Stops the thread's run. Returns whether there was one that nobody had stopped before. The thread's line says
    which calls run on or wait."""
    session = f"{SLACK}{stop.team}-{stop.channel}-{stop.thread_ts}"
    key = tx.value("SELECT key FROM bot_sessions WHERE app = :app AND id = :id", app=stop.app, id=session)
    if key is None:
        return False
    under_way = lock_session(tx, key).at_work
    if begin_attempt(tx, key, f"stop event:{stop.event}"[:320]) is not None:
        return False
    note_stopped(tx, key)  # Slack waits for a new status, even if no run was under way
    mail = read_mail(tx, key, alone=True)
    about = under_way if tx.first(_UNDER_WAY, id=under_way, key=key) else next((one.id for one in mail.letters), None)
    if about is None or begin_attempt(tx, key, stop_mark(about)) is not None:
        return False
    goes_on = [row.asked.tool for row in mail.rows if row.runs]
    waits = [row.asked.tool for row in mail.rows if row.state is State.WAITING]
    text = canonical({"runs": [*goes_on], "waits": [*waits]})
    write_steps(tx, key, Step(kind=LineKind.STOPPED, at=now(tx), who=stop.person, text=own_words(text)))
    tx.notify(STOPS)
    return True
