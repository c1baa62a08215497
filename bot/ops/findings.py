"""The findings of `adk-confirm check`, the agent's tools, and how the policies cover them.

If a pattern is misspelt, calls fall to a laxer policy further down. A pattern that matches no tool is therefore an
error.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from textwrap import wrap

from adk_confirm.bot.config.settings import AgentSettings, Settings
from adk_confirm.bot.hosts.open_host import is_googles
from adk_confirm.bot.ops.command import in_columns
from adk_confirm.bot.policy.policies import Policies, Policy
from adk_confirm.bot.policy.redaction import Redactor
from adk_confirm.bot.policy.when import arguments_read
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.runtime.adk.type_checks import declared
from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.errors import ConfirmError, Invalid, message_of
from adk_confirm.runtime.jsontypes import JsonObject, texts
from adk_confirm.runtime.models.by_name import Models
from adk_confirm.runtime.rest.guard import SHORTEST
from adk_confirm.runtime.target import load_object
from adk_confirm.runtime.titles import title_fields
from adk_confirm.runtime.tool import Tool
from adk_confirm.runtime.wire import TRANSFER_TO_AGENT


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


# Callers at the door


def door_findings(settings: Settings, env: Mapping[str, str]) -> Iterator[Finding]:
    for one in settings.door.caller if settings.door else ():
        what, token = f"caller {one.name}", env.get(one.token_env, "").strip()
        if token and len(token) < SHORTEST:
            yield fix(what, f"{one.token_env} must have at least {SHORTEST} characters: openssl rand -hex 32")
        who = f"for {one.asker}" if one.asker else "for itself"
        yield fine(what, f"may ask {who} in {one.channel} for {', '.join(one.tools)}")
        for pattern in one.tools:
            others = (other for policy in settings.policies.entries for other in policy.tools)
            if not any(fnmatchcase(pattern, other) or fnmatchcase(other, pattern) for other in others):
                yield warn(what, f"no policy covers {pattern}, so all of these calls are refused: write one")


# The agent's tools, as far as they can be listed, and whether people may be asked about each


@dataclass(frozen=True)
class ListedTool:
    """A tool that the agent has. `may_ask`: it may ask for a confirmation. `always_asks`: it does so for every call.
    `ours`: the tool itself, if our own runtime calls it. `schema`: its arguments, if it declares them."""

    may_ask: bool
    always_asks: bool
    ours: Tool | None = None
    schema: JsonObject | None = None


Tools = Mapping[str, ListedTool]


async def tools_of(settings: AgentSettings | None) -> Tools | None:
    """The agent's tools. None if they can't be listed: there is no agent, or it is on a server, or is a workflow.

    Asks the servers of its tools which tools they offer. Raises `ConfirmError` if one can't be asked.
    """
    if settings is None or settings.target is None:
        return None
    target = load_object(settings.target)
    if isinstance(target, Agent):
        return await _tools_of_ours(target)
    if is_googles(target):
        return await _tools_of_google(target)
    return None


def model_findings(settings: AgentSettings) -> Iterator[Finding]:
    """The models of an agent of our own runtime that can't be asked: there is no such model, or no key for it."""
    target = None if settings.target is None else load_object(settings.target)
    agents = target.walk() if isinstance(target, Agent) else ()
    for model in sorted({one.model for one in agents if isinstance(one.model, str)}):
        try:
            Models().check(model)
        except ConfirmError as error:
            yield fix("model", f"{model}: {error}")


async def _tools_of_ours(agent: Agent) -> Tools:
    found: dict[str, ListedTool] = {}
    try:
        for one in agent.walk():
            for name, tool in (await one.resolve_tools()).items():
                if name not in found or not found[name].may_ask:
                    found[name] = ListedTool(
                        getattr(tool, "may_ask", True),
                        getattr(tool, "always_asks", False),
                        tool,
                        tool.declaration.schema,
                    )
    finally:
        await agent.close()
    found.pop(TRANSFER_TO_AGENT, None)
    return found


async def _tools_of_google(target: object) -> Tools | None:
    """An agent of google-adk, or the agent of an `App` or a `Runner`."""
    from adk_confirm.runtime.adk.binding import schema_of  # imports google-adk, which may not be installed

    agent = getattr(target, "root_agent", None) or getattr(target, "agent", None) or target
    found: dict[str, ListedTool] = {}
    rest = [agent]
    while rest:
        one = rest.pop()
        rest.extend(getattr(one, "sub_agents", ()))
        listing = getattr(one, "canonical_tools", None)
        if listing is None:
            if type(one).__module__.startswith("google.adk.agents.") and getattr(one, "sub_agents", None):
                continue  # it only runs others
            return None  # an agent without a model, such as a workflow, may call anything
        by_callback = bool(getattr(one, "before_tool_callback", None))
        for tool in await listing():
            if tool.name not in found or not found[tool.name].may_ask:
                try:
                    schema = schema_of(tool)
                except Exception as error:  # a tool that others wrote
                    raise ConfirmError(
                        f"{tool.name} can't say which arguments it takes: {message_of(error)}"
                    ) from error
                found[tool.name] = ListedTool(
                    by_callback or google_may_ask(tool),
                    getattr(tool, "_require_confirmation", False) is True,
                    schema=schema,
                )
    return found


