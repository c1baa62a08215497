"""Policies as data, and which one governs a call. Pure. `authorise.py` says who may decide under a policy.

A policy is read from the file, matched against a call, and copied into the confirmation's row. The row then keeps its
copy until somebody runs `reapply`. Reading a copy checks its shape only, not the rules for files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, StrictBool, StrictInt, StrictStr

from adk_confirm.blocks import words
from adk_confirm.blocks.shown import Formats
from adk_confirm.bot.policy.approvers import Approver, ApproverField, ApproverKind
from adk_confirm.bot.policy.durations import Duration, GrantKey
from adk_confirm.bot.policy.redaction import MaskedText, Redactor, own_words
from adk_confirm.bot.policy.when import NAMES, ExpressionFailed, holds
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical
from adk_confirm.runtime.titles import title_fields

_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_CURRENCY = re.compile(r"[A-Z]{3}")
FORMATS = ("bytes", "seconds", "milliseconds", "minutes", "hours", "time", "link", "plain")


def _title(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f'must be a text such as "Deploy {{service}} to {{env}}", not {value!r}')
    title_fields(value)
    return value


def _format(value: object) -> Formats:
    """
    >>> _format({"amount": "EUR", "lines.size": "bytes"})
    (('amount', 'EUR'), ('lines.size', 'bytes'))
    """
    if not isinstance(value, dict):
        raise ValueError(f'must be a table such as {{ amount = "EUR", size = "bytes" }}, not {value!r}')
    for name, kind in value.items():
        if not isinstance(name, str) or not _PATH.fullmatch(name):
            raise ValueError(f'names arguments, such as amount or "lines.amount", not {name!r}')
        if not isinstance(kind, str) or not (kind in FORMATS or _CURRENCY.fullmatch(kind)):
            known = ", ".join(FORMATS)
            raise ValueError(f'{name} must be a currency such as "EUR", or one of {known}, not {kind!r}')
    return tuple(value.items())


Title = Annotated[str, PlainValidator(_title)]
Format = Annotated[Formats, PlainValidator(_format), PlainSerializer(dict, return_type=dict[str, str])]


DENIALS_WINDOW = timedelta(minutes=10)


def _edit(value: object) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError(f'must be true, false, or names such as ["version"], not {value!r}')


def _spell_edit(value: bool | tuple[str, ...]) -> bool | list[str]:
    return value if isinstance(value, bool) else list(value)


def _requester(value: object) -> object:
    if isinstance(value, bool) or value == "speakers":
        return value
    raise ValueError(f'must be true, false, or "speakers", not {value!r}')


CALLS_ONLY = "has no meaning with inputs; leave it out"
"""Marks a key that has no meaning where people answer a question instead of approving a call."""


@dataclass(frozen=True)
class Says:
    """What `adk-confirm explain` says about a key that is set, with its value at `{}`."""

    sentence: str
    of: str | None = None  # said only if the key has this value
    question: str | None = None  # the sentence about a question


class Policy(BaseModel):
    """One `[[policy]]` of the file; the names are the file's own. A new key is added here, with its sentence; if it can
    contradict others, also in `checks.py`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: Annotated[tuple[StrictStr, ...], Field(min_length=1)] = ()
    inputs: Annotated[tuple[StrictStr, ...], Field(min_length=1)] = ()
    when: StrictStr | None = None
    approvers: tuple[ApproverField, ...] = ()
    quorum: Annotated[StrictInt, Field(ge=1)] = 1
    allow_requester: Annotated[bool | Literal["speakers"], PlainValidator(_requester)] = False
    channel: StrictStr | None = None
    remind_after: Annotated[Duration | None, Says("A reminder comes after {}.")] = None
    escalate_after: Duration | None = None
    escalate_to: tuple[ApproverField, ...] = ()
    expires_after: Annotated[
        Duration,
        Says("Without a decision it expires after {}.", question="Without an answer it expires after {}."),
    ] = timedelta(hours=24)
    start_within: Annotated[
        Duration,
        Says(
            "Once approved, it must start within {}, or it does not run.",
            question="An answer must reach the agent within {}, or it does not count.",
        ),
    ] = timedelta(hours=1)
    edit: Annotated[bool | tuple[str, ...], PlainValidator(_edit), PlainSerializer(_spell_edit), CALLS_ONLY] = True
    deny_reason: Annotated[
        Literal["optional", "required"], CALLS_ONLY, Says("A Deny needs a reason.", of="required")
    ] = "optional"
    preview: Annotated[
        Literal["optional", "required"],
        CALLS_ONLY,
        Says("It may be approved though its plan failed.", of="optional"),
    ] = "required"
    preview_drift: Annotated[
        Literal["allow", "ask"],
        CALLS_ONLY,
        Says("It starts though its preview has changed since the approval.", of="allow"),
    ] = "ask"
    reason: Annotated[StrictBool, CALLS_ONLY, Says("The agent says why it makes the call.")] = False
    approve_note: Annotated[
        Literal["none", "optional", "required"],
        CALLS_ONLY,
        Says("An approval may have a note.", of="optional"),
        Says("Each approval needs a note.", of="required"),
    ] = "none"
    confirm_dialog: Annotated[StrictBool, CALLS_ONLY, Says("Slack asks again before an Approve counts.")] = False
    redact: tuple[StrictStr, ...] = ()
    max_denials: Annotated[
        StrictInt | None,
        Field(ge=1),
        CALLS_ONLY,
        Says("After {} denials of this tool in a session within 10 minutes, nobody is asked."),
    ] = None
    barred: tuple[ApproverField, ...] = ()
    shared_channels: Annotated[
        StrictBool, Says("It may be posted in a channel that is shared with another company.")
    ] = False
    grant: Annotated[GrantKey | None, CALLS_ONLY] = None
    grant_on: Annotated[tuple[StrictStr, ...] | None, CALLS_ONLY] = None
    notify: tuple[ApproverField, ...] = ()
    dm: Annotated[StrictBool, Says("Each approver also gets a direct message that leads to the card.")] = False
    card: Literal["both", "thread", "channel"] = "both"
    long_running: Annotated[
        Literal["decide"] | None,
        CALLS_ONLY,
        Says("For a long-running tool they decide how the operation ends, once it has started."),
    ] = None
    title: Annotated[Title | None, CALLS_ONLY] = None
    format: Annotated[Format, CALLS_ONLY] = ()

    def governs(self, call: CallFacts) -> bool:
        """Whether the call falls under this policy. Raises `ExpressionFailed` if its `when` can't be evaluated."""
        if not self.covers(call):
            return False
        return self.when is None or holds(self.when, call.names())

    def covers(self, call: CallFacts) -> bool:
        """Whether the policy is for this tool, or for questions of this node or tool."""
        return any(fnmatchcase(call.tool, pattern) for pattern in (self.inputs if call.question else self.tools))

    def sentences(self) -> Iterator[str]:
        for key, about in type(self).model_fields.items():
            value = getattr(self, key)
            said = words.duration(value.total_seconds()) if isinstance(value, timedelta) else value
            for says in about.metadata if value else ():
                if isinstance(says, Says) and says.of in (None, value):
                    sentence = says.question if self.inputs and says.question else says.sentence
                    yield sentence.format(said)

    def freeze(self) -> JsonObject:
        """As it is stored. Nobody may change it: thousands of rows share it."""
        return self._frozen

    @cached_property
    def _frozen(self) -> JsonObject:
        empty = {key for key in ("tools", "inputs") if not getattr(self, key)}
        return self.model_dump(mode="json", exclude=empty)

    @classmethod
    def thaw(cls, frozen: Policy | Json) -> Policy:
        """Reads a stored policy."""
        return frozen if isinstance(frozen, Policy) else _parse_stored(canonical(frozen))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the rules, independent of their place in the file."""
        rules: JsonObject = self.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(canonical(rules).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=256)
def _parse_stored(part: str) -> Policy:
    """Parses a stored policy, cached: every click reads one, and thousands of rows share a few policies."""
    return Policy.model_validate(json.loads(part))


FrozenPolicy = Annotated[Policy, PlainValidator(Policy.thaw), PlainSerializer(Policy.freeze)]


@dataclass(frozen=True, kw_only=True)
class CallFacts:
    """What a policy can know about a call. `asker` is the user id of the turn's author, `session` the session's id."""

    tool: str
    args: JsonObject
    session: str = ""
    asker: str = ""
    channel: str = ""
    agent: str = ""
    app: str = ""
    team: str = ""
    question: bool = False  # an agent wants an answer, not an approval; `tool` is the node or tool that asks
    payload: Json = None  # what the approvers have to fill in
    words: str = ""  # what the question says

    def names(self) -> dict[str, Json]:
        """The names that a `when` can use. A `python:` approver gets the first four."""
        return {name: getattr(self, name) for name in NAMES}

    def for_python(self) -> JsonObject:
        """The call as a `python:` approver gets it."""
        return {name: getattr(self, name) for name in NAMES[:4]}


@dataclass(frozen=True)
class GoverningPolicy:
    """The first policy that matched, and its place in the file. The place is None for a question without a policy."""

    policy: Policy
    index: int | None


class CallRefusalReason(StrEnum):
    """Why nobody is asked. The call is refused at once, and the thread gives the reason."""

    NO_POLICY = "no policy"
    NO_APPROVERS = "no approvers"
    WHEN_FAILED = "when failed"
    TOO_MANY_DENIALS = "too many denials"
    SESSION_FULL = "session full"  # too many of its calls wait for people
    PERSON_FULL = "person full"  # too many calls that the same person asked for
    SHARED_CHANNEL = "shared channel"
    CHANNEL_UNKNOWN = "channel unknown"
    NOBODY_TO_WRITE_TO = "nobody to write to"
    MISFIT = "misfit"  # its tool would not get the arguments as people would see them
    NOT_TO_BE_SHOWN = "not to be shown"  # too deep, or more would have to be masked than hidden names
    NOBODY_ASKED = "nobody asked"  # no message of anybody here began the agent's turn
    SESSION_CHANGED = "session changed"  # somebody changed it in the database, so it is not known who spoke there


@dataclass(frozen=True)
class CallRefusal:
    """`index` and `detail` say which policy was the reason, and what in it."""

    why: CallRefusalReason
    index: int | None = None
    detail: MaskedText | None = None


def policy_name(index: int, lines: Sequence[int] = ()) -> str:
    """As people find it in the file, whose policies begin on these lines.

    >>> policy_name(1, (3, 12)), policy_name(1)
    ('policy 2 (line 12)', 'policy 2')
    """
    return f"policy {index + 1}" + (f" (line {lines[index]})" if index < len(lines) else "")


@dataclass(frozen=True)
class Policies:
    """The file's policies, in its order.

    >>> file = Policies.of(Policy(tools=("deploy*",), approvers=("user:U0LEAD",)))
    >>> file.resolve(CallFacts(tool="deploy_api", args={})).index
    0
    >>> file.resolve(CallFacts(tool="refund", args={})).why
    <CallRefusalReason.NO_POLICY: 'no policy'>
    """

    entries: tuple[Policy, ...] = ()
    lines: tuple[int, ...] = ()

    def name(self, index: int) -> str:
        return policy_name(index, self.lines)

    @property
    def fingerprints(self) -> list[str]:
        return [policy.fingerprint for policy in self.entries]

    @classmethod
    def of(cls, *entries: Policy) -> Policies:
        return cls(entries)

    def wants_reason(self, tool: str) -> bool:
        """Whether an agent is asked why it calls this tool."""
        return any(policy.reason and any(fnmatchcase(tool, one) for one in policy.tools) for policy in self.entries)

    def resolve(self, call: CallFacts) -> GoverningPolicy | CallRefusal:
        """The first policy that matches. If a policy can't be evaluated, the call is refused, and the next one is not
        tried."""
        for index, policy in enumerate(self.entries):
            try:
                matched = policy.governs(call)
            except ExpressionFailed as error:
                detail = self.redactor(call).mask_text(str(error))  # the error may quote an argument
                return CallRefusal(CallRefusalReason.WHEN_FAILED, index, detail)
            if matched and not policy.approvers:
                return CallRefusal(CallRefusalReason.NO_APPROVERS, index)
            if matched:
                return _blinding(policy, call, index) or GoverningPolicy(policy, index)
        if not call.question or not call.asker:
            return CallRefusal(CallRefusalReason.NO_POLICY)
        asker = Approver(
            ApproverKind.USER, call.asker
        )  # only who asked the agent may answer a question without a policy
        return GoverningPolicy(Policy(inputs=("*",), approvers=(asker,), allow_requester=True), None)

    def decides_operation(self, call: CallFacts) -> bool:
        """Whether people decide how this tool's long-running operation ends. The first policy for the tool says so,
        whatever its `when`, since it is not known yet who asked."""
        return next((policy.long_running == "decide" for policy in self._for_tool(call)), False)

    @cached_property
    def named(self) -> frozenset[Approver]:
        """All whom the policies name, to decide, to be barred or to be notified."""
        return frozenset(
            entry
            for policy in self.entries
            for entry in (*policy.approvers, *policy.escalate_to, *policy.barred, *policy.notify)
        )

    @property
    def functions(self) -> frozenset[str]:
        """The functions that `python:` entries name. No others are called."""
        return frozenset(entry.value for entry in self.named if entry.kind is ApproverKind.PYTHON)

    def same_policy(self, policy: Policy, edited: CallFacts) -> bool:
        """Whether the edited call falls under this very policy, but for whom it bars, since the file's own bars count
        anyway. Otherwise the editor could choose the rules."""
        found, bars = self.resolve(edited), {"barred": policy.barred}
        return isinstance(found, GoverningPolicy) and found.policy.model_copy(update=bars) == policy

    def barred(self, call: CallFacts) -> tuple[Approver, ...]:
        """The people who may not touch this tool's confirmations *now*, including waiting ones.

        Every policy for the tool counts, whatever its `when` says about this call, so that a bar can't be avoided.
        """
        return tuple(dict.fromkeys(approver for policy in self._for_tool(call) for approver in policy.barred))

    def redactor(self, call: CallFacts) -> Redactor:
        """Hides what any policy for this tool hides, for a call that has no policy yet."""
        return Redactor((name for policy in self._for_tool(call) for name in policy.redact), call.args, call.payload)

    def _for_tool(self, call: CallFacts) -> Iterator[Policy]:
        """The policies for the tool, whatever their `when` says about this call."""
        return (policy for policy in self.entries if policy.covers(call))


def _blinding(policy: Policy, call: CallFacts, index: int) -> CallRefusal | None:
    """Refuses a call in which more would have to be masked than the values of hidden names."""
    redactor = Redactor(policy.redact, call.args, call.payload)
    repeats = redactor.repeats(call.args, call.payload)
    if redactor.mask_text(call.words) != call.words:
        repeats = (*repeats, own_words("the question"))
    if not repeats:
        return None
    where = ", ".join(name[:_LONGEST_NAME] for name in repeats[:_NAMED])
    detail = own_words(f"A value that the policy hides is also in {where}, which approvers have to see in full.")
    return CallRefusal(CallRefusalReason.NOT_TO_BE_SHOWN, index, detail)


_NAMED, _LONGEST_NAME = 5, 60


def too_many_denials(policy: Policy, denied_at: Iterable[datetime], now: datetime) -> bool:
    """Applies `max_denials`. `denied_at`: when people denied this tool in this session, with any arguments."""
    if policy.max_denials is None:
        return False
    return sum(now - DENIALS_WINDOW < at <= now for at in denied_at) >= policy.max_denials


def may_show_in(policy: Policy, shared_with_others: bool | None) -> CallRefusalReason | None:
    """Whether a card may be in a channel. `shared_with_others` is None if Slack did not say."""
    if policy.shared_channels:
        return None
    if shared_with_others is None:
        return CallRefusalReason.CHANNEL_UNKNOWN
    return CallRefusalReason.SHARED_CHANNEL if shared_with_others else None


def may_decide(policy: Policy, escalated: bool) -> tuple[Approver, ...]:
    """The entries for those who may decide: after `escalate_after` also those of `escalate_to`."""
    return policy.approvers + (policy.escalate_to if escalated else ())
