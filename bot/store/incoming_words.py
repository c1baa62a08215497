"""Words in: what somebody says in Slack goes into a session's mailbox, or nowhere. Transaction functions."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import select, update

from bot.confirmation.model import SLACK, SessionKey, State
from bot.policy.approvers import Person
from bot.store.repository import chain_of, lock_session, put_mail
from bot.store.tables import confirmations, sessions
from runtime.jsontypes import JsonObject, canonical
from runtime.store.database import Tx
from runtime.store.upsert import insert_if_absent


@dataclass(frozen=True, kw_only=True)
class Heard:
    """Somebody's words to the agent, as Slack delivered them."""

    app: str
    team: str
    enterprise: str | None
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


def hear(tx: Tx, heard: Heard) -> bool:
    """Words for a session's agent go into its mailbox; the first in a thread begin the session. False: known."""
    key = _session_at(tx, heard)
    if key is None:
        key = chain_of(heard.session)
        first: dict[str, object] = {
            "key": key,
            "app": heard.app,
            "user_id": heard.session.user,
            "id": heard.id,
            "team": heard.team,
            "enterprise": heard.enterprise,
            "channel": heard.channel,
            "thread_ts": heard.thread_ts,
            "starter": heard.person.user,
            "speakers": _people({heard.person}),
            "present": _people({heard.person}),
            "told_seq": 0,
            "created": tx.now(),
        }
        # One mention arrives as two events, perhaps at two replicas at once.
        tx.execute(insert_if_absent(tx.dialect, sessions), first)
    session = lock_session(tx, key)
    body: JsonObject = {"text": heard.text, "files": list(heard.files), "ts": heard.ts, "trace": heard.trace}
    if not put_mail(tx, key, kind="words", mark=heard.ts, body=canonical(body), person=heard.person.user):
        return False
    speakers, present = session.speakers | {heard.person}, session.present | {heard.person}
    if (speakers, present) != (session.speakers, session.present):
        people = update(sessions).where(sessions.c.key == key)
        tx.execute(people.values(speakers=_people(speakers), present=_people(present)))
    return True


def overheard(tx: Tx, heard: Heard) -> bool:
    """A plain reply in a session's thread: for the agent only while nobody else wrote there and no card waits."""
    key = _session_at(tx, heard)
    if key is None:
        return False
    session = lock_session(tx, key)
    present = session.present | {heard.person}
    if present != session.present:
        tx.execute(update(sessions).where(sessions.c.key == key).values(present=_people(present)))
    waiting = select(confirmations.c.id).where(
        confirmations.c.session == key, confirmations.c.state == str(State.WAITING)
    )
    if len(present) > 1 or tx.execute(waiting).first() is not None:
        return False
    return hear(tx, heard)


def _session_at(tx: Tx, heard: Heard) -> str | None:
    found = select(sessions.c.key).where(sessions.c.app == heard.app, sessions.c.id == heard.id)
    key: str | None = tx.execute(found).scalar_one_or_none()
    return key


def _people(people: set[Person] | frozenset[Person]) -> str:
    return json.dumps(sorted([person.team, person.user] for person in people))
