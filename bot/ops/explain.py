"""`adk-confirm explain`: which policy governs a call, why the policies before it do not, and what follows."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches

import click

from adk_confirm.blocks import words
from adk_confirm.blocks.exact_values import spell_on_one_line
from adk_confirm.blocks.text import visible
from adk_confirm.bot.config.settings import Settings
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import DOOR, AskedCall, Confirmation
from adk_confirm.bot.confirmation.decision import open_confirmation
from adk_confirm.bot.confirmation.edits import editable_names
from adk_confirm.bot.ops.command import CommandLine, Named, completed, json_object, options
from adk_confirm.bot.ops.findings import ListedTool, tools_of
from adk_confirm.bot.policy.approvers import Approver, ApproverKind, Person
from adk_confirm.bot.policy.approvers import caller as who_calls
from adk_confirm.bot.policy.policies import (
    CallFacts,
    CallRefusal,
    CallRefusalReason,
    GoverningPolicy,
    Policies,
    Policy,
    may_decide,
)
from adk_confirm.bot.policy.redaction import Redactor
from adk_confirm.bot.store.known_names import KnownNames, read_names
from adk_confirm.runtime.adk.type_checks import with_defaults
from adk_confirm.runtime.errors import ConfirmError, Invalid
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.signature import BadArguments
from adk_confirm.runtime.tool import Tool
from adk_confirm.runtime.wire import SessionId


async def _tools(call: CommandLine) -> Named:
    tools = await tools_of(call.settings.agent) or {}
    return [(name, "may ask people" if tool.may_ask else "") for name, tool in tools.items()]


@click.command()
@click.option("--tool", default="", metavar="NAME", help="The tool that is called.", shell_complete=completed(_tools))
@click.option("--input", "asking", default="", metavar="NAME", help="Or the node or tool that asks people a question.")
@click.option("--args", "given", metavar="JSON", callback=json_object, help="Its arguments, as a JSON object.")
@click.option("--asker", default="", metavar="ID", help="The Slack user who asks the agent for it.")
@click.option("--channel", default="", metavar="ID", help="The session's channel.")
@click.option("--session", default="", metavar="ID", help="The session, for policies that look at it.")
@click.option("--agent", default="", metavar="NAME", help="The agent, for policies that look at it.")
@click.option("--app", default="", metavar="NAME", help="The app, for policies that look at it.")
@click.option("--caller", default="", metavar="NAME", help="The program that asks at the door, instead of an agent.")
@options(json=True)
async def explain(
    call: CommandLine, tool: str, asking: str, given: JsonObject | None, caller: str, **about: str
) -> int:
    """Show which policy covers a call or a question, why none before it does, and who may decide.

    The exit code is 1 if the call would be refused without asking anybody, and 2 if its arguments do not fit the tool.
    """
    if bool(tool) == bool(asking):
        raise click.UsageError("Name either a tool (--tool) or what asks a question (--input).")
    args = given or {}
    settings = call.settings
    unsure: list[str] = []
    misfit = ""
    called = await _find_tool(settings, tool, unsure) if tool and not caller else None
    about |= _of_caller(settings, caller, tool) if caller else {}
    if called is not None and called.ours is not None:
        args, misfit = _as_the_tool_gets_them(called.ours, args)
        misfit = misfit if given is not None else ""
    facts = CallFacts(tool=tool or asking, args=args, question=bool(asking), **about)
    policies = settings.policies
    found = policies.resolve(facts)
    if isinstance(found, CallRefusal) and found.why is CallRefusalReason.WHEN_FAILED and given is None:
        when = None if found.index is None else policies.entries[found.index].when
        if found.index is not None and when is not None and (read := re.findall(r"\bargs\.(\w+)\b(?!\()", when)):
            example = json.dumps(dict.fromkeys(read, "…"), ensure_ascii=False)
            name = policies.name(found.index).capitalize()
            raise Invalid(f"{name} depends on the call's arguments: {when}. Add them, as in --args '{example}'.")
    names = KnownNames()
    with suppress(ConfirmError):  # there may be no store yet
        async with call.reading() as database:
            names = await database.read(read_names)
    governed = isinstance(found, GoverningPolicy)
    lines = [visible(line) for line in explanation(policies, found, facts, names, {*(given or ())})]
    if called is not None and not called.may_ask:
        lines.insert(0, f"{visible(tool)} has no gate: the agent runs it without asking. If it asked, this would hold:")
    elif called is not None and not called.always_asks:
        lines.insert(0, f"{visible(tool)} looks at each call itself before it asks. If it asks, this holds:")
    if misfit:
        lines.insert(
            0, visible(f"{misfit} The agent would have to call it again before anybody is asked. If it did so:")
        )
    call.tell({"governed": governed, "lines": [*lines]}, *lines)
    print(*map(visible, unsure), sep="\n", end="\n" * bool(unsure), file=sys.stderr)
    concerned = ("policy", *(policies.name(at) for at, policy in enumerate(policies.entries) if policy.covers(facts)))
    for warning in settings.warnings:
        if warning.key in concerned:  # warnings about the others say nothing about the call
            print(f"Warning: {warning}", file=sys.stderr)
    return 2 if misfit else 0 if governed else 1


def _of_caller(settings: Settings, name: str, tool: str) -> dict[str, str]:
    """What is known of a call of this caller."""
    found = settings.door.named(name) if settings.door else None
    if found is None:
        known = ", ".join(one.name for one in settings.door.caller) if settings.door else "none: there is no [door]"
        raise Invalid(f"There is no caller {name}. There are: {known}.")
    if not found.may_ask(tool):
        raise Invalid(
            visible(f"{name} may not ask for {tool}, so nobody is asked. It may for: {', '.join(found.tools)}.")
        )
    asker = found.asker.value if found.asker else who_calls(name).user
    return {"asker": asker, "channel": found.channel, "agent": name, "app": DOOR}


async def _find_tool(settings: Settings, name: str, unsure: list[str]) -> ListedTool | None:
    """The tool, if the agent's can be listed. Raises `Invalid` if the agent is known to have none of that name."""
    if settings.agent is None:
        return None
    why = "it is on a server." if settings.agent.target is None else "it is a workflow."
    try:
        tools = await tools_of(settings.agent)
    except ConfirmError as error:
        tools, why = None, str(error)
    if tools is None:
        unsure.append(f"The agent's tools can't be listed, so nobody looked for {name}: {why}")
        return None
    if name not in tools:
        near = get_close_matches(name, tools, n=1)
        meant = f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(tools)) or 'none'}."
        raise Invalid(visible(f"The agent has no tool {name}. {meant}"))
    return tools[name]


