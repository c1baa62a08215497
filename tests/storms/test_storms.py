"""Storms run again exactly, those that ever broke a promise hold it now, and slips are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.mutants import read
from tests.storms.__main__ import power_list

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

BROKEN_ONCE = {
    12: "a card showed for good what it had shown before: the claim's answer came after the work was done",
    108: "a line was posted again without a look: its job had ended since, and a late answer brought it up once more",
    110: "a card elsewhere that was gone before the thread led to it never came back",
    1000249: "a vote that was refused counted when Slack delivered it again, and its voter could decide by then",
    1001001: "a call started a millisecond after runs were paused: the pause was read with its approval only",
    8000168: "a card was posted twice: the disk was full for so long that the doubt about the first was given up",
    5043: "words went to a server of others twice: the replica that sent them again did not know when they were sent",
    41667: "a copy that came late kept its buttons for good: Slack had lost the card that was known",
    106616: "a tool began although its machine had been paused for longer than a lease: only one clock was looked at",
    411174: "the last of seven voters heard after two minutes: Slack said nothing, and each vote waited anew for that",
    422952: "the agent never heard that its call was late: the process died right after that was stored",
    431601: "a line stood twice: Slack showed a message only when it was posted again, by then with one line more",
    446220: "a line was lost: of two messages that told it, each was deleted because of the other",
    461981: "who had left the group decided: a machine was paused, and only its steady clock was looked at",
    461120: "a tool began twice: its process stood still after another of the same turn had begun",
    84: "a thread was left for good: the answer to its last commit was lost, and the loop kept a lease that was over",
}
BROKEN_ELSEWHERE = {
    5000014: "what a server said right before it was waited for no longer was never heard",
    20071: "words were sent twice: a replica stood still after it had noted that, and others waited from the note on",
    7000065: "words were sent a third time while the second could still arrive: only the first had been noted",
}
"""Seeds of storms that broke a promise, and what was wrong. A storm of a seed is another one when the product does
other things, so each of these mistakes has a test of its own besides."""


def storms(*arguments: str) -> tuple[int, str]:
    ran = subprocess.run([sys.executable, "-m", "tests.storms", *arguments], cwd=ROOT, capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


def test_a_seed_makes_the_same_storm_each_time() -> None:
    """Who ran when is the same in two processes, whatever ran before."""
    (code, alone), (_, after) = storms("7"), storms("3", "7")
    assert code == 0, alone
    assert alone.splitlines()[-1] == after.splitlines()[-1]
    assert "trace" in alone


def test_what_broke_a_promise_once_does_not_again() -> None:
    code, said = storms(*map(str, BROKEN_ONCE))
    assert code == 0, said
    code, said = storms("--foreign", *map(str, BROKEN_ELSEWHERE))
    assert code == 0, said


def test_on_postgresql_every_promise_holds() -> None:
    code, said = storms("5", "--postgres")
    assert code == 0, said


def test_each_slip_that_storms_are_to_find_is_one() -> None:
    assert [len([slip for slip in read() if words in slip.known_by]) for words in power_list()] == [1] * len(
        power_list()
    )


def test_a_slip_is_found() -> None:
    """It ends with the first storm that breaks a promise."""
    code, said = storms("--seed", "0", "--seconds", "300", "--slip", "a lease ends though more is due")
    assert code == 0, said
