"""The findings of `adk-confirm check`, and how the policies cover the agent's tools. Pure.

If a pattern is misspelt, calls fall to a laxer policy further down. A pattern that matches no tool is therefore an
error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial

from adk_confirm.bot.ops.agent_tools import Tools
from adk_confirm.bot.ops.command import in_columns
from adk_confirm.bot.policy.model import Policies, Policy
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.runtime.jsontypes import JsonObject, texts


class Severity(StrEnum):
    OK = "ok"
    NOTE = "note"  # for information
    WARN = "warn"  # the service starts, but this is probably a mistake
    FIX = "FIX"


@dataclass(frozen=True)
class Finding:
    """`said` ends with what to do, if anything."""

    mark: Severity
    what: str
    said: str


fine = partial(Finding, Severity.OK)
note = partial(Finding, Severity.NOTE)
warn = partial(Finding, Severity.WARN)
fix = partial(Finding, Severity.FIX)


# How the policies cover the tools


def covering_policies(policies: Policies, tool: str) -> list[tuple[int, Policy]]:
    """The policies that may govern a call of the tool: in order, up to the first that governs all of them."""
    found = []
    for index, policy in enumerate(policies.entries):
        if any(fnmatchcase(tool, pattern) for pattern in policy.tools):
            found.append((index, policy))
            if policy.when is None:
                break
    return found


def coverage(policies: Policies, tools: Tools) -> Iterator[JsonObject]:
    """The policies of each tool that may ask people, a line of the table each."""
    for tool in sorted(name for name, tool in tools.items() if tool.may_ask):
        found = covering_policies(policies, tool)
        for index, one in found:
            approvers = [str(entry) for entry in one.approvers]
            yield {"tool": tool, "policy": index, "when": one.when, "approvers": [*approvers], "quorum": one.quorum}
        if not found:
            yield {"tool": tool, "policy": None}


def coverage_findings(policies: Policies, tools: Tools) -> Iterator[Finding]:
    """Patterns without a tool, and tools without a policy."""
    for index, policy in enumerate(policies.entries):
        for pattern in policy.tools:
            if pattern != "*" and not any(fnmatchcase(tool, pattern) for tool in tools):
                yield fix(
                    f"policy[{index}].tools", f'"{pattern}" matches no tool of the agent{_suggestion(pattern, tools)}'
                )
    for tool in sorted(name for name, tool in tools.items() if tool.may_ask):
        found = covering_policies(policies, tool)
        if not found:
            said = f'no policy covers it, so each of its calls is refused. Write one with tools = ["{tool}"]'
            yield fix(tool, said)
        elif all(policy.when is not None for _, policy in found):
            said = "is refused where no `when` is true: no policy without a `when` covers it"
            yield warn(tool, said)


def _suggestion(pattern: str, tools: Tools) -> str:
    near = get_close_matches(pattern.strip("*"), tools, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; it has {', '.join(sorted(tools))}" if tools else ", which has no tools"


def table(rows: list[JsonObject], names: KnownNames) -> Iterator[str]:
    """The table as text: tool, policy, when, approvers, quorum."""
    cells = [("tool", "policy", "approvals", "who may approve")]
    for before, row in zip([None, *rows], rows, strict=False):
        tool = str(row["tool"]) if before is None or before["tool"] != row["tool"] else ""
        who = ", ".join(map(names.of, texts(row.get("approvers")))) or "nobody: its calls are refused"
        if row["policy"] is None:
            cells.append((tool, "none", "", who))
            continue
        when = f"; if {row['when']}" if row["when"] is not None else ""
        cells.append((tool, f"policy[{row['policy']}]", str(row["quorum"]), who + when))
    yield from in_columns(cells)
