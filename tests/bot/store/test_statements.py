"""Both databases understand every statement in the code: its tables, columns and syntax."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from adk_confirm.bot.store.sealed_rows import STORED
from adk_confirm.runtime.store.database import Database, Tx

ROOT = Path(__file__).parents[3]
ROOMS = [ROOT / room for room in ("runtime", "bot")]
STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE)\s.*\b(FROM|INTO|SET)\b", re.DOTALL)
GONE = re.compile(r"\b(runtime_desks|bot_switches|bot_grants|bot_spoken|bot_replies)\b")
"""Tables of earlier releases: only upgrades read them."""
ONLY_HERE = {"sqlite": re.compile(r"\bsqlite_"), "postgresql": re.compile(r"\bpg_|clock_timestamp")}


def texts() -> Iterator[str]:
    for room in ROOMS:
        for file in sorted(room.rglob("*.py")):
            if "sandbox" not in file.parts:
                yield from _constants(ast.parse(file.read_text(encoding="utf-8")))


def _constants(tree: ast.Module) -> Iterator[str]:
    """The statements of a file, with those that are put together from its own constants."""
    known: dict[str, str] = {"STORED": STORED}
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            known[line.targets[0].id] = _text(line.value, known)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        whole = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and id(node) not in parts)
        if whole and STATEMENT.match(text := _text(node, known)):
            yield text


def _text(node: ast.AST, known: dict[str, str]) -> str:
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, known) for part in parts)
        case ast.FormattedValue(value=ast.Name(id=name)):
            return known.get(name, "?")
        case _:
            return "?"


@cache
def statements() -> list[str]:
    found = sorted(
        {text.format("1 = 1") if "{" in text else text for text in texts() if "?" not in text and not GONE.search(text)}
    )
    assert len(found) > 150
    return found


def explain(tx: Tx, statement: str) -> None:
    names = re.findall(r"(?<!:):(\w+)", statement)
    lists = re.findall(r"\bIN :(\w+)", statement)
    tx.column(f"EXPLAIN {statement}", **{name: [] if name in lists else None for name in names})


async def test_both_databases_understand_every_statement(database: Database) -> None:
    for statement in statements():
        if not any(only.search(statement) for name, only in ONLY_HERE.items() if name != database.dialect):
            try:
                await database.run(explain, statement)
            except Exception as error:
                raise AssertionError(statement) from error