def _as_the_tool_gets_them(tool: Tool, args: JsonObject) -> tuple[JsonObject, str]:
    """The arguments with the tool's defaults and in its types, on which the policies decide, and why they do not
    fit."""
    whole = with_defaults(tool.declaration.schema, args)
    try:
        return tool.bind(whole).args, ""
    except BadArguments as error:
        return whole, str(error)


# What it says. Pure


def explanation(
    policies: Policies, found: GoverningPolicy | CallRefusal, call: CallFacts, names: KnownNames, given: Collection[str]
) -> Iterator[str]:
    """The answer first, and last why none of the policies before applies. `given`: the arguments that are no defaults
    of the tool."""
    if isinstance(found, CallRefusal):
        yield "The call would be refused at once, and nobody would be asked:"
        yield decision_texts.ungoverned_to_operator(found)
    else:
        policy = found.policy
        if found.index is None:
            yield f"No policy is about this question, so it is for {call.asker}, who asked the agent."
        else:
            when = "" if policy.when is None else f"; when {policy.when}"
            what = f"{'question' if call.question else 'call'} ({' '.join(_subject(policy))}{when})"
            yield f"{policies.name(found.index).capitalize()} applies to this {what}."
        yield from _who_decides(policies, policy, call, names)
        yield from policy.sentences()
        yield from _what_is_shown(policy, call, names, given)
    last = found.index if found.index is not None else len(policies.entries)
    for index, policy in enumerate(policies.entries[:last]):
        why = f"its `when` is false: {policy.when}" if policy.covers(call) else f"its {' are '.join(_subject(policy))}"
        yield f"{policies.name(index).capitalize()} does not apply: {why}"


def _subject(policy: Policy) -> tuple[str, str]:
    return ("inputs", ", ".join(policy.inputs)) if policy.inputs else ("tools", ", ".join(policy.tools))


