"""Measures the memory of `serve` while thousands of calls are approved and run."""

from __future__ import annotations

from pathlib import Path

from bench.figures import table
from bench.office import office
from bench.slack import EACH, PATIENCE, RATE, THREADS, ask, decide, in_turn

ROUNDS = 12


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    threads, rounds = THREADS // (8 if quick else 1), 2 if quick else ROUNDS
    found = []
    async with office(folder / "memory", channels=threads, limits=False) as at:
        found.append(["0", f"{at.memory():.0f} MB"])
        for done in range(0, rounds * threads * EACH, threads * EACH):
            orders = [[f"o-{done + thread * EACH + n}" for n in range(EACH)] for thread in range(threads)]
            replies = at.watched.replies
            await ask(at, orders, at.channels)
            await decide(at, in_turn(orders), RATE)
            await at.replies(replies + threads, PATIENCE)
            found.append([f"{done + threads * EACH:,}", f"{at.memory():.0f} MB"])
    return (
        f"`adk-confirm serve` on SQLite, after so many approved calls that ran, {EACH} in a conversation. It keeps the "
        "last thousand conversations in memory, or fewer if they are long or have files in them:\n\n"
        f"{table(['approved', 'memory'], found)}"
    )
