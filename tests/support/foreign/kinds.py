"""The kinds of servers in the tests: how each is started, and what it can't do, for the table in docs/servers.md."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.environments import environment
from tests.support.foreign.rig import Foreign, foreign, google_adk, replay
from tests.support.mcp_servers import OFFICIAL
from tests.support.programs import PROGRAMS, SOURCES, ToolsMissing, built


def mcp_files() -> str:
    """The command of an MCP server, as `MCP` has it in a server's environment."""
    return json.dumps(OFFICIAL.command("tests.support.foreign.mcp_files"))


@dataclass(frozen=True)
class Kind:
    """`keeps`: its sessions outlive its process. `quick`: it is our stand-in and starts at once. `usual`: the real one
    that the fast tests use. `waits`: it runs one session at a time. By the names of scenes: `lacks` has what it can't
    do, `how` what it needs, `never` what can't occur, or not the same way each time. `like`: the kind that it is like
    but for restarts, so that it plays those alone."""

    name: str
    title: str
    keeps: bool = False
    quick: bool = False
    usual: bool = False
    waits: bool = False
    like: str = ""
    lacks: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    never: dict[str, str] = field(default_factory=dict)

    def command(self) -> tuple[str, ...]:
        if self.name == "ours":
            return sys.executable, "-m", "tests.support.foreign.ours"
        if self.quick:
            return replay("go")
        if self.name.startswith("adk-1"):
            return google_adk(str(environment("google-adk>=1.39,<1.40", "mcp<2")))
        if self.name not in PROGRAMS:
            return google_adk()
        try:
            return built(self.name)
        except ToolsMissing as missing:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(str(missing))

    @contextmanager
    def served(self, room: Path) -> Iterator[Foreign]:
        env = {"MCP": mcp_files(), "MODEL": json.dumps([sys.executable, "-m", "tests.support.foreign.wishes"])}
        if self.keeps:
            env["SESSIONS"] = str(room / "sessions.json") if self.quick else f"sqlite:///{room / 'adk.db'}"
        if self.name.endswith("-resumable"):
            env["RESUMABLE"] = "1"
        if self.name.endswith("-plugin"):
            env["PLUGIN"] = "1"
        with foreign(room, *self.command(), **env) as server:
            yield server


def pinned(file: str, after: str) -> str:
    """The version that a file in `tests/servers` names first after these words."""
    found = re.search(rf"{after}.*?(\d[\d.]*)", (SOURCES / file).read_text(), re.DOTALL)
    assert found is not None, f"{file} names no version after {after}"
    return found[1]


GOOGLE = f"google-adk {pinned('../../constraints.txt', 'google-adk==')}"

LOST = "its sessions are in memory: a restart loses the calls that wait, and the card says so"
IN_MEMORY = {"killed_between": LOST, "killed_in_a_run": LOST}
NO_EDITS = {"edit": "an edit denies the call, and the agent reads what people want"}
CAN_NOT_ASK = dict.fromkeys(
    ("payload", "payload_denied"), "a tool of its own can't ask: its gate decides by the arguments"
)
NO_BRANCHES = {"branches": "it has no `ParallelAgent`"}
TWICE = {"branches": "each branch takes the answers of all: a tool may run twice, or the server breaks off"}
"""Seen in about one run of three; adk-go #1357, which is in no release yet, mends it."""
LOSES_BRANCHES = {"branches": "it ignores these answers, whoever sends them: nothing runs, and people are asked"}
REFUSED = "it refuses an answer to a tool that asks by itself{}: nothing runs, and people are asked"
IN_COMPANY = REFUSED.format(", with all that came in the same message")
REFUSES_PAYLOADS = {"payload": REFUSED.format(""), "parallel_mixed": IN_COMPANY, "one_after_another": IN_COMPANY}
NO_CLIENT = "it asks no client for one: the card ends as failed, and the thread says so"
NO_SIGN_INS = {"sign_in": "its tools can't ask for one"}
ONE_ASKED = {"one_id": "it asks about the first of them and refuses its approval: nothing runs, and people are asked"}
GOOGLE_S = {**ONE_ASKED, "sign_in": NO_CLIENT}
ONE_ID = "nobody is asked, nothing runs, and the thread says so"
ONE_STEP = "of answers to several steps of a turn it takes the last step's: the others do not run, and people are asked"
NO_GATE = "its MCP tools have no gate: {} asks instead"

