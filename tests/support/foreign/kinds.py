"""The servers that the tests know, how each is started, and what each can't do: the table in docs/servers.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.environments import environment
from tests.support.foreign.node import google_adk_js
from tests.support.foreign.rig import Foreign, adk_rs, foreign, google_adk

MCP = json.dumps([sys.executable, "-m", "tests.support.foreign.mcp_files"])


@dataclass(frozen=True)
class Kind:
    """`keeps`: its sessions outlive it. `lacks`: what it can't do, by the name of the scene."""

    name: str
    title: str
    keeps: bool = False
    slow: bool = False
    lacks: dict[str, str] = field(default_factory=dict)

    def command(self) -> tuple[str, ...]:
        if self.name.startswith("adk-1"):
            return google_adk(str(environment("google-adk[mcp]>=1.39,<1.40")))
        if self.name == "js":
            found = google_adk_js()
            if found is None:
                pytest.skip("node and npm are not installed")
            return found
        return adk_rs() if self.name == "adk-rs" else google_adk()

    @contextmanager
    def served(self, room: Path) -> Iterator[Foreign]:
        env = {} if "mcp" in self.lacks else {"MCP": MCP}
        if self.keeps:
            env["SESSIONS"] = str(room / "rs.json") if self.name == "adk-rs" else f"sqlite:///{room / 'adk.db'}"
        if self.name.endswith("-resumable"):
            env["RESUMABLE"] = "1"
        if self.name.endswith("-plugin"):
            env["PLUGIN"] = "1"
        with foreign(room, *self.command(), **env) as server:
            yield server


LOST = "its sessions are in memory: what waits is lost when it restarts, and the card says so"
NOT_DEFINED = "our replay has no such thing"

KINDS = (
    Kind("adk-2", "google-adk 2, in memory", lacks={"killed_between": LOST, "killed_in_a_run": LOST}),
    Kind("adk-2-database", "google-adk 2, database", keeps=True),
    Kind("adk-2-resumable", "google-adk 2, resumable app", keeps=True),
    Kind("adk-2-plugin", "google-adk 2, database, our plugin", keeps=True),
    Kind("adk-1.39", "google-adk 1.39, database", keeps=True, slow=True),
    Kind("adk-1.39-plugin", "google-adk 1.39, database, our plugin", keeps=True, slow=True),
    Kind(
        "js",
        "@google/adk 2, in memory",
        slow=True,
        lacks={
            "payload": "it refuses an answer to a tool that asks by itself",
            "mcp": "not tried",
            "killed_between": LOST,
            "killed_in_a_run": LOST,
        },
    ),
    Kind(
        "adk-rs",
        "adk-rs' dialect, replayed",
        keeps=True,
        lacks={"mcp": NOT_DEFINED, "sub_agent": NOT_DEFINED},
    ),
)
