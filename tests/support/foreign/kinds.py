"""The kinds of servers in the tests: how each is started, and what it can't do, for the table in docs/servers.md."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.environments import environment
from tests.support.foreign.node import google_adk_js
from tests.support.foreign.rig import Foreign, foreign, google_adk, replay
from tests.support.mcp_servers import OFFICIAL


def mcp_files() -> str:
    """The command of an MCP server, as `MCP` has it in a server's environment."""
    return json.dumps(OFFICIAL.command("tests.support.foreign.mcp_files"))


@dataclass(frozen=True)
class Kind:
    """`keeps`: its sessions outlive its process. `quick`: it is our replay and starts at once. `usual`: the real one
    that the fast tests use. `waits`: it runs one session at a time. By the names of scenes: `lacks` has what it can't
    do, `how` what it needs, `never` what can't occur."""

    name: str
    title: str
    keeps: bool = False
    quick: bool = False
    usual: bool = False
    waits: bool = False
    lacks: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    never: dict[str, str] = field(default_factory=dict)

    def command(self) -> tuple[str, ...]:
        if self.name == "ours":
            return sys.executable, "-m", "tests.support.foreign.ours"
        if self.quick:
            return replay(self.name.removeprefix("adk-"))
        if self.name.startswith("adk-1"):
            return google_adk(str(environment("google-adk>=1.39,<1.40", "mcp<2")))
        if self.name != "js":
            return google_adk()
        found = google_adk_js()
        if found is None:
            give_up = pytest.fail if os.environ.get("CI") else pytest.skip
            give_up("node and npm are not installed")
        return found

    @contextmanager
    def served(self, room: Path) -> Iterator[Foreign]:
        env = {"MCP": mcp_files()}
        if self.keeps:
            env["SESSIONS"] = str(room / "sessions.json") if self.quick else f"sqlite:///{room / 'adk.db'}"
        if self.name.endswith("-resumable"):
            env["RESUMABLE"] = "1"
        if self.name.endswith("-plugin"):
            env["PLUGIN"] = "1"
        with foreign(room, *self.command(), **env) as server:
            yield server


LOST = "its sessions are in memory: a restart loses the calls that wait, and the card says so"
IN_MEMORY = {"killed_between": LOST, "killed_in_a_run": LOST}
NO_BRANCHES = {"branches": "it has no `ParallelAgent`"}
NOT_REPLAYED = {"branches": "not replayed"}
LOSES_BRANCHES = {"branches": "it ignores these answers, whoever sends them: nothing runs, and people are asked"}
REFUSED = "it refuses an answer to a tool that asks by itself{}: nothing runs, and people are asked"
IN_COMPANY = REFUSED.format(", with all that came in the same message")
REFUSES_PAYLOADS = {"payload": REFUSED.format(""), "parallel_mixed": IN_COMPANY, "one_after_another": IN_COMPANY}
NO_GATE = "its MCP tools have no gate: {} asks instead"

AS_RESULT = "as the call's result. A failure is a result too; only a killed process leaves an unknown outcome"

KINDS = (
    Kind(
        "ours",
        "our own runtime, `adk-confirm api`",
        keeps=True,
        waits=True,
        how={"settled": AS_RESULT},
        never=NO_BRANCHES,
    ),
    Kind("adk-2", "google-adk 2, in memory", lacks=IN_MEMORY),
    Kind("adk-2-database", "google-adk 2, database", keeps=True, usual=True),
    Kind("adk-2-resumable", "google-adk 2, resumable app", keeps=True),
    Kind("adk-2-plugin", "google-adk 2, database, our plugin", keeps=True, waits=True),
    Kind("adk-1.39", "google-adk 1.39, in memory", lacks={**IN_MEMORY, **LOSES_BRANCHES}),
    Kind("adk-1.39-database", "google-adk 1.39, database", keeps=True, lacks=LOSES_BRANCHES),
    Kind("adk-1.39-plugin", "google-adk 1.39, database, our plugin", keeps=True, waits=True, lacks=LOSES_BRANCHES),
    Kind(
        "js",
        "@google/adk 2, in memory",
        lacks={**REFUSES_PAYLOADS, **IN_MEMORY},
        how={
            "mcp": NO_GATE.format("a `FunctionTool` that the agent puts before each of them")
            + ". It accepts no answers to what a callback or `SecurityPlugin` asks"
        },
    ),
    Kind("adk-go", "ADK Go, replayed", keeps=True, quick=True, never=NOT_REPLAYED),
    Kind(
        "adk-java",
        "ADK Java, replayed",
        keeps=True,
        quick=True,
        how={"mcp": NO_GATE.format("a callback that the agent runs before the tool")},
        never=NOT_REPLAYED,
    ),
    Kind(
        "adk-rust",
        "adk-rs, replayed",
        keeps=True,
        quick=True,
        how={"sub_agent": "each run begins with the root agent, which has to hand over to the sub-agent again"},
        never=NOT_REPLAYED,
    ),
)

ALONE = {"elsewhere": "nobody but the bot can reach it", "timed_out": "there is no connection that could break"}

ADK_IN_PROCESS = Kind("adk-in-process", "google-adk 2, in the bot's process", keeps=True, waits=True, never=ALONE)

OURS_IN_PROCESS = Kind(
    "ours-in-process",
    "our own runtime, in the bot's process",
    keeps=True,
    waits=True,
    how={"settled": AS_RESULT},
    never={**ALONE, **NO_BRANCHES},
)

IN_PROCESS = (OURS_IN_PROCESS, ADK_IN_PROCESS)
"""Here the killed process is the bot's: see `test_scenes_in_process.py`."""
