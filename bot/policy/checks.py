"""Checks policies for contradictions, and for rules that can't apply or never match. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase

from pydantic_core import ErrorDetails

from adk_confirm.bot.policy.approvers import ApproverKind
from adk_confirm.bot.policy.durations import spell_duration
from adk_confirm.bot.policy.policies import CALLS_ONLY, Policy, may_decide, policy_name
from adk_confirm.bot.policy.redaction import Redactor
from adk_confirm.bot.policy.when import check_expression, names_read
from adk_confirm.runtime.errors import ConfirmError, Invalid


@dataclass(frozen=True)
class Problem:
    """
    >>> print(Problem("policy 3 (line 12), quorum", "must be at least 1, not 0"))
    policy 3 (line 12), quorum: must be at least 1, not 0
    """

    key: str
    what: str

    def __str__(self) -> str:
        variable = self.key.isupper() and self.what.startswith("is ")
        return f"{self.key}{' ' if variable else ': '}{self.what}"


class SettingsError(ConfirmError):
    """All problems at once, one a line, so that a file can be fixed in one go."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


_EXAMPLES = {
    "agent": 'an [agent] table with target = "my_agents.oncall:agent", or with url and app',
    "tools": 'tools = ["deploy*"]',
    "inputs": 'inputs = ["*"]',
    "approvers": 'approvers = ["group:S0ONCALL"]',
}


def from_pydantic(error: ErrorDetails, known: Sequence[str], lines: Sequence[int] = ()) -> Problem:
    """An error of pydantic as a problem of the file. `known`: the keys of the table, to suggest the nearest. `lines`:
    where each policy begins."""
    return Problem(key_of(error["loc"], lines), _describe(error, known))


def key_of(loc: Sequence[int | str], lines: Sequence[int] = ()) -> str:
    """
    >>> key_of(("policy", 2, "approvers", 0))
    'policy 3, approvers[0]'
    """
    match loc:
        case ["policy", int(index), *rest]:
            return ", ".join(filter(None, (policy_name(index, lines), key_of(rest))))
    key = ""
    for part in loc:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def _describe(error: ErrorDetails, known: Sequence[str]) -> str:
    given, context = spell_value(error["input"]), error.get("ctx", {})
    name = str(error["loc"][-1])
    match error["type"]:
        case "extra_forbidden":
            near = get_close_matches(name, known, n=1, cutoff=0.6)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            return f"is not a setting; {meant}"
        case "missing":
            return f"is missing; write {_EXAMPLES.get(name, f'{name} = …')}"
        case "value_error":
            return str(context.get("error", error["msg"]))
        case "greater_than_equal":
            return f"must be at least {context['ge']}, not {given}"
        case "too_short":
            return f"must not be empty; write {_EXAMPLES.get(name, f'{name} = …')}"
        case "literal_error":
            wanted = str(context["expected"]).replace("'", '"')
            return f"must be {wanted}, not {given}"
        case "int_type":
            return f"must be a whole number, not {given}"
        case "bool_type":
            return f"must be true or false, not {given}"
        case "string_type":
            return f"must be a text in quotes, not {given}"
        case "tuple_type" | "list_type":
            return f'must be a list, such as ["…"], not {given}'
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"must be a table, not {given}"
        case _:
            return f"{error['msg'][:1].lower()}{error['msg'][1:]}, not {given}"


def spell_value(value: object) -> str:
    """A value in the spelling of the settings file."""
    try:
        spelled = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # TOML knows dates and infinities, JSON does not
        spelled = str(value)
    return spelled if len(spelled) <= 80 else spelled[:79] + "…"


def policy_problems(policies: Sequence[Policy], lines: Sequence[int] = ()) -> tuple[Problem, ...]:
    return tuple(
        Problem(f"{policy_name(index, lines)}, {key}", what)
        for index, policy in enumerate(policies)
        for key, what in _mistakes(policy)
    )


def policy_warnings(policies: Sequence[Policy], lines: Sequence[int] = ()) -> tuple[Problem, ...]:
    """Warnings: the service starts, but the policy probably means something else."""
    if not policies:
        return (Problem("policy", "there is none: every call that needs a confirmation is refused"),)
    found = []
    for index, policy in enumerate(policies):
        name = policy_name(index, lines)
        if not policy.approvers:
            found.append(Problem(name, "names no approvers: every call that it covers is refused"))
        if both := [str(entry) for entry in policy.escalate_to if entry in policy.approvers]:
            found.append(Problem(name, f"escalates to {', '.join(both)}, who may decide from the start"))
        what, names = ("questions", policy.inputs) if policy.inputs else ("tools", policy.tools)
        for earlier, other in enumerate(policies[:index]):
            wide = other.inputs if policy.inputs else other.tools
            if other.when is None and all(any(_pattern_covers(one, narrow) for one in wide) for narrow in names):
                said = f"is never reached: {policy_name(earlier, lines)} comes first and covers the same {what}"
                found.append(Problem(name, said))
                break
    return tuple(found)


