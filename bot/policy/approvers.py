"""Who may decide: a person, what Slack says about their account, and how a policy names approvers. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from adk_confirm.blocks.shown import Approver as Approver
from adk_confirm.blocks.shown import ApproverKind as ApproverKind
from adk_confirm.blocks.shown import Unresolved as Unresolved


@dataclass(frozen=True, order=True)
class Person:
    """A person, always as (team, user) and never as a name: names can be changed and imitated."""

    team: str
    user: str

    def is_also(self, other: Person) -> bool:
        """Whether both are one account. A user id means one account in all of Slack, but the team can differ: in an
        organisation, or in a channel shared between companies, it depends on where somebody clicked or wrote. Rules
        that forbid something use this. Rights are given only to the exact pair."""
        return self.user == other.user


OPERATOR = Person("", "operator")
NOBODY = Person("", "")
"""Whoever uses the command line of this installation, without a name. No Slack account has an empty team."""

LONGEST_NAME = 60


def operator(name: str) -> Person:
    """Whoever uses the command line, by the name they gave. Raises `ValueError` for a name that nobody could read.

    >>> operator("lee"), is_operator(operator("lee")), is_operator(Person("T1", "operator lee"))
    (Person(team='', user='operator lee'), True, False)
    """
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"must be a name of 1 to {LONGEST_NAME} printable characters")
    return Person("", f"{OPERATOR.user} {name}")


def is_operator(person: Person) -> bool:
    return person.team == "" and person.user.partition(" ")[0] == OPERATOR.user


LONGEST_CALLER = 24
_CALLER = "caller "


def caller(name: str) -> Person:
    """A program at the door, which asked where otherwise a person asks."""
    return Person("", f"{_CALLER}{name}")


def is_caller(person: Person) -> bool:
    return person.team == "" and person.user.startswith(_CALLER)


SLACK = Person("", "slack")
"""Stands for the person where no person ended something: the app was removed, or a grant no longer applies."""


@dataclass(frozen=True)
class Account:
    """What Slack says about the account now. `teams` has every workspace and organisation of which it is a full
    member."""

    person: Person
    teams: frozenset[str] = field(default_factory=frozenset)
    bot: bool = False
    deleted: bool = False
    guest: bool = False
    stranger: bool = False


_SHAPES = {
    ApproverKind.GROUP: (re.compile(r"S[A-Z0-9_]+"), "the group's id, such as group:S0ONCALL, not its handle"),
    ApproverKind.USER: (re.compile(r"[UW][A-Z0-9_]+"), "the member's id, such as user:U0LEAD, not a name"),
    ApproverKind.EMAIL: (re.compile(r"[^@\s]+@[^@\s]+"), "an address, such as email:lead@example.com"),
    ApproverKind.PYTHON: (
        re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*"),
        "a module and a function, such as python:my.rota:on_call",
    ),
}


def parse_approver(text: object) -> Approver:
    """
    >>> parse_approver("group:S0ONCALL").kind
    <ApproverKind.GROUP: 'group'>
    """
    if isinstance(text, Approver):
        return text
    if not isinstance(text, str):
        raise ValueError(f'must be a text such as "group:S0ONCALL" or "user:U0LEAD", not {text!r}')
    kind, colon, value = text.partition(":")
    if not colon or kind not in set(ApproverKind):
        raise ValueError(f'must begin with group:, user:, email: or python:, as in "user:U0LEAD"; "{text}" does not')
    shape, wanted = _SHAPES[ApproverKind(kind)]
    if not shape.fullmatch(value):
        raise ValueError(f'must be {wanted}; it is "{text}"')
    return Approver(ApproverKind(kind), value.lower() if kind == ApproverKind.EMAIL else value)


ApproverField = Annotated[Approver, PlainValidator(parse_approver), PlainSerializer(str, return_type=str)]


Members = frozenset[Person] | Unresolved
