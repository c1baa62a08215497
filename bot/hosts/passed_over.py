"""Whether an ADK server went on without the call that it was given an answer to. Pure.

ADK keeps no record of a tool that begins. But an agent runs the calls that were answered before it asks its model, and
checks all of them before it runs the first. So a call without a result never began if the agent's model spoke in the
run that followed the answer, or if the server refused the answer by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from runtime.wire import Event, FunctionCall

WENT_ON = "The agent's server took the answer and went on without this call, so it did not run."
REFUSED = "The agent's server refused the answer before anything ran: {}"
MOST_QUOTED = 200

MOST_FAILURES = 10
DEEPEST = 50

_OF_CALL = re.compile(
    r"(?:Original function call for ID|Function call (?:name|arguments) mismatch for ID"
    r"|Tool confirmation rejected for function call) '(?P<name>[^']*)'.*"
)
_OF_TOOL = re.compile(r"Tool '(?P<name>[^']*)' (?:is not registered|does not require confirmation)\b.*")
"""What google-adk 1.39 and later and @google/adk say of one answer before they run any call of the same message."""

_OF_ONE = re.compile(r"Function (?P<name>\S+) is not found in the tools_dict\b.*")
"""What earlier versions of google-adk say. Other calls of the message may have run."""


@dataclass
class AnsweredRun:
    """What follows a message with answers, up to the next message. `answers`: the calls that it answers, and their
    tools; `spoke`: the agents whose model spoke in it, and their branches; `failures`: what it failed at."""

    invocation: str
    answers: list[tuple[str, str]] = field(default_factory=list)
    spoke: set[tuple[str, str]] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)

    def follow(self, event: Event) -> None:
        """An agent's event. Events of other invocations are of somebody else's run."""
        if not event.invocation_id or event.invocation_id != self.invocation:
            return
        if event.error_code or event.error_message:
            self.failures.append(event.error_message or event.error_code or "")
        elif event.text.strip() or any(True for _ in own_calls(event)):
            self.spoke.add((event.author, event.branch or ""))

    @cached_property
    def refused(self) -> str | None:
        """What was said of one of the answers, so that no call of the message began."""
        calls, tools = {call for call, _ in self.answers}, {tool for _, tool in self.answers}
        of_calls = (match for match in self._found(_OF_CALL) if match["name"] in calls)
        of_tools = (match for match in self._found(_OF_TOOL) if match["name"] in tools)
        return next((_quoted(match) for match in chain(of_calls, of_tools)), None)

    @cached_property
    def refused_tools(self) -> dict[str, str]:
        """What was said of single tools."""
        return {match["name"]: _quoted(match) for match in self._found(_OF_ONE)}

    def _found(self, sentence: re.Pattern[str]) -> Iterator[re.Match[str]]:
        return (match for failure in self.failures[:MOST_FAILURES] for match in sentence.finditer(failure))

    def went_on(self, author: str, branch: str) -> str | None:
        """Some versions resume an agent without its branch."""
        steps = branch.split(".")[:DEEPEST]
        around = ("", *(".".join(steps[:depth]) for depth in range(1, len(steps) + 1)))
        return WENT_ON if any((author, outer) in self.spoke for outer in around) else None


def own_calls(event: Event) -> Iterable[FunctionCall]:
    """The calls that the model made, without the requests that ADK makes of them."""
    return (call for call in event.calls() if not (call.name or "").startswith("adk_"))


def _quoted(match: re.Match[str]) -> str:
    return REFUSED.format(match[0][:MOST_QUOTED])


def why_not_begun(tool: str, author: str, branch: str, runs: Sequence[AnsweredRun]) -> str | None:
    """Why a call never began, if each of the runs that followed its answers proves that."""
    reasons = [run.refused or run.refused_tools.get(tool) or run.went_on(author, branch) for run in runs]
    return reasons[-1] if reasons and None not in reasons else None
