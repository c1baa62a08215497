"""What callers ask, claim and report, as it is stored. Transaction functions.

An ask is a session of its own with one message, and what follows is what follows from any message. Its thread is the
one that the door began in the caller's channel. Claims, permits and reports are letters of that session: sealed, and
each there once for an attempt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal

from adk_confirm.bot.audit.checkpoints import CheckpointKey
from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.confirmation import DOOR, SLACK, Confirmation, Outcome, OutcomeKind, State, VoteKind
from adk_confirm.bot.confirmation.decision import delivery_of
from adk_confirm.bot.confirmation.outcome import kind_of, text_of
from adk_confirm.bot.confirmation.shown import approved_by
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.confirmation.stored_json import to_json
from adk_confirm.bot.door.permit import digest, sign_permit
from adk_confirm.bot.hosts.host import AgentMessage
from adk_confirm.bot.policy.approvers import caller as who_calls
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.cast_vote import SubmittedVote, cast
from adk_confirm.bot.store.ledger_rows import write_steps
from adk_confirm.bot.store.letters import SlackMessage, store_message
from adk_confirm.bot.store.marks import begin_attempt
from adk_confirm.bot.store.outbox import say_later
from adk_confirm.bot.store.repository import (
    Session,
    chain_of,
    find_session,
    lock_confirmation,
    lock_session,
    now,
    put_mail,
    session_confirmations,
)
from adk_confirm.bot.store.sealed_rows import letter_is_sealed
from adk_confirm.runtime.errors import Busy, ConfirmError, Conflict
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text, canonical
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.sessions import find, read_calls
from adk_confirm.runtime.wire import SessionId

ASK = "ask"
"""The mark of the letter with which such a session begins. No person's message has it."""
ASKS = f"{SLACK}ask-"
"""What the ids of such sessions begin with. Those of people's sessions have the workspace there."""

Status = Literal["pending", "approved", "denied", "expired", "cancelled", "failed"]


class TooMany(ConfirmError):
    """The caller has reached one of its limits. `after`: seconds until it may try again."""

    def __init__(self, sentence: str, after: float = 5.0) -> None:
        super().__init__(sentence)
        self.after = after


@dataclass(frozen=True, kw_only=True)
class AskMessage(SlackMessage):
    """What a caller asks, as the first message of a session of its own. Without a thread if nobody is asked."""

    caller: str
    ask: str

    @property
    def session(self) -> SessionId:
        return SessionId(DOOR, _user_of(self.team, self.caller), self.id)

    @property
    def id(self) -> str:
        return f"{ASKS}{self.ask}"


def _user_of(team: str, caller: str) -> str:
    return f"{SLACK}{team}-caller-{caller}"


@dataclass(frozen=True)
class Ask:
    """What a caller asked. `text` is what it sent."""

    id: str
    caller: str
    session: Session
    text: str
    tool: str
    arguments: JsonObject
    reason: str = ""
    preview: str = ""

    @property
    def key(self) -> str:
        return self.session.key


_LETTER = "SELECT * FROM bot_mail WHERE session = :key AND mark = :mark"
_REFUSALS = "SELECT * FROM bot_mail WHERE session = :key AND kind = 'refusal' ORDER BY id DESC"
_OPEN = """
    SELECT count(*) FROM bot_sessions s
    WHERE s.app = :app AND s.user_id = :user AND (
        EXISTS (SELECT 1 FROM bot_mail m WHERE m.session = s.key AND m.done_at IS NULL)
        OR EXISTS (SELECT 1 FROM bot_confirmations c WHERE c.session = s.key AND (
            c.state = 'waiting' OR c.outcome IN ('running', 'unknown') OR (c.state = 'approved' AND c.outcome IS NULL)
        ))
    )
"""


