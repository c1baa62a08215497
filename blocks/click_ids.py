"""The ids that Slack returns with a click: action ids, block ids, and the values of buttons.

A click contains only a confirmation's id and revision. Ids are read strictly: anything that these functions did not
write reads as None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import JsonValue


class Action(StrEnum):
    """Buttons and menus. `*_OPEN` opens a view first, whose submit does what the button says."""

    APPROVE = "adk_confirm_approve"
    APPROVE_OPEN = "adk_confirm_approve_open"
    REVIEW = "adk_confirm_review"
    GRANT_OPEN = "adk_confirm_grant_open"
    DENY = "adk_confirm_deny"
    EDIT = "adk_confirm_edit"
    WITHDRAW = "adk_confirm_withdraw"
    WITHDRAW_OPEN = "adk_confirm_withdraw_open"
    MORE = "adk_confirm_more"
    """The menu behind "⋯": each of its options stands for an action."""
    SEE = "adk_confirm_see"
    HISTORY = "adk_confirm_card_history"
    HAPPENED = "adk_confirm_happened"
    NOT_HAPPENED = "adk_confirm_not_happened"
    RUN_AGAIN = "adk_confirm_run_again"
    RUN_AGAIN_OPEN = "adk_confirm_run_again_open"
    REVOKE = "adk_confirm_revoke"
    RETRY = "adk_confirm_retry"
    ASK_AGAIN = "adk_confirm_ask_again"
    FIELD = "adk_confirm_field"
    """The one element of every input block."""


class Callback(StrEnum):
    """Views with a submit button."""

    APPROVE = "adk_confirm_approve_view"
    DENY = "adk_confirm_deny_view"
    EDIT = "adk_confirm_edit_view"
    RUN_AGAIN = "adk_confirm_run_again_view"
    WITHDRAW = "adk_confirm_withdraw_view"
    SHOW = "adk_confirm_show_view"
    """Views that only show something."""
    HOME = "adk_confirm_home"


_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_REF = re.compile(r"([A-Za-z0-9_-]{1,64})\.([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class Ref:
    """One revision of one confirmation."""

    id: str
    revision: int

    def encode(self) -> str:
        """The value of a button, or the private metadata of a form."""
        text = f"{self.id}.{self.revision}"
        if not _REF.fullmatch(text):
            raise ValueError(f"{text!r} is not a reference: an id is 1–64 of A–Z a–z 0–9 _ -, a revision starts at 1")
        return text


def parse_ref(value: object) -> Ref | None:
    found = _REF.fullmatch(value) if isinstance(value, str) else None
    return Ref(found[1], int(found[2])) if found else None


_MORE = {"n": Action.APPROVE_OPEN, "s": Action.SEE, "w": Action.WITHDRAW_OPEN, "h": Action.HISTORY}


def more_value(action: Action, ref: Ref) -> str:
    """The value of a menu's option: the action, and what it acts on."""
    return next(mark for mark, meant in _MORE.items() if meant is action) + ref.encode()


def parse_more(value: object) -> tuple[Action, Ref] | None:
    """Reads what `more_value` wrote."""
    action, ref = (_MORE.get(value[:1]), parse_ref(value[1:])) if isinstance(value, str) else (None, None)
    return None if action is None or ref is None else (action, ref)


def parse_id(value: object) -> str | None:
    """The value of `REVOKE`, `RETRY` and `ASK_AGAIN`: a single id."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def checked_id(value: str) -> str:
    if parse_id(value) is None:
        raise ValueError(f"{value!r} is not an id: 1–64 of A–Z a–z 0–9 _ -")
    return value


def block_id(part: str, ref: Ref, version: int) -> str:
    """A block id for this version, since Slack wants new block ids when a message is updated."""
    return f"{part}.{ref.encode()}.{version}"


@dataclass(frozen=True)
class Mark:
    """What marks a message of ours, so that a post is found whose answer was lost."""

    kind: ClassVar[str]
    stays: ClassVar[tuple[str, ...]] = ("confirmation",)  # what is the same when the message is drawn again

    def metadata(self) -> dict[str, JsonValue]:
        return {"event_type": self.kind, "event_payload": asdict(self)}


@dataclass(frozen=True)
class CardMark(Mark):
    """Marks a card's message."""

    kind = "adk_confirmation_card"
    confirmation: str
    revision: int
    version: int


@dataclass(frozen=True)
class LineMark(Mark):
    """Marks a message with thread lines: it shows the ledger's lines from `first_seq` up to `told_seq`."""

    kind, stays = "adk_confirmation_line", ("session", "told_seq")
    session: str
    first_seq: int
    told_seq: int

    def is_within(self, other: LineMark) -> bool:
        """Whether the other message tells all of this one's lines, and more: it was posted anew, with what came."""
        return other.first_seq <= self.first_seq and self.told_seq < other.told_seq


@dataclass(frozen=True)
class SaidMark(Mark):
    """Marks a part of an agent's message; `event` is the agent's own id for it."""

    kind, stays = "adk_confirmation_said", ("session", "event", "part")
    session: str
    event: str
    part: int


@dataclass(frozen=True)
class PointerMark(Mark):
    """Marks the line in a session's thread, or the direct message, that leads to a card elsewhere."""

    kind = "adk_confirmation_pointer"
    confirmation: str


_MARKS = {one.kind: one for one in (CardMark, LineMark, SaidMark, PointerMark)}


def parse_mark(metadata: object) -> Mark | None:
    """Reads a message's `metadata`, as `conversations.replies` returns it."""
    if not isinstance(metadata, Mapping) or not isinstance(payload := metadata.get("event_payload"), Mapping):
        return None
    mark = _MARKS.get(str(metadata.get("event_type")))
    found: dict[str, Any] = {one.name: payload.get(one.name) for one in fields(mark)} if mark else {}
    if mark is None or any(type(found[one.name]).__name__ != one.type for one in fields(mark)):
        return None
    made = mark(**found)
    return None if isinstance(made, CardMark) and not _ID.fullmatch(made.confirmation) else made


def identity(metadata: object) -> tuple[str | int, ...] | None:
    """The identity of a message, which stays the same when it is drawn again. None for a message that is not ours.

    >>> identity(CardMark("k1", 1, 3).metadata()) == identity(CardMark("k1", 2, 9).metadata())
    True
    """
    mark = parse_mark(metadata)
    return None if mark is None else (mark.kind, *(getattr(mark, name) for name in mark.stays))
