"""The operator's commands as processes: pipes, exit codes, limited terminals, and a store in use."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, BEN
from tests.support.office import ON_SQLITE
from tests.support.stores import SECRET

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.slow, ON_SQLITE]


async def shell(at: Backoffice, line: str, **environment: str) -> tuple[int, str, str]:
    """A line in a shell, where `adk-confirm` is the command."""
    process = await asyncio.create_subprocess_exec(
        *(
            "bash",
            "-o",
            "pipefail",
            "-c",
            f'adk-confirm() {{ "{sys.executable}" -m adk_confirm.bot.cli "$@"; }}; {line}',
        ),
        cwd=at.directory,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "ADK_CONFIRM_SECRET": SECRET, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_reader_who_has_seen_enough(at: Backoffice) -> None:
    for _ in range(18):
        await at.asks("refund", {"note": "x" * 9000})
    code, out, err = await shell(at, "adk-confirm audit export | head -n 1")
    assert (code, err) == (0, "")
    assert json.loads(out)["kind"] == "asked"
    code, out, err = await shell(at, "adk-confirm pending | head -n 1")
    assert (code, err) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
async def test_a_disk_that_is_full(at: Backoffice) -> None:
    await at.asks()
    for command in ("pending", "audit export", "manifest"):
        code, _, err = await shell(at, f"adk-confirm {command} > /dev/full")
        assert (code, err.partition(": ")[2]) == (2, "The output can't be written: No space left on device.\n")


async def test_a_terminal_that_lacks_letters(at: Backoffice) -> None:
    deploy = await at.asks("deploy", {"note": "für Zoë"})
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    for command in (f"audit show {deploy}", "pending", "audit export --format csv"):
        code, out, err = await shell(at, f"adk-confirm {command}", **ascii_only)
        assert (code, err) == (0, "")
        assert "f\\xfcr Zo\\xeb" in out


async def test_a_lone_half_of_a_letter_stops_no_export(at: Backoffice) -> None:
    """An agent may send what is no text anywhere else."""
    await at.asks("deploy", {"note": "\ud83d"})
    for form in ("jsonl", "csv"):
        code, _, err = await shell(at, f"adk-confirm audit export --format {form}")
        assert (code, err) == (0, "")


async def test_exit_codes_say_what_a_script_needs(at: Backoffice) -> None:
    assert (await shell(at, "adk-confirm audit verify"))[0] == 0
    code, out, err = await shell(at, "adk-confirm audit show nothing")
    assert (code, out) == (2, "")
    assert err.startswith("adk-confirm audit: There is no confirmation and no session nothing in this store.")
    code, _, err = await shell(at, "adk-confirm audit")
    assert code == 2
    assert "Usage: adk-confirm audit" in err
    code, out, _ = await shell(at, "adk-confirm audit export --help")
    assert code == 0
    assert "2030-01-31T18:00+01:00, or 90d for 90 days ago" in " ".join(out.split())


async def test_the_whole_morning_of_an_operator(at: Backoffice) -> None:
    """In one shell, beside a service at work."""
    deploy, refund = await at.asks("deploy"), await at.asks("refund")
    code, out, err = await shell(
        at,
        "adk-confirm pause && "
        "adk-confirm pending --json > pending.json && "
        f"adk-confirm withdraw {refund} && "
        "adk-confirm resume && "
        "adk-confirm audit verify && "
        "adk-confirm audit export --format csv --output ledger.csv",
    )
    assert (code, err) == (0, "")
    begins = [line.partition(" ")[0] for line in out.splitlines() if not line.startswith(" ")]
    assert begins == ["Runs", "Confirmation", "Runs", "consistent:", "5"]
    waiting = json.loads((at.directory / "pending.json").read_text())["waiting"]
    assert {one["id"] for one in waiting} == {deploy, refund}
    for voter in (ANNA, BEN):
        await at.vote(deploy, voter)
    await at.runs(deploy)
