"""Prepares an agent's markdown for Slack: splits it to Slack's limits, and makes mentions and labelled links plain."""

from __future__ import annotations

import re

from adk_confirm.blocks.kit import JsonObject, Message
from adk_confirm.blocks.text import MESSAGE_TEXT, escape, fit, pieces, units

LONGEST = 11_000
"""The longest part. Slack allows 12,000 characters for all markdown in a message."""

_FENCE = re.compile(r" {0,3}(`{3,40}|~{3,40})(?![`~])(.{0,80})")
_PING = re.compile(r"<(?=[@#!](?:[A-Z0-9]|channel|here|everyone|subteam|date)|[A-Za-z][A-Za-z0-9+.-]*:[^\s<>|]*\|)")
_LABELLED = re.compile(r"\](?=[(\[:])")  # a link, a reference, or what a reference means, wherever that stands


def parts(markdown: str, size: int = LONGEST) -> tuple[str, ...]:
    """Splits the text into parts of at most `size`, between lines. A code block that continues is closed and opened
    again, so that each part looks as in the whole."""
    done: list[str] = []
    part: list[str] = []
    spent, fence = 0, ""
    for line in _lines(markdown, size // 2):
        closing = _closing(fence)
        if part and spent + units(line) + 1 + units(closing) > size:
            done.append("\n".join([*part, closing] if fence else part))
            part, spent = ([fence], units(fence) + 1) if fence else ([], 0)
        part.append(line)
        spent += units(line) + 1
        fence = _fence_after(line, fence)
    done.append("\n".join(part))
    return tuple(text for text in done if text.strip())


def inert(markdown: str) -> str:
    """Makes a model's text harmless: mentions are plain text, so that it notifies nobody, and a link shows where it
    leads beside its label, so that nobody takes it for a button of ours.

    There are no exceptions for code, since Slack may see code elsewhere than we do. A text that is cut after a space
    gives the beginning of the whole result.

    >>> inert("[Approve](https://evil.example) <https://evil.example|Approve> <@U0BOB>")
    '[Approve] (https://evil.example) ‹https://evil.example|Approve> ‹@U0BOB>'
    """
    return _LABELLED.sub("] ", _PING.sub("‹", markdown))


def message(part: str, metadata: JsonObject) -> Message:
    """One part as a message: a markdown block, and its text for clients without blocks."""
    shown = inert(part)
    return Message(fit(escape(shown), MESSAGE_TEXT).text, ({"type": "markdown", "text": shown},), metadata)


def _lines(markdown: str, longest: int) -> list[str]:
    return [piece for line in markdown.split("\n") for piece in (pieces(line, longest) or [""])]


def _fence_after(line: str, fence: str) -> str:
    """The line that opened the code block in which the next line is. Empty outside of code blocks."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found.group() if not (found[1][0] == "`" and "`" in line[found.end(1) :]) else ""
    opened = _FENCE.match(fence)
    assert opened is not None
    closes = found[1][0] == opened[1][0] and len(found[1]) >= len(opened[1]) and not found[2].strip()
    return "" if closes else fence


def _closing(fence: str) -> str:
    found = _FENCE.match(fence) if fence else None
    return found[1] if found else ""
