"""Measures everything that we claim about speed and size, and writes docs/benchmarks.md.

make bench                                   # all parts, about 15 minutes on two quiet cores
python -m bench --only cycle start           # these parts; the others keep what the document says
python -m bench --quick --print              # a minute or two, to see that it works; writes nothing
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import platform
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench import cycle, foreign, limit, memory, replicas, rest, slack, start, waiting
from bench.charts import IMAGES
from tests.support.postgres import PostgresServer, postgres_server

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
VERSIONS = ("google-adk", "google-genai", "psycopg", "aiohttp", "slack-bolt", "pydantic")

MOST_SECONDS = 900.0
"""A part that takes longer is abandoned, so that the others are still measured."""

Part = Callable[..., Awaitable[str]]
PARTS: dict[str, tuple[str, Part]] = {
    "slack": ("The whole way in Slack", slack.measured),
    "cycle": ("A cycle of the runtime", cycle.measured),
    "memory": ("Memory", memory.measured),
    "foreign": ("An agent on a google-adk server", foreign.measured),
    "rest": ("Over HTTP", rest.measured),
    "waiting": ("Waiting confirmations", waiting.measured),
    "replicas": ("Replicas", replicas.measured),
    "start": ("Start", start.measured),
    "limit": ("The limit", limit.measured),
}
INTRODUCTION = """# Benchmarks

What people wait for comes first: the whole way in Slack. What the parts cost follows. A goal that was missed has its
cause, and what going on would cost.

`make bench` measures all of this in about 15 minutes and writes this file. Compare figures only within a table: these
were measured in turn, in the same minutes. A figure is the median of its rounds, with the smallest and the largest in
brackets.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--print", action="store_true", help="print the document, and do not write it")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    sections = _sections(DOCUMENT.read_text() if DOCUMENT.exists() else "")
    failed = False
    with postgres_server() as postgres:
        _make_durable(postgres)
        for name in options.only:
            began = time.monotonic()
            try:
                sections[name] = _measure_part(name, postgres, quick=options.quick, keep=not options.print)
            except Exception:  # noqa: BLE001  (the other parts are measured all the same)
                failed = True
                traceback.print_exc()
            else:
                print(f"\n## {PARTS[name][0]}\n\n{sections[name]}\n\n({time.monotonic() - began:.0f} s)", flush=True)
            if not options.print:
                DOCUMENT.write_text(_document(sections))  # after each part: a later failure loses no measurement
    return 1 if failed else 0


def _measure_part(name: str, postgres: PostgresServer, *, quick: bool, keep: bool) -> str:
    """The part's text. `keep`: its charts are for the document."""
    with postgres.database() as url, tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_in_time(PARTS[name][1](Path(folder), url, quick=quick)))
        for chart in Path(folder).glob("*.svg") if keep else ():
            shutil.copy(chart, IMAGES)
    return f"{found}\n\n*{_where()}*"


async def _in_time(measuring: Awaitable[str]) -> str:
    async with asyncio.timeout(MOST_SECONDS):
        return await measuring


def _make_durable(postgres: PostgresServer) -> None:
    """Lets every commit wait for the disk, which the tests' server does not do."""
    for setting in ("fsync", "full_page_writes"):
        postgres.psql(f"ALTER SYSTEM SET {setting} = on")
    postgres.psql("SELECT pg_reload_conf()")


def _where() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in VERSIONS)
    cores = len(os.sched_getaffinity(0))
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {cores} cores of {_processor()}, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, {versions}"
    )


def _processor() -> str:
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def _sections(document: str) -> dict[str, str]:
    parts = re.findall(r"<!-- (\w+) -->\n(.*?)\n<!-- end -->", document, re.DOTALL)
    return {name: text for name, text in parts if name in PARTS}


def _document(sections: dict[str, str]) -> str:
    parts = [
        f"## {title}\n\n<!-- {name} -->\n{sections[name]}\n<!-- end -->\n"
        for name, (title, _) in PARTS.items()
        if name in sections
    ]
    return "\n".join([INTRODUCTION, *parts])


if __name__ == "__main__":
    sys.exit(main())