_Finding = tuple[str, str]


def _mistakes(policy: Policy) -> Iterator[_Finding]:
    yield from _shapes(policy)
    yield from _times(policy)
    yield from _people(policy)
    yield from _names(policy)
    if policy.when is not None:
        try:
            check_expression(policy.when)
        except Invalid as error:
            yield "when", str(error)


def _shapes(policy: Policy) -> Iterator[_Finding]:
    if policy.channel is not None and not re.fullmatch(r"[CGD][A-Z0-9_]+", policy.channel):
        yield "channel", f'must be the channel\'s id, such as "C0DEPLOYS", not {spell_value(policy.channel)}'
    if not policy.tools and not policy.inputs:
        yield "tools", 'is missing; write tools = ["deploy*"], or inputs = ["*"] for questions'
    if policy.inputs:
        yield from _question_mistakes(policy)
    for index, pattern in enumerate(policy.tools):
        if not pattern.strip():
            yield f"tools[{index}]", 'must be a tool\'s name or a shell pattern, such as "deploy*"; "*" is every tool'
    for key in Policy.model_fields:
        value = getattr(policy, key)
        for name, times in Counter(map(str, value)).items() if isinstance(value, tuple) else ():
            if times > 1:
                yield key, f"names {name} twice; once is enough"


def _question_mistakes(policy: Policy) -> Iterator[_Finding]:
    """Finds keys that have no meaning where people answer a question instead of approving a call."""
    if policy.tools:
        yield "inputs", "can't be combined with tools; write a [[policy]] of its own for questions"
    if policy.quorum > 1:
        yield "quorum", "must be 1 with inputs: one person answers"
    for key, about in Policy.model_fields.items():
        if CALLS_ONLY in about.metadata and getattr(policy, key) != about.default:
            yield key, CALLS_ONLY
    for index, pattern in enumerate(policy.inputs):
        if not pattern.strip():
            yield f"inputs[{index}]", "must be a node's or tool's name or a shell pattern; \"*\" is every question"


def _times(policy: Policy) -> Iterator[_Finding]:
    expires = spell_duration(policy.expires_after)
    for key in ("remind_after", "escalate_after"):
        after: timedelta | None = getattr(policy, key)
        if after is not None and after >= policy.expires_after:
            yield key, f"must be shorter than expires_after ({expires}), not {spell_duration(after)}"
    if policy.escalate_after is not None and not policy.escalate_to:
        yield "escalate_to", 'is missing; escalate_after needs people to escalate to, such as ["group:S0LEADS"]'
    if policy.escalate_to and policy.escalate_after is None:
        yield "escalate_after", 'is missing; escalate_to needs a time, such as "20m"'


def _people(policy: Policy) -> Iterator[_Finding]:
    """Finds a quorum that these entries can never reach. A group or a function may stand for any number of people."""
    entries = set(may_decide(policy, escalated=True))
    if not policy.approvers or any(entry.kind in (ApproverKind.GROUP, ApproverKind.PYTHON) for entry in entries):
        return
    able = len(entries - set(policy.barred))
    if policy.quorum > able:
        people = "1 person" if able == 1 else f"{able} people"
        yield "quorum", f"must be at most {able}, not {policy.quorum}: only {people} may decide"


def _names(policy: Policy) -> Iterator[_Finding]:
    redactor = Redactor(policy.redact)
    if isinstance(policy.edit, tuple):
        for name in policy.edit:
            if redactor.hides(name):
                yield "edit", f"names {name}, which redact hides; what is hidden can't be edited"
    for name in sorted(names_read(policy.when or "")):
        if redactor.hides(name):
            yield "when", f"reads {name}, which redact hides; people could not see why the policy applies"
    for entry in policy.notify:
        if entry.kind is ApproverKind.PYTHON:
            yield "notify", f"must name people, groups or addresses, not {entry}"
    if policy.grant_on is not None and policy.grant is None:
        yield "grant", 'is missing; grant_on needs a length, such as grant = "30m" or "session"'


def _pattern_covers(wide: str, narrow: str) -> bool:
    """Whether `wide` matches every name that `narrow` matches. False if that is not obvious."""
    if wide in ("*", narrow):
        return True
    plain = "?" not in wide and "[" not in wide and "[" not in narrow
    return plain and fnmatchcase(narrow, wide)
