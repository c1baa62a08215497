"""Finds out whether an ADK server went on without running a call whose answer it got. Pure.

ADK keeps no record of a tool that begins. But before an agent asks its model, it runs the calls that were answered, and
checks all of them before it runs the first. So a call without a result never began in these cases: the agent's model
spoke in the run after the answer, the server refused the answer by name, or the agents around it had moved on.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import inf

from bot.hosts.events import Move
from runtime.confirming import Request
from runtime.wire import Event, FunctionCall

WENT_ON = "The agent's server took the answer and went on without this call, so it did not run."
NOT_REACHED = (
    "The answer came in one message with one for another branch, and did not reach this agent. The call did not run."
)
MOVED_ON = "The agent went on to its next step before it took this answer, so the call did not run."
REFUSED = "The agent's server refused the answer before anything ran: {}"
MOST_QUOTED = 200

MOST_FAILURES = 10
DEEPEST = 50

_OF_CALL = re.compile(
    r"(?:Original function call for ID|Function call (?:name|arguments) mismatch for ID"
    r"|Tool confirmation rejected for function call) '(?P<name>[^']*)'.*"
)
_OF_TOOL = re.compile(r"Tool '(?P<name>[^']*)' (?:is not registered|does not require confirmation)\b.*")
"""The error of google-adk 1.39 and later, and of @google/adk, about one answer. It comes before any call of the message
runs."""


@dataclass
class AnsweredRun:
    """What follows a message with answers, up to the next message. `answers`: the answered calls and their tools.
    `spoke`: the agents whose model spoke, with their branches. `failures`: its errors."""

    invocation: str
    branch: str = ""  # the message's branch; agents of other branches do not see it
    until: float = inf  # the position of the next message
    answers: list[tuple[str, str]] = field(default_factory=list)
    spoke: set[tuple[str, str]] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)  # the paths of the agents that spoke
    failures: list[str] = field(default_factory=list)

    def follow(self, event: Event, node: str = "") -> None:
        """Adds an agent's event. Events of other invocations belong to another run."""
        if not event.invocation_id or event.invocation_id != self.invocation:
            return
        if event.error_code or event.error_message:
            self.failures.append(event.error_message or event.error_code or "")
        elif event.text.strip() or any(True for _ in own_calls(event)):
            self.spoke.add((event.author, event.branch or ""))
            self.nodes.add(node)

    def end(self, event: Event) -> None:
        """Notes that an agent has ended: whatever it ran has its result."""
        if event.invocation_id and event.invocation_id == self.invocation:
            self.spoke.add((event.author, event.branch or ""))

    @cached_property
    def refused(self) -> str | None:
        """The errors about one of the answers. If there is one, no call of the message began."""
        calls, tools = {call for call, _ in self.answers}, {tool for _, tool in self.answers}
        of_calls = (match for match in self._matches(_OF_CALL) if match["name"] in calls)
        of_tools = (match for match in self._matches(_OF_TOOL) if match["name"] in tools)
        return next((_quote(match) for match in chain(of_calls, of_tools)), None)

    def _matches(self, sentence: re.Pattern[str]) -> Iterator[re.Match[str]]:
        return (match for failure in self.failures[:MOST_FAILURES] for match in sentence.finditer(failure))

    def went_on(self, author: str, branch: str, node: str) -> str | None:
        """Whether the agent's model spoke. Some versions resume an agent without its branch."""
        steps = node.split("/")[:DEEPEST]
        callers = ("/".join(steps[:depth]) for depth in range(1, len(steps)))
        spoke = any((author, outer) in self.spoke for outer in around(branch)) or any(
            one in self.nodes for one in callers
        )
        return WENT_ON if spoke else None

    def missed(self, branch: str) -> str | None:
        """Whether the agent could not see the message. An agent sees messages of its own branch, of branches inside it,
        and of no branch."""
        outside = branch and self.branch and self.branch != branch and not self.branch.startswith(f"{branch}.")
        return NOT_REACHED if outside else None


def around(branch: str) -> Iterator[str]:
    """The branch and those that it is in."""
    steps = branch.split(".")[:DEEPEST]
    yield from ("", *(".".join(steps[:depth]) for depth in range(1, len(steps) + 1)))


@dataclass
class Moves:
    """The places where a resumable app notes that a `SequentialAgent` went to its next step, or that an agent ended.

    Earlier requests can't run after that: such an agent continues from where it is, and one that has ended does not
    continue. This holds below a `SequentialAgent` or `ParallelAgent`; elsewhere an agent may continue after its end.
    """

    places: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # by invocation and branch, in order
    ends: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)  # and agent: agents with a model
    run_others: dict[str, set[str]] = field(default_factory=dict)  # the names of these agents, by invocation
    looping: set[str] = field(default_factory=set)  # invocations in which steps are repeated

    def note(self, place: int, event: Event, move: Move) -> None:
        invocation, branch = event.invocation_id, event.branch or ""
        if move is Move.LOOP:
            self.looping.add(invocation)
        if move is not Move.ENDED:
            self.run_others.setdefault(invocation, set()).add(event.author)
        if event.author in self.run_others.get(invocation, ()):
            self.places.setdefault((invocation, branch), []).append(place)
        else:
            self.ends.setdefault((invocation, branch, event.author), []).append(place)

    def passed(self, request: Request, branch: str, since: float, until: float) -> bool:
        """Whether the agent that asks, or one around it, moved on or ended between these positions in the session."""
        invocation = request.invocation_id
        if not invocation or invocation in self.looping or invocation not in self.run_others:
            return False
        found = [self.places.get((invocation, outer), []) for outer in around(branch)]
        found.append(self.ends.get((invocation, branch, request.author), []))
        return any(bisect_right(places, since) < bisect_left(places, until) for places in found)


def own_calls(event: Event) -> Iterable[FunctionCall]:
    """The calls that the model made, without ADK's requests about them."""
    return (call for call in event.calls() if not (call.name or "").startswith("adk_"))


def _quote(match: re.Match[str]) -> str:
    return REFUSED.format(match[0][:MOST_QUOTED])


def why_not_begun(request: Request, branch: str, node: str, runs: Sequence[AnsweredRun]) -> str | None:
    """Why a call never began. None if any run after its answers leaves that open."""
    reasons = [run.refused or run.went_on(request.author, branch, node) or run.missed(branch) for run in runs]
    return reasons[-1] if reasons and None not in reasons else None