def read_ask(tx: Tx, key: str) -> Ask | None:
    """The ask with which a session begins. None if it is no such session, or somebody changed it."""
    session, letter = find_session(tx, key), tx.first(_LETTER, key=key, mark=ASK)
    if session is None or letter is None or session.session.app != DOOR or not letter_is_sealed(tx, letter):
        return None
    caller = session.session.user_id.removeprefix(_user_of(session.team, ""))
    text = as_text(json.loads(letter.body).get("text"))
    return Ask(session.session.id.removeprefix(ASKS), caller, session, text, **json.loads(text))


def find_ask(tx: Tx, team: str, caller: str, ask: str) -> Ask | None:
    """Finds an ask of this caller. None if there is no such ask, or if another caller made it."""
    key = "SELECT key FROM bot_sessions WHERE app = :app AND user_id = :user AND id = :id"
    found = tx.value(key, app=DOOR, user=_user_of(team, caller), id=f"{ASKS}{ask}")
    return None if found is None else read_ask(tx, found)


def make_room(tx: Tx, message: AskMessage, most: int) -> float | None:
    """Notes that a new ask is posted now, and returns when that was first tried, or None if this is the first try.
    Raises `TooMany` if `most` asks of the caller are not over, at whichever replica they came in."""
    user = message.session.user_id
    tx.lock("SELECT pg_advisory_xact_lock(hashtextextended(:user, 0))", user=user)  # another replica may count as well
    if tx.value(_OPEN, app=DOOR, user=user) >= most:
        raise TooMany(f"{message.caller} may have {most} asks open at once. Wait until one is over.")
    return begin_attempt(tx, chain_of(message.session), ASK)


def store_ask(tx: Tx, message: AskMessage, most: int) -> Ask:
    """Stores an ask, or returns the one that is there. An ask about which nobody is asked gets a line in the ledger."""
    key = chain_of(message.session)
    if (known := read_ask(tx, key)) is not None:
        return known
    make_room(tx, message, most)  # meanwhile another replica may have taken it
    store_message(tx, message)
    if (ask := read_ask(tx, key)) is None:
        raise Busy("The ask could not be stored. Ask again with the same key.")
    if not message.thread_ts:
        said = Step(kind=LineKind.FREE_CALL, at=now(tx), who=who_calls(message.caller))
        write_steps(tx, key, replace(said, text=own_words(digest(ask.arguments))), tool=ask.tool)
    return ask


@dataclass(frozen=True)
class AskState:
    """What became of an ask so far. `why`: a sentence, if it was refused. `row`: None until people are asked. `nobody`:
    nobody was asked, or may decide. `permit`: that of the row's attempt, once it has begun."""

    ask: Ask
    status: Status
    row: Confirmation | None = None
    why: str | None = None
    nobody: bool = False
    outcome: Outcome | None = None
    permit: JsonObject | None = None

    @property
    def decided(self) -> bool:
        return self.status != "pending"

    @property
    def over(self) -> bool:
        """Whether nothing more will become of it."""
        return self.decided and not (self.row is not None and (self.row.runs or self.row.unknown))

    @property
    def can_begin(self) -> bool:
        """Whether it is approved, and has not begun."""
        return self.status == "approved" and self.row is not None and self.outcome is None


_STATUS: dict[State, Status] = {
    State.WAITING: "pending",
    State.APPROVED: "approved",
    State.DENIED: "denied",
    State.EXPIRED: "expired",
    State.LAPSED: "expired",
    State.WITHDRAWN: "cancelled",
    State.ELSEWHERE: "failed",
}


