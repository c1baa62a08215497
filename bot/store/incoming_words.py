"""Puts a person's message into the session's mailbox, or says why it can't be read now. Transaction functions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from adk_confirm.bot.confirmation.model import SLACK, SessionKey
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.store.attempts import begin
from adk_confirm.bot.store.mailbox import PAUSED
from adk_confirm.bot.store.repository import Session, chain_of, lock_session, people_text, put_words, session_seal
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.store.database import Tx


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
        tx.run("UPDATE bot_sessions SET present = :present WHERE key = :key", key=key, present=people_text(present))
    waiting = _waiting_calls(tx, key)
    if len(present) == 1 and not (stops and waiting):
        return receive_mention(tx, heard, stops)
    if not waiting or begin(tx, key, f"reply:{heard.ts}") is not None:
        return MessageResult()  # people talk to each other, or Slack delivered the message twice
    if stops:
        return MessageResult(sign=MessageHint.STOP, session=key, waiting=waiting)
    first = begin(tx, key, "reply hint") is None
    return MessageResult(sign=MessageHint.HINT if first else None, session=key)


_WAITING = """
    SELECT mark, EXISTS (SELECT 1 FROM bot_switches WHERE name = :switch) AS paused FROM bot_mail
    WHERE session = :key AND done_at IS NULL ORDER BY id
"""


def why_it_waits(tx: Tx, key: str, mark: str) -> MessageHint | None:
    """Why the agent can't read a message now: runs are paused, or other messages come first. None if it can."""
    waiting = tx.all(_WAITING, key=key, switch=PAUSED)
    if all(one.mark != mark for one in waiting):
        return None
    if waiting[0].paused:
        return MessageHint.PAUSED
    return None if waiting[0].mark == mark else MessageHint.QUEUED


def _waiting_calls(tx: Tx, key: str) -> tuple[str, ...]:
    found = "SELECT id FROM bot_confirmations WHERE session = :key AND state = 'waiting' ORDER BY created"
    return tuple(tx.column(found, key=key))


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
    row = {
        "key": key,
        "app": heard.app,
        "user_id": heard.session.user,
        "id": heard.id,
        "team": heard.team,
        "channel": heard.channel,
        "thread_ts": heard.thread_ts,
        "starter": heard.person.user,
        "speakers": people_text(people),
        "present": people_text(people),
        "told_seq": 0,
        "created": tx.now(),
        "sealed": session_seal(tx, session),
    }
    tx.insert("bot_sessions", row, if_absent=True)


def _session_at(tx: Tx, heard: SlackMessage) -> str | None:
    key: str | None = tx.value("SELECT key FROM bot_sessions WHERE app = :app AND id = :id", app=heard.app, id=heard.id)
    return key
