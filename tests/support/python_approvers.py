"""Functions that a policy names as `python:` approvers: good ones, and every kind of bad one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

asked: list[dict[str, Any]] = []
hanging = threading.Event()
stayed: list[bool] = []
NOBODY_IN_PARTICULAR = "U0ANNA"


def on_call(call: dict[str, Any]) -> list[str]:
    asked.append(call)
    return ["U0ANNA", "U0BEN"]


async def on_call_later(call: dict[str, Any]) -> set[str]:
    await asyncio.sleep(0)
    return {"U0BEN"}


def by_size(call: dict[str, Any]) -> list[str]:
    """Only the lead decides about many replicas."""
    return ["U0LEAD"] if call["args"]["replicas"] > 10 else ["U0ANNA", "U0LEAD"]


def busybody(call: dict[str, Any]) -> list[str]:
    call["args"]["replicas"] = 99
    return ["U0ANNA"]


def one_text(call: dict[str, Any]) -> str:
    return "U0ANNA"


def names(call: dict[str, Any]) -> list[object]:
    return ["U0ANNA", "@anna"]


def fails(call: dict[str, Any]) -> list[str]:
    raise KeyError("replicas")


def hangs(call: dict[str, Any]) -> list[str]:
    hanging.wait(20)
    return ["U0ANNA"]


async def hangs_later(call: dict[str, Any]) -> list[str]:
    await asyncio.Event().wait()
    return []


class _Lazily(list[str]):
    """A list that is fetched when it is read."""

    def __iter__(self) -> Iterator[str]:
        raise KeyError("the connection is closed")


def names_lazily(call: dict[str, Any]) -> list[str]:
    return _Lazily(["U0ANNA"])


def exits(call: dict[str, Any]) -> list[str]:
    raise SystemExit(3)


async def is_cancelled(call: dict[str, Any]) -> list[str]:
    waiting = asyncio.create_task(asyncio.Event().wait())
    waiting.cancel()
    await waiting
    return []


async def stays(call: dict[str, Any]) -> list[str]:
    """Neither ends when it is cancelled nor lets its loop go on."""
    stayed.append(hanging.wait(20))
    return []


still_hanging: set[int] = set()


def hangs_as_asked(call: dict[str, Any]) -> list[str]:
    """Hangs for those calls whose numbers the test names."""
    if call["args"]["number"] in still_hanging:
        hanging.wait(20)
    return ["U0ANNA"]