def google_may_ask(tool: object) -> bool:
    """Whether people may be asked about a tool of google-adk: it has a gate, or its body can ask."""
    if getattr(tool, "_require_confirmation", False):
        return True
    function = getattr(tool, "func", None)
    made = function or type(tool)
    if made.__module__.startswith("google.adk."):  # google's own tools: few of them ask, and some take a gate
        source = inspect.getsource(sys.modules[made.__module__])
        return function is None and not hasattr(tool, "_require_confirmation") and "request_confirmation(" in source
    context = getattr(tool, "_context_param_name", "tool_context")
    return function is None or context in inspect.signature(function).parameters


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
    """Patterns without a tool, names without an argument, and tools without a policy."""
    for index, policy in enumerate(policies.entries):
        for pattern in policy.tools:
            if pattern != "*" and not any(fnmatchcase(tool, pattern) for tool in tools):
                near = get_close_matches(pattern.strip("*"), tools, n=1, cutoff=0.6)
                there = f"; it has {', '.join(sorted(tools))}" if tools else ", which has no tools"
                there = f"; did you mean {near[0]}?" if near else there
                yield fix(policies.name(index), f'its tools: "{pattern}" matches no tool of the agent{there}')
        covered = [tool for name, tool in tools.items() if any(fnmatchcase(name, pattern) for pattern in policy.tools)]
        for key, mark, said in _strange_names(policy, covered) if covered else ():
            yield Finding(mark, policies.name(index), f"its {key}: {said}")
    for tool in sorted(name for name, tool in tools.items() if tool.may_ask):
        found = covering_policies(policies, tool)
        if not found:
            said = f'no policy covers it, so each of its calls is refused. Write one with tools = ["{tool}"]'
            yield fix(tool, said)
        elif all(policy.when is not None for _, policy in found):
            said = "is refused where no `when` is true: no policy without a `when` covers it"
            yield warn(tool, said)


NAMING = ("redact", "edit", "grant_on", "title", "format", "when")
"""The keys in which policies name arguments."""

_WHOLE_ARGUMENTS = ("edit", "grant_on")
_ALSO_RESULTS = ("redact", "format")
"""The keys that may also name parts of results, of which no schema is known."""


def _strange_names(policy: Policy, covered: list[ListedTool]) -> Iterator[tuple[str, Severity, str]]:
    """The names in a policy that are no argument of any tool that the policy covers. Such a name is only a warning if
    one of these tools takes arguments that its schema does not declare."""
    known = dict[str, bool]()
    for tool in covered:
        paths = {"": True}
        with suppress(Invalid):  # it is too large to be searched
            paths = paths if tool.schema is None else declared(tool.schema)
        for path, opens in paths.items():
            known[path] = opens or known.get(path, False)
    top = [path for path in known if path and "." not in path]
    inside = list(dict.fromkeys(path.rpartition(".")[2] for path in known if path))
    hides = Redactor(policy.redact).hides
    seen = [name for name in inside if not hides(name)]
    named = {
        "redact": [(name, seen) for name in policy.redact if not any(map(Redactor([name]).hides, inside))],
        "edit": [(name, top) for name in (policy.edit if isinstance(policy.edit, tuple) else ()) if name not in top],
        "grant_on": [(name, top) for name in policy.grant_on or () if name not in top],
        "title": [(path, [*known]) for path in title_fields(policy.title or "-") if path not in known],
        "format": [(path, [*known]) for path, _ in policy.format if path not in known],
        "when": [(path, [*known]) for path in arguments_read(policy.when or "") if path not in known],
    }
    for key, strange in named.items():
        for name, meant in strange:
            steps = name.split(".")
            depth = 1 if key in _WHOLE_ARGUMENTS else len(steps)
            around = [*known] if key == "redact" else [".".join(steps[:at]) for at in range(depth)]
            said = f"no tool that it covers has an argument {name}"
            if any(known.get(path, False) for path in around):
                yield key, Severity.WARN, f"{said} that is declared; one takes any name"
            elif near := get_close_matches(name, meant, n=1, cutoff=0.75) or [one for one in steps if one in meant]:
                yield key, Severity.FIX, f"{said}; did you mean {near[-1]}?"
            elif key in _ALSO_RESULTS:
                mark = Severity.WARN if key == "redact" else Severity.NOTE
                yield key, mark, f"{said}, so this is only for results and answers"
            else:
                yield key, Severity.FIX, f"{said}; there are {', '.join(top) or 'none'}"


def table(rows: list[JsonObject], policies: Policies, names: KnownNames) -> Iterator[str]:
    """The table as text: tool, policy, quorum, and the approvers by name, with the `when` below them."""
    cells = [("tool", "policy", "approvals", "who may approve")]
    for before, row in zip([None, *rows], rows, strict=False):
        tool = str(row["tool"]) if before is None or before["tool"] != row["tool"] else ""
        policy = "none" if row["policy"] is None else policies.name(int(str(row["policy"])))
        who = ", ".join(map(names.short, texts(row.get("approvers")))) or "nobody: its calls are refused"
        when = f"if {row['when']}" if row.get("when") is not None else ""
        first, *more = [*_lines(who), *_lines(when)]
        cells += [(tool, policy, str(row.get("quorum", "")), first), *(("", "", "", below) for below in more)]
    yield from in_columns(cells)


_lines = partial(wrap, width=48, break_long_words=False, break_on_hyphens=False)
"""Lines of the last column, with which a row fits into 100 columns."""
