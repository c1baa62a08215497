"""Measures the memory of `serve` while more and more conversations have an approved call that ran."""

from __future__ import annotations

from pathlib import Path

from bench.figures import table
from bench.office import office
from bench.slack import PATIENCE, RATE, ask, decide, in_turn

CHANNELS, THREADS, ROUNDS = 50, 250, 6
"""More conversations in all than the thousand that the bot keeps in memory."""


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    threads, rounds = THREADS // (8 if quick else 1), 2 if quick else ROUNDS
    found = []
    async with office(folder / "memory", channels=CHANNELS, limits=False) as at:
        found.append(["0", f"{at.memory():.0f} MB"])
        for done in range(0, rounds * threads, threads):
            orders = [[f"o-{done + thread}"] for thread in range(threads)]
            replies = at.watched.replies
            await ask(at, orders, at.channels * (1 + threads // CHANNELS))
            await decide(at, in_turn(orders), RATE)
            await at.replies(replies + threads, PATIENCE)
            found.append([f"{done + threads:,}", f"{at.memory():.0f} MB"])
    return (
        "`adk-confirm serve` on SQLite, after so many conversations with an approved call that ran. It keeps the last "
        "thousand conversations in memory, or fewer if they are long or have files in them:\n\n"
        f"{table(['conversations', 'memory'], found)}"
    )
