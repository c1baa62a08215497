"""Puts a person's message into the session's mailbox, or says why it can't be read now. Transaction functions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import bindparam, exists, select, update

from bot.confirmation.model import SLACK, SessionKey, State
from bot.policy.approvers import Person
from bot.store.attempts import begin
from bot.store.mailbox import PAUSED
from bot.store.repository import Session, chain_of, lock_session, people_text, put_words, session_seal
from bot.store.tables import confirmations, mail, sessions, switches
from runtime.jsontypes import JsonObject, canonical
from runtime.store.database import Tx
from runtime.store.prepared import Prepared
from runtime.store.upsert import prepared_insert_if_absent


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
    def session(self) -> SessionKey:
        return SessionKey(self.app, f"{SLACK}{self.team}-{self.person.user}", self.id)

    @property
    def id(self) -> str:
        return f"{SLACK}{self.team}-{self.channel}-{self.thread_ts}"


class MessageHint(StrEnum):
    """A hint that the writer gets at once."""

    STOP = "stop"  # how to stop waiting calls
    HINT = "hint"  # how to reach the agent
    QUEUED = "queued"  # the agent is at work and reads this next
    PAUSED = "paused"  # runs are paused; the agent reads this later


@dataclass(frozen=True)
class MessageResult:
    """What happened to a message. `new`: the agent will get it. `waiting`: calls that the writer could stop."""

    new: bool = False
    sign: MessageHint | None = None
    session: str = ""
    waiting: tuple[str, ...] = ()


def receive_mention(tx: Tx, heard: SlackMessage, stops: bool) -> MessageResult:
    """Handles a message that mentions the agent, or that was sent to the agent alone."""
    if not store_message(tx, heard):
        return MessageResult()
    key = _session_at(tx, heard)
    assert key is not None
    waiting = _waiting_calls(tx, key) if stops else ()
    if waiting:
        return MessageResult(new=True, sign=MessageHint.STOP, session=key, waiting=waiting)
    return MessageResult(new=True, sign=why_it_waits(tx, key, heard.ts), session=key)


def receive_reply(tx: Tx, heard: SlackMessage, stops: bool) -> MessageResult:
    """Handles a reply in a session's thread without a mention. It is for the agent while nobody else wrote in the
    thread, unless it asks to stop a waiting call."""
    key = _session_at(tx, heard)
    if key is None:
        return MessageResult()
    session = lock_session(tx, key)
    present = session.present | {heard.person}
    if present != session.present:
        tx.execute(update(sessions).where(sessions.c.key == key).values(present=people_text(present)))
    waiting = _waiting_calls(tx, key)
    if len(present) == 1 and not (stops and waiting):
        return receive_mention(tx, heard, stops)
    if not waiting or begin(tx, key, f"reply:{heard.ts}") is not None:
        return MessageResult()  # people talk to each other, or Slack delivered the message twice
    if stops:
        return MessageResult(sign=MessageHint.STOP, session=key, waiting=waiting)
    first = begin(tx, key, "reply hint") is None
    return MessageResult(sign=MessageHint.HINT if first else None, session=key)


def why_it_waits(tx: Tx, key: str, mark: str) -> MessageHint | None:
    """Why the agent can't read a message now: runs are paused, or other messages come first. None if it can."""
    waiting = _WAITING.all(tx, key_=key)
    if all(one.mark != mark for one in waiting):
        return None
    if waiting[0].paused:
        return MessageHint.PAUSED
    return None if waiting[0].mark == mark else MessageHint.QUEUED


def _waiting_calls(tx: Tx, key: str) -> tuple[str, ...]:
    found = select(confirmations.c.id).where(
        confirmations.c.session == key, confirmations.c.state == str(State.WAITING)
    )
    return tuple(tx.execute(found.order_by(confirmations.c.created)).scalars())


def store_message(tx: Tx, heard: SlackMessage) -> bool:
    """Puts a message into the session's mailbox. The first message of a thread creates the session. Returns False if
    the message was stored before."""
    key = _session_at(tx, heard)
    if key is None:
        key = chain_of(heard.session)
        _create_session(tx, key, heard)
    session = lock_session(tx, key)
    body: JsonObject = {"text": heard.text, "files": list(heard.files), "ts": heard.ts, "trace": heard.trace}
    return put_words(tx, session, mark=heard.ts, body=canonical(body), person=heard.person)


def _create_session(tx: Tx, key: str, heard: SlackMessage) -> None:
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
    # Slack sends two events for one mention, perhaps to two replicas at once.
    _BEGIN(
        tx,
        key_=key,
        app_=heard.app,
        user_id_=heard.session.user,
        id_=heard.id,
        team_=heard.team,
        channel_=heard.channel,
        thread_ts_=heard.thread_ts,
        starter_=heard.person.user,
        speakers_=people_text(people),
        present_=people_text(people),
        told_seq_=0,
        created_=tx.now(),
        sealed_=session_seal(tx, session),
    )


def _session_at(tx: Tx, heard: SlackMessage) -> str | None:
    found = _SESSION_AT.first(tx, app_=heard.app, id_=heard.id)
    return None if found is None else str(found.key)


_STARTED = ("key", "app", "user_id", "id", "team", "channel", "thread_ts", "starter")
_BEGIN = prepared_insert_if_absent(sessions, *_STARTED, "speakers", "present", "told_seq", "created", "sealed")
_WAITING = Prepared(
    select(mail.c.mark, exists().where(switches.c.name == PAUSED).label("paused"))
    .where(mail.c.session == bindparam("key_"), mail.c.done_at.is_(None))
    .order_by(mail.c.id)
)
_SESSION_AT = Prepared(
    select(sessions.c.key).where(sessions.c.app == bindparam("app_"), sessions.c.id == bindparam("id_"))
)
