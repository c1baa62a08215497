"""Figures of several rounds, and tables of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median


class Rounds:
    """The same things measured several times, in turn, so that all of them share the machine's good and bad moments."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], list[float]] = defaultdict(list)

    def add(self, *name: str, value: float) -> None:
        self._found[name].append(value)

    def has(self, *name: str) -> bool:
        return name in self._found

    def median(self, *name: str) -> float:
        return median(self._found[name])

    def shown(self, *name: str, unit: str = "") -> str:
        """The median, with the smallest and the largest value."""
        found = self._found.get(name)
        if not found:
            return "–"
        return f"{number(median(found))}{unit} ({number(min(found))}–{number(max(found))})"


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which this part of them lies; 1.0 gives the largest."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def times(value: float) -> str:
    return f"{number(value)}×"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


@dataclass(frozen=True)
class Goal:
    """A goal, the value that was found, and the reason if it was missed."""

    wanted: str
    found: str
    met: bool
    reason: str


def goals(*checked: Goal) -> str:
    rows = [[goal.wanted, goal.found, "met" if goal.met else f"missed: {goal.reason}"] for goal in checked]
    heads = ("goal", "found", "")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, ("---", "--:", "---"), *rows])