def read_state(tx: Tx, ask: Ask) -> AskState:
    rows, letter = session_confirmations(tx, ask.key), tx.first(_REFUSALS, key=ask.key)
    if rows:
        return _state_of_row(tx, ask, rows[-1])
    if letter is not None and letter_is_sealed(tx, letter):
        return AskState(ask, "failed", why=as_text(json.loads(letter.body).get("reason")), nobody=True)
    stored = find(tx, ask.session.session)
    call = next(iter(read_calls(tx, stored.key)), None) if stored is not None else None
    match kind_of(call) if call is not None else None:
        case OutcomeKind.DONE | OutcomeKind.FAILED as kind:
            assert call is not None
            outcome = Outcome(kind=kind, attempt=1, at=now(tx), text=text_of(call.result))
            return AskState(ask, "approved", outcome=outcome)
        case OutcomeKind.REFUSED:
            return AskState(ask, "failed", why=text_of(call.result) if call else None, nobody=True)
        case None if call is None and tx.first(_LETTER, key=ask.key, mark=ASK).done_at is not None:
            return AskState(ask, "failed", why="It was refused before anybody was asked. The bot's log says why.")
    return AskState(ask, "pending")


def _state_of_row(tx: Tx, ask: Ask, row: Confirmation) -> AskState:
    outcome, decision = row.outcome, row.decision
    refused = outcome is not None and outcome.kind is OutcomeKind.REFUSED
    status: Status = "failed" if row.is_void or refused else _STATUS[row.state]
    if row.state is State.WITHDRAWN and decision is not None and decision.by is None:
        status = "pending"  # it is asked anew
    if status in ("pending", "approved"):
        return AskState(ask, status, row, outcome=outcome, permit=read_letter(tx, ask.key, f"permit:{row.attempt}"))
    return AskState(ask, status, row, outcome.text if outcome and refused else decision.reason if decision else None)


def topic(key: str) -> str:
    """The topic that is notified when something of an ask is stored."""
    return f"door:{key}"


# Claims, permits and reports


def read_letter(tx: Tx, key: str, mark: str) -> JsonObject | None:
    """The content of a letter. None if there is none. Raises `Conflict` if somebody changed it."""
    letter = tx.first(_LETTER, key=key, mark=mark)
    if letter is not None and not letter_is_sealed(tx, letter):
        raise Conflict(f"Somebody changed the {mark.partition(':')[0]} in the database. Do not run it.")
    return None if letter is None else as_object(json.loads(letter.body))


def _keep(tx: Tx, key: str, mark: str, body: JsonObject) -> None:
    """Stores a letter that nobody has to hear."""
    put_mail(tx, key, kind=mark.partition(":")[0], mark=mark, body=canonical(body))
    tx.run("UPDATE bot_mail SET done_at = :now WHERE session = :key AND mark = :mark", now=tx.now(), key=key, mark=mark)
    tx.notify(topic(key))


def claimed(mark: str) -> bool:
    """Whether a letter is a claim."""
    return mark.startswith("claim:")


def claim(tx: Tx, ask: Ask, claimant: str) -> int:
    """Lets this claimant begin the approved call, and returns the attempt. The approval is delivered to the session's
    agent only now. The same claim again changes nothing; another one is refused."""
    lock_session(tx, ask.key)
    state = read_state(tx, ask)
    if state.row is None or state.status != "approved":
        raise Conflict(f"It is {state.status}, and only an approved call can be claimed.")
    _, row = lock_confirmation(tx, state.row.id)
    mark = f"claim:{row.attempt}"
    if (known := read_letter(tx, ask.key, mark)) is not None:
        if known["claim"] != claimant:
            raise Conflict("Another claimant has it. Do not run it.")
        return row.attempt
    if row.outcome is not None or row.start_by is None or tx.now() >= row.start_by.timestamp():
        over = "nobody knows whether it ran, so people are asked" if row.unknown else "it is over, or its time is up"
        raise Conflict(f"It can't be claimed: {over}.")
    delivery = delivery_of(row, "approved" if row.is_first else "run again")
    body = {**json.loads(to_json(delivery)), "claim": claimant}
    kind = "answer" if delivery.answers else "settlement"
    put_mail(tx, ask.key, kind=kind, mark=mark, body=canonical(body), confirmation=row.id)
    return row.attempt


