"""Whether threads tell the ledger's story: every line once, in its order. Pure.

What a line has to look like comes from the sentences that `blocks` makes it from; who it names from the ledger.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from bench.chaos.history import Entry, Finding
from bench.chaos.story import Story, thread_of
from blocks import words
from blocks.step_views import StepKind

_TEMPLATES = {
    StepKind.ASKED: (words.TOLD_ASKED, words.TOLD_ASKED_IN),
    StepKind.CALL_REFUSED: (words.TOLD_CALL_REFUSED,),
    StepKind.REMINDED: (words.TOLD_REMINDED, words.TOLD_REMINDED_WHO),
    StepKind.APPROVAL: (words.TOLD_APPROVAL,),
    StepKind.EDITED: (words.TOLD_EDITED,),
    StepKind.VOTE_REFUSED: (words.TOLD_VOTE_REFUSED,),
    StepKind.VOTE_FELL: (words.TOLD_VOTE_FELL,),
    StepKind.APPROVED: (words.TOLD_APPROVED,),
    StepKind.DENIED: (words.TOLD_DENIED,),
    StepKind.EXPIRED: (words.TOLD_EXPIRED,),
    StepKind.WITHDRAWN: (words.TOLD_WITHDRAWN,),
    StepKind.LAPSED: (words.TOLD_LAPSED,),
    StepKind.BEGUN: (words.TOLD_BEGUN, words.TOLD_BEGUN_AGAIN),
    StepKind.DONE: (words.TOLD_DONE,),
    StepKind.FAILED: (words.TOLD_FAILED,),
    StepKind.REFUSED: (words.TOLD_REFUSED,),
    StepKind.UNKNOWN: (words.TOLD_UNKNOWN,),
    StepKind.SETTLED: tuple(words.TOLD_SETTLED.values()),
    StepKind.RUN_AGAIN_VOTE: (words.TOLD_RUN_AGAIN_VOTE,),
    StepKind.RUN_AGAIN: (words.TOLD_RUN_AGAIN,),
    StepKind.NOBODY_KNOWS: (words.TOLD_NOBODY_KNOWS,),
}
_FIRST_SIGNS = {template[0] for templates in _TEMPLATES.values() for template in templates}


def _is_ours(line: str) -> bool:
    """A sentence of the bot's own, and not what it quotes below one."""
    return bool(line) and line[0] in _FIRST_SIGNS


def _told(story: Story, entry: Entry) -> re.Pattern[str] | None:
    templates = _TEMPLATES.get(StepKind(entry.kind)) if entry.kind in set(StepKind) else None
    if templates is None:
        return None
    who = f"@{story.history.names.get(entry.who, '')}"
    ways = (_pattern(template, entry.tool, who) for template in templates)
    return re.compile("|".join(ways))


def _pattern(template: str, tool: str, who: str) -> str:
    known = {"{tool}": re.escape(tool), "{who}": re.escape(who)}
    parts = re.split(r"(\{\w+\})", template)
    return "".join(known.get(part, ".*") if part.startswith("{") else re.escape(part) for part in parts) + "$"


def _times(line: str, wanted: Sequence[re.Pattern[str]]) -> int:
    return sum(1 for pattern in wanted if pattern.match(line))


def threads_tell_it_once(story: Story) -> Iterator[Finding]:
    """Each line of the ledger stands in its thread once, in its order."""
    for session, entries in story.chains.items():
        thread = thread_of(session)
        if thread is None:
            continue
        told = [
            line
            for message in sorted(story.history.messages, key=lambda one: one.ts)
            if message.kind == "lines" and message.place == thread
            for line in message.text.splitlines()
            if _is_ours(line)
        ]
        wanted = [pattern for entry in entries if (pattern := _told(story, entry)) is not None]
        doubled = [line for line, times in Counter(told).items() if times > _times(line, wanted)]
        missing = [found.pattern for found in wanted if not any(found.match(line) for line in told)]
        if doubled:
            yield Finding("no line stands twice", f"doubled: {doubled}", thread=thread)
        elif missing:
            yield Finding("threads show the end", f"missing: {missing}", thread=thread)
        elif len(told) != len(wanted) or any(not p.match(line) for p, line in zip(wanted, told, strict=False)):
            yield Finding("threads show the end", f"in another order: {told}", thread=thread)


def words_stand_once(story: Story) -> Iterator[Finding]:
    """No message of the agent's, no pointer and no line stands twice."""
    known = Counter(
        (message.place, message.kind, message.about) for message in story.history.messages if message.kind != "other"
    )
    for (place, kind, about), times in known.items():
        if times > 1 and kind in ("said", "pointer"):
            yield Finding("no line stands twice", f"{kind} {about}: {times} times", thread=place)
    for one in story.history.messages:
        if one.kind == "other":
            yield Finding("no line stands twice", f"left over: “{one.text}”", thread=one.place)
