"""What a call would do, as people read it: of a unified diff only the lines that change and those around them.

A diff is read by the counts in its hunks, so that no line that a model wrote passes for a head or for another file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from adk_confirm.blocks import words
from adk_confirm.blocks.text import units
from adk_confirm.runtime.calls.preview import Preview

_HUNK = re.compile(r"@@ -[0-9]{1,9}(?:,([0-9]{1,9}))? \+[0-9]{1,9}(?:,([0-9]{1,9}))? @@.*")
_GIT, _GIT_SAYS = ("diff --git ", "index ", "similarity index "), ("new file mode ", "deleted file mode ", "rename ")
_TAIL = 3
_SIDES = {"-": "was ", "+": "now "}


@dataclass(frozen=True, slots=True)
class Plan:
    """The lines to read; of a diff also its files and size."""

    lines: tuple[str, ...]
    files: tuple[str, ...] = ()
    more: int = 0
    fewer: int = 0

    @property
    def size(self) -> str:
        """`+12 −4`, after the number of files if there are several."""
        if not self.files:
            return ""
        files = f"{words.counted(len(self.files), 'files')}, " if len(self.files) > 1 else ""
        return f"{files}+{self.more:,} −{self.fewer:,}"

    def cut(self, most: int, length: int) -> tuple[str, str]:
        """The plan within this many lines and units: its beginning, and its end with what is left out, which is empty
        if all of the plan is there."""
        shown = self.lines
        if len(shown) <= most and sum(units(line) + 1 for line in shown) <= length + 1:
            return "\n".join(shown), ""
        tail = shown[-_TAIL:] if most > 2 * _TAIL else ()
        head = [*shown[: most - (_TAIL + 1) * bool(tail)]]
        while len(head) > 1 and sum(units(line) + 1 for line in (*head, *tail)) > length:
            head.pop()
        left = len(shown) - len(head) - len(tail)
        more = (f"… {left:,} more line{'s' if left > 1 else ''} …",) if left else ()
        return "\n".join(head), "".join(f"\n{line}" for line in (*more, *tail))

    def since(self, before: Plan) -> tuple[str, ...]:
        """Only the lines that differ: what stood there then, and what stands there now."""
        found = Preview("\n".join(self.lines)).changes_from(Preview("\n".join(before.lines)))
        return tuple(f"{_SIDES[line[:1]]}{line[1:]}" for line in found)


def plan_of(preview: Preview) -> Plan:
    lines = preview.text.split("\n")
    return _diff(lines) or Plan(tuple(lines))


def _diff(lines: list[str]) -> Plan | None:
    """Reads a unified diff. None if the text is not one, or has anything else in it."""
    shown, files = list[str](), list[str]()
    old = new = more = fewer = 0
    rest = iter(lines)
    for line in rest:
        if old > 0 or new > 0 or (files and line.startswith("\\")):
            sign = line[:1] or " "
            if sign not in "-+ \\":
                return None
            old, new = old - (sign in "- "), new - (sign in "+ ")
            more, fewer = more + (sign == "+"), fewer + (sign == "-")
            shown.append(f"{sign} {line[1:]}")
        elif line.startswith("--- "):
            after = next(rest, "")
            if not after.startswith("+++ "):
                return None
            files.append(_name(line[4:], after[4:]))
            shown.append(f"▸ {files[-1]}".strip())
        elif (hunk := _HUNK.fullmatch(line)) and files:
            old, new = (int(count) if count is not None else 1 for count in hunk.groups())
            shown += [] if shown[-1].startswith("▸") else ["⋯"]
        elif line.startswith(_GIT_SAYS):
            shown.append(line)
        elif not line.startswith(_GIT):
            return None
    if not files or old or new:
        return None
    return Plan(tuple(x for x in shown if len(files) > 1 or not x.startswith("▸")), tuple(files), more, fewer)


def _name(before: str, after: str) -> str:
    """`deploy/checkout.yaml`, or `old.yaml → new.yaml`. What follows a tab is a time. Empty for words such as `now`."""
    old, new = (name.split("\t")[0].removeprefix(mark) for name, mark in ((before, "a/"), (after, "b/")))
    there = [name for name in dict.fromkeys((old, new)) if name != "/dev/null"]
    if any(" " in name or not re.search("[./]", name) for name in there):
        return ""
    return words.ARROW.join(there)