def make_permit(tx: Tx, key: str, arguments: JsonObject, within: float, signer: CheckpointKey) -> tuple[int, float]:
    """Stores the permit of the attempt that has begun. Returns its number and the deadline of the report."""
    lock_session(tx, key)
    ask = read_ask(tx, key)
    row = next((one for one in session_confirmations(tx, key) if one.runs and one.outcome is not None), None)
    if ask is None or row is None:
        raise Conflict("The call is not one that has begun. Nothing ran.")
    mark, begins = f"permit:{row.attempt}", int(tx.now())
    known = read_letter(tx, key, mark)
    if known is None:
        claims: JsonObject = {
            "iss": "adk-confirm",
            "jti": f"{ask.id}/{row.attempt}",
            "sub": ask.caller,
            "tool": row.asked.tool,
            "arguments_sha256": digest(arguments),
            "revision": row.revision.number,
            "preview_sha256": digest(row.whole_preview) if row.whole_preview else None,
            "approvers": [*approved_by(row)],
            "iat": begins,
            "nbf": begins,
            "exp": begins + int(within),
        }
        known = {"permit": sign_permit(claims, signer), "arguments": arguments, "until": begins + int(within)}
        _keep(tx, key, mark, {**known, "attempt": row.attempt})
    until = known["until"]
    assert isinstance(until, int)
    return row.attempt, float(until)


LATE = "late"
"""Stands where the report would be, once the time for a report is up."""


def report(tx: Tx, ask: Ask, claimant: str, done: bool, result: JsonObject) -> bool:
    """Stores what the claimant says became of its attempt. Returns False if its time is up: the thread shows it."""
    key = ask.key
    lock_session(tx, key)
    attempts = range(max((one.attempt for one in session_confirmations(tx, key)), default=0), 0, -1)
    own = (n for n in attempts if (read_letter(tx, key, f"claim:{n}") or {}).get("claim") == claimant)
    attempt = next(own, None)
    if attempt is None or read_letter(tx, key, f"permit:{attempt}") is None:
        raise Conflict("It has no permit: claim it first, with the same claim.")
    said: JsonObject = {"done": done, "result": result}
    known = read_letter(tx, key, f"report:{attempt}")
    if known is None:
        _keep(tx, key, f"report:{attempt}", said)
    elif LATE in known:
        words = f"{ask.caller} reports after its time that attempt {attempt} {'is done' if done else 'failed'}."
        say_later(tx, key, AgentMessage(event=f"late:{attempt}", author="", text=words, failed=True))
        return False
    elif known != said:
        raise Conflict("It has another report already, and the first one stands.")
    return True


def take_report(tx: Tx, key: str, attempt: int, until: float) -> tuple[JsonObject | None, float]:
    """The report of an attempt, or how many seconds are left for it. None and 0.0: its time is up, and no report counts
    any more."""
    lock_session(tx, key)
    said, left = read_letter(tx, key, f"report:{attempt}"), max(0.0, until - tx.now())
    if said is None and not left:
        _keep(tx, key, f"report:{attempt}", {LATE: True})
    return (None if said is None or LATE in said else said), left


def cancel(tx: Tx, ask: Ask, policies: Policies) -> None:
    """Withdraws what waits, as whoever asked may."""
    lock_session(tx, ask.key)
    state = read_state(tx, ask)
    if state.status == "cancelled":
        return
    if state.row is None and not state.decided:
        raise Busy("People are being asked just now. Try again in a moment.")
    if state.row is None or state.row.state is not State.WAITING:
        raise Conflict(f"It is {state.status} already. An approved call that nobody claims does not run.")
    withdraws = SubmittedVote(
        id=f"cancel-{ask.id}",
        confirmation=state.row.id,
        revision=state.row.revision.number,
        kind=VoteKind.WITHDRAW,
        voter=state.row.asked.asked_by,
        reason=f"{ask.caller} cancelled it",
        way="door",
    )
    cast(tx, withdraws, policies)
