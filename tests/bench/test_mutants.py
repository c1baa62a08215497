"""A slip finds its place however the code is laid out, changes nothing else, and says why it can't be made."""

from __future__ import annotations

import ast
import re

import pytest

from bench.mutants import changed, mutate

SOURCE = """
KINDS = {"one": 1, "two": 2}

class Row:
    async def count(self, at):
        if at >= self.deadline(
            "here",  # a comment
        ):
            return Refusal(at, reason="late")
        await self.store(at, 1)
        return at and self.votes and self.quorum
"""


@pytest.mark.parametrize(
    ("slip", "old", "new"),
    [
        ('KINDS: drop "one": _', '"one": 1, ', ""),
        ('KINDS: "two": 2 -> "two": 3', '"two": 2', '"two": 3'),
        ("Row.count: at >= _ -> at > _", "at >=", "at >"),
        (
            "Row.count: self.deadline(...) -> None",
            'self.deadline(\n            "here",  # a comment\n        )',
            "None",
        ),
        ("bot.Row.count: drop reason=_", ', reason="late"', ""),
        ("Row.count: drop await self.store(...)", "        await self.store(at, 1)\n", ""),
        ("Row.count: await self.store(at, 1) -> return", "await self.store(at, 1)", "return"),
        ("Row.count: drop self.votes", "self.votes and ", ""),
        ("Row.count: return Refusal(...) -> pass", 'return Refusal(at, reason="late")', "pass"),
        ("Row.count: drop return Refusal(...)", 'return Refusal(at, reason="late")', "pass"),
        ("Row.count: drop if _", SOURCE[SOURCE.index("        if") : SOURCE.index("        await")], ""),
    ],
)
def test_a_slip_changes_what_it_names(slip: str, old: str, new: str) -> None:
    assert SOURCE.count(old) == 1
    assert changed(SOURCE, *slip.split(": ", 1)) == ast.unparse(ast.parse(SOURCE.replace(old, new)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("self.voters -> None", "has `self.voters` 0 times: let the slip follow the code, or delete it"),
        ("at -> None", "has `at` 4 times: say more of what is around it"),
        ("self.votes", "is neither `A -> B` nor `drop A`"),
        ("at >= self.deadline( -> None", "is neither `A -> B` nor `drop A`"),
        ("drop at >= _", "is no Python after"),
        ("self.votes -> return", "is no Python after"),
        ("self.votes -> _", "more `_` than the old"),
    ],
)
def test_a_slip_that_cannot_be_made_says_why(change: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        changed(SOURCE, "Row.count", change)


def test_a_place_is_one() -> None:
    with pytest.raises(ValueError, match="nothing is called no_such_function any more"):
        mutate("no_such_function: drop x")
    with pytest.raises(ValueError, match="put a package or module before it"):
        mutate("log: drop x")