AS_RESULT = "as the call's result. A failure is a result too; only a killed process leaves an unknown outcome"

KINDS = (
    Kind(
        "ours",
        "our own runtime, `adk-confirm api`",
        keeps=True,
        waits=True,
        how={"settled": AS_RESULT},
        never={**NO_BRANCHES, **NO_SIGN_INS},
    ),
    Kind("adk-2", f"{GOOGLE}, in memory", like="adk-2-database", lacks={**IN_MEMORY, **NO_EDITS}, how=GOOGLE_S),
    Kind("adk-2-database", f"{GOOGLE}, database", keeps=True, usual=True, lacks=NO_EDITS, how=GOOGLE_S),
    Kind("adk-2-resumable", f"{GOOGLE}, resumable app", keeps=True, lacks=NO_EDITS, how=GOOGLE_S),
    Kind("adk-2-plugin", f"{GOOGLE}, database, our plugin", keeps=True, waits=True, how=GOOGLE_S),
    Kind(
        "adk-1.39",
        "google-adk 1.39, in memory",
        like="adk-1.39-database",
        lacks={**IN_MEMORY, **NO_EDITS, **LOSES_BRANCHES},
        how=GOOGLE_S,
    ),
    Kind(
        "adk-1.39-database", "google-adk 1.39, database", keeps=True, lacks={**NO_EDITS, **LOSES_BRANCHES}, how=GOOGLE_S
    ),
    Kind(
        "adk-1.39-plugin",
        "google-adk 1.39, database, our plugin",
        keeps=True,
        waits=True,
        lacks=LOSES_BRANCHES,
        how=GOOGLE_S,
    ),
    Kind(
        "js",
        f"@google/adk {pinned('js/package.json', 'google/adk')}, in memory",
        lacks={**NO_EDITS, **REFUSES_PAYLOADS, **IN_MEMORY},
        how={
            **GOOGLE_S,
            "mcp": NO_GATE.format("a `FunctionTool` that the agent puts before each of them")
            + ". It accepts no answers to what a callback or `SecurityPlugin` asks",
        },
    ),
    Kind(
        "go",
        f"ADK Go {pinned('go/go.mod', 'adk/v2')}, SQLite",
        keeps=True,
        lacks={**NO_EDITS, **TWICE},
        never={**TWICE, **NO_SIGN_INS},
    ),
    Kind(
        "java",
        f"ADK Java {pinned('java/pom.xml', '<artifactId>google-adk</artifactId>')}, in memory",
        waits=True,
        lacks={**NO_EDITS, **IN_MEMORY, "one_after_another": ONE_STEP},
        how={"mcp": NO_GATE.format("a callback that the agent runs before the tool"), "one_id": ONE_ID},
        never=NO_SIGN_INS,
    ),
    Kind(
        "rust",
        f"adk-rs {pinned('rust/Cargo.toml', 'adk-rs =')}, SQLite",
        keeps=True,
        lacks=NO_EDITS,
        never=CAN_NOT_ASK,
        how={
            "sub_agent": "each run begins with the root agent, which has to hand over to the sub-agent again",
            "one_id": ONE_ID,
            "sign_in": "after it, adk-rs asks for the approval again: a new card",
        },
    ),
    Kind(
        "stand-in",
        "",
        keeps=True,
        quick=True,
        lacks=NO_EDITS,
        never={**NO_BRANCHES, **NO_SIGN_INS, "below": "all its tools ask"},
    ),
)

ALONE = {"elsewhere": "nobody but the bot can reach it", "timed_out": "there is no connection that could break"}

ADK_IN_PROCESS = Kind(
    "adk-in-process", f"{GOOGLE}, in the bot's process", keeps=True, waits=True, never=ALONE, how=GOOGLE_S
)

OURS_IN_PROCESS = Kind(
    "ours-in-process",
    "our own runtime, in the bot's process",
    keeps=True,
    waits=True,
    how={"settled": AS_RESULT},
    never={**ALONE, **NO_BRANCHES, **NO_SIGN_INS},
)

IN_PROCESS = (OURS_IN_PROCESS, ADK_IN_PROCESS)
"""Here the killed process is the bot's: see `test_scenes_in_process.py`."""
