"""The names that a ledger line stores: the kind of the line, and why a vote did not count.

`shown_lines.py` says how each kind is shown, and `words.py` what a voter reads about each reason.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class LineKind(StrEnum):
    ASKED = "asked"
    CALL_REFUSED = "call refused"  # no person was asked: no policy, no approvers, …
    REMINDED = "reminded"
    ESCALATED = "escalated"
    APPROVAL = "approval"  # one vote, counted
    EDITED = "edited"
    PREVIEWED = "previewed"  # what the edited call would do is known, and people can approve it
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
    BEGUN_CHANGED = "preview changed"  # it begins though it would not do quite what was approved
    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    UNSEALED = "unsealed"  # what this app did not store does not count: an alarm
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
    FREE_CALL = "free call"  # a program called a tool about which nobody is asked
    STOPPED = "stopped"  # somebody stopped the agent's run
    PAUSED = "paused"
    RESUMED = "resumed"
    RETRIED = "retried"  # an operator lets work go on that had failed too often
    PURGED = "purged"
    CHECKPOINT = "checkpoint"
    SEALED_ANEW = "sealed anew"  # with a new secret, from here on or altogether


class Reason(StrEnum):
    """Why a vote does not count: the name that is stored, and what others read, as the end of a sentence."""

    short: str

    def __new__(cls, stored: str, short: str = "") -> Self:
        made = str.__new__(cls, stored)
        made._value_, made.short = stored, short
        return made

    NOT_APPROVER = "not an approver", "the policy names others"
    NO_APPROVERS = "no approvers", "the policy names no one"
    REQUESTER = "spoke to the agent", "they spoke to the agent here"
    TURN_AUTHOR = "asked for it", "they asked for it"
    BARRED = "barred", "their account is barred"
    GUEST = "guest account", "it is a guest account"
    STRANGER = "external account", "it is another company's account"
    OTHER_WORKSPACE = "other workspace", "it is another workspace's account"
    BOT = "bot account", "it is a bot"
    DELETED = "deleted account", "the account is deactivated"
    CANNOT_ASK = "could not be asked", "we could not find out who may decide"
    NOT_ASKER = "not the asker", "only the person who asked can withdraw it"
    OLDER_REVISION = "older revision", "it was for an older version"
    TOO_LATE = "too late", "it came too late"
    ALREADY_VOTED = "already voted", "it already counted"
    REASON_WANTED = "a reason is wanted", "a reason was missing"
    PAYLOAD_WANTED = "a payload is wanted", "the answer was not filled in"
    NOTE_WANTED = "a note is wanted", "a note was missing"
    NO_PREVIEW = "no preview", "what it would do is not known"
    NOT_EDITABLE = "not editable", "it changed what the policy protects"
    WRONG_KIND = "another kind of value", "it changed the kind of a value"
    OTHER_POLICY = "another policy", "the edited call falls under another policy"
    REPEATS_HIDDEN = "repeats what is hidden", "it repeated what the policy hides"
    NOTHING_TO_SETTLE = "nothing to settle", "there was nothing to answer"
    NOTHING_TO_REVOKE = "nothing to revoke", "it was about a grant that had ended"
    USED_UP = "used up", "it was used as often as it could be"  # why a grant ended
    UNSEALED = "unsealed", "it has no seal of this app"
    SPEAKERS_UNKNOWN = "speakers unknown", "who spoke here was changed in the database"
