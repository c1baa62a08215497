"""The path of an agent's run in the tree of agents. As in ADK, each transfer begins another run of an agent.

`front@1/payer@2` is the second run of payer below the first run of front. Each stretch of work counts from 1. Pure.
"""

from __future__ import annotations

from collections import Counter

from adk_confirm.runtime.agent import Agent


class Paths:
    """The runs of one stretch of work, which begins with `agent`."""

    def __init__(self, agent: Agent) -> None:
        self._latest: dict[str, str] = {}
        # The root runs the agent below it that is asked; agents in between only appear in the path.
        self._runs = Counter({self._place(agent), self._place(agent.root)})

    def of(self, agent: Agent) -> str:
        """The agent's latest run."""
        return self._latest.get(agent.name) or f"{self._place(agent)}@1"

    def hand_over(self, agent: Agent) -> None:
        place = self._place(agent)
        self._runs[place] += 1
        self._latest[agent.name] = f"{place}@{self._runs[place]}"

    def _place(self, agent: Agent) -> str:
        return f"{self.of(agent.parent)}/{agent.name}" if agent.parent else agent.name
