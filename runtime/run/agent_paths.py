"""Where in the tree of agents something was said. As in ADK, each transfer begins another run of an agent.

`front@1/payer@2` is the second run of payer below the first run of front. A stretch of work counts afresh. Pure.
"""

from __future__ import annotations

from collections import Counter

from runtime.agent import Agent


class Paths:
    """The runs of one stretch, which begins with `agent`."""

    def __init__(self, agent: Agent) -> None:
        self._latest: dict[str, str] = {}
        # The root runs whoever below it is asked; the agents in between are only passed through.
        self._runs = Counter({self._place(agent), self._place(agent.root)})

    def of(self, agent: Agent) -> str:
        """Its latest run."""
        return self._latest.get(agent.name) or f"{self._place(agent)}@1"

    def hand_over(self, agent: Agent) -> None:
        place = self._place(agent)
        self._runs[place] += 1
        self._latest[agent.name] = f"{place}@{self._runs[place]}"

    def _place(self, agent: Agent) -> str:
        return f"{self.of(agent.parent)}/{agent.name}" if agent.parent else agent.name
