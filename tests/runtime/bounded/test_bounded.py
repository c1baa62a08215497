"""Checks in a process of their own: its limits, its replacement, and what it can't read."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from adk_confirm.runtime.bounded.bounded_check import BoundedCheck, CheckBroke, TooCostly
from adk_confirm.runtime.jsontypes import JsonObject

CHECK = """
import json, os, sys, time

def check(what, value=None):
    if what == "give":
        return value
    if what == "spin":
        while True:
            pass
    if what == "sleep":
        time.sleep(value)
        return "slept"
    if what == "eat":
        return len(bytearray(value))
    if what == "recurse":
        return check(what)
    if what == "environment":
        return [dict(os.environ), [name for name in sys.modules if name.split(".")[0] == "adk_confirm"]]
    if what == "pid":
        return os.getpid()
    if what == "fall":
        import ctypes
        ctypes.string_at(0)
    raise ValueError("no " + what)
"""


@pytest.fixture
def check(tmp_path: Path) -> Iterator[BoundedCheck]:
    (tmp_path / "check.py").write_text(CHECK)
    bounded = BoundedCheck(tmp_path / "check.py")
    yield bounded
    bounded.close()


def test_values_go_and_come_back(check: BoundedCheck) -> None:
    value: JsonObject = {"a": [1, 2.5, None, True, "\ud800", "é", "x" * 1_000_000]}
    assert check("give", value) == value
    with pytest.raises(CheckBroke, match="ValueError: no such thing"):
        check("such thing")


@pytest.mark.parametrize("what", ["spin", "recurse", "fall"])
def test_what_does_not_end_is_ended(check: BoundedCheck, what: str) -> None:
    for _ in range(2):
        with pytest.raises(TooCostly, match=r"0\.1 s or 10 MB"):
            check(what)
    assert check("give", 1) == 1


def test_time_that_it_only_waits_does_not_count(check: BoundedCheck) -> None:
    """On a busy machine an honest check waits for its turn."""
    assert check("sleep", 0.5) == "slept"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this kernel does not tell what a process has")
def test_memory_is_limited_for_each_check_by_itself(check: BoundedCheck) -> None:
    for _ in range(5):
        assert check("eat", 5_000_000) == 5_000_000
        with pytest.raises(TooCostly):
            check("eat", 20_000_000)


def test_what_no_json_can_hold_costs_nothing(check: BoundedCheck) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, 10**5000):
        with pytest.raises(TooCostly):
            check("give", value)  # type: ignore[arg-type]  # no JSON: that is the point


def test_it_knows_none_of_our_secrets(check: BoundedCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADK_CONFIRM_SECRET", "secret")
    answer = check("environment")
    assert isinstance(answer, list)
    assert "secret" not in str(answer[0])
    assert answer[1] == []


def test_one_that_somebody_else_ended_is_replaced(check: BoundedCheck) -> None:
    """Its end says nothing of the check."""
    first = check("pid")
    assert isinstance(first, int)
    os.kill(first, signal.SIGKILL)
    psutil.Process(first).wait(60)
    second = check("pid")
    assert second != first


def test_each_thread_gets_its_own_answer(check: BoundedCheck) -> None:
    wrong: list[object] = []

    def ask(number: int) -> None:
        for turn in range(20):
            if turn == 10 and number == 0:
                with pytest.raises(TooCostly):
                    check("spin")
            answer = check("give", [number, turn])
            if answer != [number, turn]:
                wrong.append(answer)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(CHECK)
    code = (
        "import os, sys; from pathlib import Path; from adk_confirm.runtime.bounded.bounded_check import BoundedCheck; "
        f"check = BoundedCheck(Path({str(tmp_path / 'check.py')!r})); print(check('pid'), flush=True); {{end}}"
    )
    for end in ("pass", "os._exit(0)", "os.kill(os.getpid(), 9)"):
        ran = subprocess.run([sys.executable, "-c", code.format(end=end)], capture_output=True, text=True, check=False)
        assert ran.stderr == ""
        worker = int(ran.stdout)
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(worker).wait(60)