def _who_decides(policies: Policies, policy: Policy, call: CallFacts, names: KnownNames) -> Iterator[str]:
    barred = policies.barred(call)
    entries = _name_entries(may_decide(policy, escalated=False), barred, names)
    if call.question:
        yield f"Who may answer: {entries}."
    else:
        people = "1 person has" if policy.quorum == 1 else f"{policy.quorum} people have"
        yield f"{people} to approve. One Deny is enough to stop it."
        yield f"Who may decide: {entries}."
    if policy.escalate_after is not None:
        added = _name_entries(policy.escalate_to, barred, names)
        yield f"After {words.duration(policy.escalate_after.total_seconds())} also: {added}."
    if barred:
        yield f"May not, even if named above: {', '.join(names.of(str(entry)) for entry in barred)}."
    if call.question:
        return
    asker = f", {names.of(call.asker)} included" if call.asker else ""
    match policy.allow_requester:
        case True:
            yield "Who asked may approve too, if named above."
        case False:
            yield f"Nobody who spoke to the agent in the session may approve{asker}; they may deny."
        case "speakers":
            yield f"Who asked for it may not approve{asker}; others who spoke to the agent may."


def _name_entries(entries: tuple[Approver, ...], barred: tuple[Approver, ...], names: KnownNames) -> str:
    """Says who may decide. Members of groups, addresses and functions are looked up only when a vote is counted."""
    left = [entry for entry in entries if entry not in barred]
    return "; ".join(f"{_HOW[entry.kind]}{names.of(entry.value)}" for entry in left) or "nobody: all are barred"


_HOW = {
    ApproverKind.USER: "",
    ApproverKind.GROUP: "members of the group ",
    ApproverKind.EMAIL: "the account with the address ",
    ApproverKind.PYTHON: "those whom this function names: ",
}


_HERE = {
    "both": "the thread of the session, and its channel shows it",
    "thread": "the thread of the session",
    "channel": "the channel of the session",
}


def _what_is_shown(policy: Policy, call: CallFacts, names: KnownNames, given: Collection[str]) -> Iterator[str]:
    row = hypothetical(policy, call)
    shown, hidden = row.redactor.mask_call(call.args)
    values = {name: f"{name} {spell_on_one_line(value)}" for name, value in shown.items()}
    yield f"Given with --args: {', '.join(values[name] for name in values if name in given) or 'nothing'}."
    if assumed := [values[name] for name in values if name not in given]:
        yield f"Assumed, from the tool's defaults: {', '.join(assumed)}."
    if hidden:
        yield f"Hidden everywhere: {hidden} value{'s' if hidden > 1 else ''}, by redact = [{', '.join(policy.redact)}]."
    others = () if isinstance(policy.edit, bool) else policy.edit
    fields = [*editable_names(row), *(f"{name} (not in this call)" for name in others if name not in call.args)]
    masked = Redactor(policy.redact)
    nothing = "every argument" if policy.edit is True and not shown else "nothing"
    if not call.question:
        yield f"May be edited: {', '.join(map(masked.mask_text, fields)) or nothing}."
    if policy.grant is not None and not row.asked.by_caller:
        terms = policy.grant
        length = "the session" if terms.length == "session" else words.duration(terms.length.total_seconds())
        length += f", {terms.uses} at most" if terms.uses else ""
        on = "arguments" if policy.grant_on is None else ", ".join(policy.grant_on)
        alike = f"the same tool with the same {on}" if on else "the same tool"
        yield f"Approvers may also allow the next calls like this one for {length}: {alike}."
    yield f"The card goes to {names.of(policy.channel) if policy.channel else _HERE[policy.card]}."
    if policy.notify:
        yield f"Notified in place of the approvers: [{', '.join(map(str, policy.notify))}]."


def hypothetical(policy: Policy, call: CallFacts) -> Confirmation:
    """The confirmation that the call would become, so that the same functions say what people may do with it."""
    asked = AskedCall(
        session=SessionId(*(part or "explained" for part in (call.app, call.asker, call.session))),
        request_id="explained",
        call_id="explained",
        tool=call.tool,
        arguments=call.args,
        agent=call.agent,
        asked_by=Person(call.team, call.asker),
        team=call.team,
        channel=call.channel,
    )
    return open_confirmation("explained", asked, policy, datetime.fromtimestamp(0, UTC)).row
