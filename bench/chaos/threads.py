"""Checks that threads show the ledger's decisions: each has one line, in the ledger's order. Pure.

The expected text comes from the words of `blocks`, and the names in it from the ledger.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from adk_confirm.blocks import words
from adk_confirm.blocks.ledger_kinds import LineKind
from adk_confirm.bot.store.cast_vote import TRIES
from bench.chaos.history import Entry, Finding
from bench.chaos.story import Story, thread_of

_ENDS = {
    LineKind.DONE: "✅",
    LineKind.FAILED: "❌",
    LineKind.REFUSED: "⛔",
    LineKind.UNKNOWN: "⚠️",
    LineKind.LAPSED: "⌛",
    LineKind.DENIED: "🚫",
    LineKind.EXPIRED: "⌛",
}
_TEMPLATES = {
    LineKind.CALL_REFUSED: (words.LINE_CALL_REFUSED, f"{words.LINE_CALL_REFUSED} {{why}}"),
    LineKind.REMINDED: (words.LINE_REMINDED, words.LINE_REMINDED_WHO, words.THREAD_REMINDED.replace("{who}", "{whom}")),
    LineKind.VOTE_REFUSED: (words.THREAD_TRIES,),
    LineKind.SETTLED: tuple(words.LINE_SETTLED.values()),
    LineKind.NOBODY_KNOWS: (words.LINE_NOBODY_KNOWS,),
}
_FIRST_SIGNS = {*(sign[0] for sign in _ENDS.values()), *(one[0] for each in _TEMPLATES.values() for one in each)}


def _is_ours(line: str) -> bool:
    """Whether a sentence is the bot's own, and not a quotation below one."""
    return bool(line) and line[0] in _FIRST_SIGNS


def _expected_line(story: Story, entries: Sequence[Entry], at: int) -> re.Pattern[str] | None:
    """The line that the thread must show for this entry, if it must show one."""
    entry = entries[at]
    kind = LineKind(entry.kind) if entry.kind in set(LineKind) else None
    who = story.history.names.get(entry.who, entry.who)
    if kind in _ENDS:
        by = re.escape(who) if entry.who else ""
        what = rf"(?i:{re.escape(entry.tool.replace('_', ' '))}|{re.escape(entry.tool)})"
        # The thread names the call if there was another by then. One that is asked later may come before the post.
        alone = len({one.confirmation for one in entries[: at + 1] if one.confirmation}) == 1
        return re.compile(rf"{_ENDS[kind]} .*{by}.*$" if alone else rf"{_ENDS[kind]} (?=.*{what}).*{by}.*$")
    if kind is LineKind.VOTE_REFUSED:
        same = [one for one in entries[:at] if (one.kind, one.confirmation, one.who) == _try_of(entry)]
        if len(same) + 1 != TRIES:
            return None
    templates = _TEMPLATES.get(kind) if kind is not None else None
    if templates is None:
        return None
    return re.compile("|".join(_pattern(template, entry.tool, who) for template in templates))


def _try_of(entry: Entry) -> tuple[str, str, str]:
    return entry.kind, entry.confirmation, entry.who


def _pattern(template: str, tool: str, who: str) -> str:
    # Reminders say what the call would do: the tool's name in words, and its arguments.
    call = rf"(?i:{re.escape(tool.replace('_', ' '))}|{re.escape(tool)})(?:[: ].*)?"
    known = {"{tool}": call, "{who}": f"@?{re.escape(who)}"}
    parts = re.split(r"(\{\w+\})", template)
    return "".join(known.get(part, ".*") if part.startswith("{") else re.escape(part) for part in parts) + "$"


def _count(line: str, wanted: Sequence[re.Pattern[str]]) -> int:
    return sum(1 for pattern in wanted if pattern.match(line))


def threads_tell_it_once(story: Story) -> Iterator[Finding]:
    """Each decision of the ledger has one line in the thread, in the ledger's order."""
    for session, entries in story.chains.items():
        thread = thread_of(session)
        if thread is None:
            continue
        lines = [
            line
            for message in sorted(story.history.messages, key=lambda one: one.ts)
            if message.kind == "lines" and message.place == thread
            for line in message.text.splitlines()
            if _is_ours(line)
        ]
        wanted = [pattern for at in range(len(entries)) if (pattern := _expected_line(story, entries, at)) is not None]
        doubled = [line for line, times in Counter(lines).items() if times > _count(line, wanted)]
        missing = [found.pattern for found in wanted if not any(found.match(line) for line in lines)]
        if doubled:
            yield Finding("no line stands twice", f"doubled: {doubled}", thread=thread)
        elif missing:
            yield Finding("threads show the end", f"missing: {missing}", thread=thread)
        elif len(lines) != len(wanted) or any(not p.match(line) for p, line in zip(wanted, lines, strict=False)):
            yield Finding("threads show the end", f"in another order: {lines}", thread=thread)


def words_stand_once(story: Story) -> Iterator[Finding]:
    """No message of the agent, no pointer and no line appears twice."""
    known = Counter(
        (message.place, message.kind, message.about) for message in story.history.messages if message.kind != "other"
    )
    for (place, kind, about), times in known.items():
        if times > 1 and kind in ("said", "pointer"):
            yield Finding("no line stands twice", f"{kind} {about}: {times} times", thread=place)
    for one in story.history.messages:
        if one.kind == "other":
            yield Finding("no line stands twice", f"left over: “{one.text}”", thread=one.place)
