"""Problems with the settings. Each names its key and says what to write instead. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic_core import ErrorDetails

from runtime.errors import ConfirmError


@dataclass(frozen=True)
class Problem:
    """
    >>> print(Problem("policy[2].quorum", "must be at least 1, not 0"))
    policy[2].quorum: must be at least 1, not 0
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


_INSTEAD = {
    "policy.team": "one process serves one workspace; leave it out, and run another process for another workspace",
    "audit.team": "the channel is in the workspace that this process serves; leave it out",
    "slack.reactions": "is not a setting: delete it; the card and the thread's session show whether a call waits",
    "slack.tasks": "is not a setting: delete it; replies show no tool calls",
}
"""For keys that are gone: what to do instead."""


def from_pydantic(error: ErrorDetails, known: Sequence[str]) -> Problem:
    """`known`: the keys of the table, to suggest the nearest."""
    named = ".".join(part for part in error["loc"] if isinstance(part, str))
    gone = _INSTEAD.get(named) if error["type"] == "extra_forbidden" else None
    return Problem(key_of(error["loc"]), gone or _describe(error, known))


def key_of(loc: Sequence[int | str]) -> str:
    """
    >>> key_of(("policy", 2, "approvers", 0))
    'policy[2].approvers[0]'
    """
    key = ""
    for part in loc:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def _describe(error: ErrorDetails, known: Sequence[str]) -> str:
    given, context = spell_value(error["input"]), error.get("ctx", {})
    name = str(error["loc"][-1])
    match error["type"]:
        case "extra_forbidden":
            return unknown_key(name, known)
        case "missing":
            return f"is missing; write {_EXAMPLES.get(name, f'{name} = …')}"
        case "value_error":
            return str(context.get("error", error["msg"]))
        case "greater_than_equal":
            return f"must be at least {context['ge']}, not {given}"
        case "too_short":
            return f"must not be empty; write {_EXAMPLES.get(name, f'{name} = …')}"
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


def unknown_key(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"is not a setting; did you mean {near[0]}?" if near else f"is not a setting; there are {', '.join(known)}"


def spell_value(value: object) -> str:
    """A value in the spelling of the settings file."""
    try:
        spelled = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # TOML knows dates and infinities, JSON does not
        spelled = str(value)
    return spelled if len(spelled) <= 80 else spelled[:79] + "…"
