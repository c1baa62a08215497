"""The names that a ledger line stores: its kind, and why a vote did not count.

`ledger_lines.py` says how each kind is shown, and `words.py` what each reason is called.
"""

from __future__ import annotations

from enum import StrEnum


class LineKind(StrEnum):
    ASKED = "asked"
    CALL_REFUSED = "call refused"  # no person was asked: no policy, no approvers, …
    REMINDED = "reminded"
    ESCALATED = "escalated"
    APPROVAL = "approval"  # one vote, counted
    EDITED = "edited"
    VOTE_REFUSED = "vote refused"
    VOTE_FELL = "vote fell"  # a counted vote does not count any more
    REAPPLIED = "reapplied"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    ASKED_ANEW = "asked anew"  # its workflow asked again with the same id, so the newer request counts
    ELSEWHERE = "answered elsewhere"
    LAPSED = "lapsed"  # approved, but the call could not start in time
    PREVIEW_CHANGED = "preview changed"  # it begins though it would not do quite what was approved
    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    UNSEALED = "unsealed"  # a part without a fitting fingerprint does not count: an alarm
    ALTERED = "altered"  # refused, because what was stored is not what was approved: an alarm
    UNKNOWN = "unknown"
    SETTLED = "settled"
    RUN_AGAIN_VOTE = "run again vote"
    RUN_AGAIN = "run again"
    NOBODY_KNOWS = "nobody knows"
    GRANTED = "granted"
    GRANT_USED = "grant used"
    GRANT_REVOKED = "grant revoked"
    HEARD = "heard"  # the agent received a person's message; once
    STOPPED = "stopped"  # somebody stopped the agent's run
    PAUSED = "paused"
    RESUMED = "resumed"
    RETRIED = "retried"  # an operator lets work go on that had failed too often
    PURGED = "purged"
    CHECKPOINT = "checkpoint"


class Reason(StrEnum):
    """Why a vote does not count."""

    NOT_APPROVER = "not an approver"
    NO_APPROVERS = "no approvers"
    REQUESTER = "spoke to the agent"
    TURN_AUTHOR = "asked for it"
    BARRED = "barred"
    GUEST = "guest account"
    STRANGER = "external account"
    OTHER_WORKSPACE = "other workspace"
    BOT = "bot account"
    DELETED = "deleted account"
    CANNOT_ASK = "could not be asked"
    NOT_ASKER = "not the asker"
    OLDER_REVISION = "older revision"
    TOO_LATE = "too late"
    ALREADY_VOTED = "already voted"
    REASON_WANTED = "a reason is wanted"
    PAYLOAD_WANTED = "a payload is wanted"
    NOTE_WANTED = "a note is wanted"
    NO_PREVIEW = "no preview"
    NOT_EDITABLE = "not editable"
    WRONG_KIND = "another kind of value"
    OTHER_POLICY = "another policy"
    REPEATS_HIDDEN = "repeats what is hidden"
    NOTHING_TO_SETTLE = "nothing to settle"
    NOTHING_TO_REVOKE = "nothing to revoke"
    POLICY_CHANGED = "policy changed"  # a grant's
    USED_UP = "used up"  # a grant's
    UNSEALED = "unsealed"  # the stored vote did not come from a signed request
    SPEAKERS_UNKNOWN = "speakers unknown"  # somebody changed in the database who spoke to the agent
