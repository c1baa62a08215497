"""Writes a sentence in two forms: as rich text, in which nothing is markup, and as plain text for clients without
blocks.

A sentence is a list of spans. The kind of a span decides how it is drawn. A `Supplied` span always becomes a text
element, so that it can't contain a mention, a link, an emoji or formatting; people and places have elements of their
own. Both forms are made from the same spans, so they always say the same.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import assert_never

from pydantic import JsonValue

from adk_confirm.blocks.text import escape, fit_visible, inert, prose, units, visible

JsonObject = dict[str, JsonValue]


def part(kind: str, **fields: JsonValue) -> JsonObject:
    """A part of a message or a view as Slack wants it, without the fields that are None."""
    return {"type": kind, **{name: value for name, value in fields.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Say:
    """Our own words."""

    text: str
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Supplied:
    """A name or a value from somebody else, on one line. A value is drawn as code, a name in bold."""

    text: str
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Prose:
    """A sentence that somebody else wrote, and that may quote others."""

    text: str
    bold: bool = False


def name(text: str, limit: int = 60) -> Supplied:
    """A supplied name in a sentence: a tool, a field, an agent."""
    return Supplied(fit_visible(text, limit).text, bold=True)


def linked(headline: str, card: str | None) -> Prose | Link:
    """What a call does, as a link to the call's card if that is in another place."""
    return Link(card, prose(headline, _SENTENCE).replace("|", "¦"), bold=True) if card else Prose(headline, bold=True)


def call_name(headline: str, tool: str, card: str | None = None) -> Prose | Supplied | Link:
    """What a call does, as its name in a sentence. Without a headline: the tool."""
    called = headline.removesuffix("?") or fit_visible(tool, 60).text
    return linked(called, card) if headline or card else name(tool)


def code(text: str, limit: int = 60) -> Supplied:
    """Somebody else's value, as code."""
    return Supplied(fit_visible(text, limit).text)


@dataclass(frozen=True)
class Mention:
    """Somebody or somewhere in Slack, by id."""

    id: str


class User(Mention):
    """A person."""


class Group(Mention):
    """A user group."""


class Channel(Mention):
    """A channel."""


@dataclass(frozen=True, slots=True)
class When:
    """A time, shown in the reader's own time zone. `lead`: our words right before it, in the same format.

    `seconds`: show the second too. `fraction`: the digits after it, which Slack's dates can't show. `clock`: no day,
    since a date beside it says that."""

    at: int
    lead: str = ""
    seconds: bool = False
    fraction: str = ""
    clock: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    label: str
    bold: bool = False


TextSpan = Say | Supplied | Prose | User | Group | Channel | When | Link


@dataclass(frozen=True, slots=True)
class Line:
    spans: tuple[TextSpan, ...]
    item: int = 0
    """1: of a list; 2: of a list below an item of that."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Text that somebody else wrote. The bar next to it shows that these are not our words. `by`: whose they are."""

    text: str
    by: tuple[TextSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Box:
    """Somebody else's text as code, line by line."""

    text: str


Piece = Line | Quote | Box


def say(template: str, **spans: TextSpan | tuple[TextSpan, ...] | str) -> tuple[TextSpan, ...]:
    """One of our templates, with spans for its fields. A plain string counts as our own words."""
    row: list[TextSpan] = []
    for words, field, _, _ in string.Formatter().parse(template):
        if words:
            row.append(Say(words))
        if field is not None:
            value = spans[field]
            if isinstance(value, str):
                row += [Say(value)] if value else []
            elif isinstance(value, tuple):
                row.extend(value)
            else:
                row.append(value)
    return tuple(row)


def line(template: str, **spans: TextSpan | tuple[TextSpan, ...] | str) -> Line:
    return Line(say(template, **spans))


def join(
    parts: Sequence[TextSpan | Sequence[TextSpan]], between: str = ", ", last: str | None = None
) -> tuple[TextSpan, ...]:
    """The parts with words between them. `last`: the words before the last part, if these differ."""
    row: list[TextSpan] = []
    for index, part in enumerate(parts):
        if index:
            row.append(Say(last if last is not None and index == len(parts) - 1 else between))
        row += part if isinstance(part, Sequence) else (part,)
    return tuple(row)


def join_list(
    parts: Sequence[TextSpan | Sequence[TextSpan]], most: int | None = None, last: str = " and "
) -> tuple[TextSpan, ...]:
    """`a, b and c`; of more than `most`, `a, b and 3 more`."""
    more = [Say(f"{len(parts[most:])} more")] if most and parts[most:] else []
    return join([*parts[:most], *more], last=last)


def quoted(said: str) -> tuple[TextSpan, ...]:
    """The end of a sentence: what a person said, if anything, in quotation marks."""
    end = "" if said.endswith((".", "?", "!", "…")) else "."
    return (Say(": “"), Prose(f"{said}{end}"), Say("”")) if said else (Say("."),)


# -- as rich text

_MENTIONS: Mapping[type[Mention], tuple[str, str, str]] = {  # the element, the markup, what an id begins with
    User: ("user", "<@{}>", "UW"),
    Group: ("usergroup", "<!subteam^{}>", "S"),
    Channel: ("channel", "<#{}>", "CGD"),
}
_URL = re.compile(r"https://[^\s<>|\"]{1,2000}")
_SENTENCE = 1000
_DAY = "{date_short_pretty}"


_LAST_WORD = re.compile(r"[^\s{}<>|^&]+ \Z")


def _with_date_leads(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """The spans, with the word before a date moved into the date's format: Slack writes "Today" where it begins
    the format, and "today" elsewhere."""
    row: list[TextSpan] = []
    for span in spans:
        match row[-1:], span:
            case [Say(said) as before], When(lead="") if word := _LAST_WORD.search(said):
                row[-1:] = [replace(before, text=said[: word.start()])] if word.start() else []
                row.append(replace(span, lead=word[0]))
            case _:
                row.append(span)
    return row


def _well_formed(span: TextSpan) -> TextSpan:
    """The span, or its bare text if its id or link is malformed, since another version may have written the row."""
    match span:
        case Mention(id) if not re.fullmatch(f"[{_MENTIONS[type(span)][2]}][A-Z0-9]{{1,32}}", id):
            return code(id)
        case Link(url, label) if not _URL.fullmatch(url):
            return Say(label)
        case When(at, lead) if not 0 <= at <= 9_999_999_999:
            return Say(f"{lead}second {at}")
    return span


def _text(text: str, style: str | None = None) -> JsonObject:
    return part("text", text=text, style={style: True} if style else None)


def _element(span: TextSpan) -> JsonObject:
    match _well_formed(span):
        case Say(text, bold):
            return _text(text, "bold" if bold else None)
        case Supplied(text, bold):
            return _text(visible(text) or "(empty)", "bold" if bold else "code")
        case Prose(text, bold):
            return _text(fit_visible(text, _SENTENCE).text or "(empty)", "bold" if bold else None)
        case Mention(id) as who:
            kind = _MENTIONS[type(who)][0]
            return part(kind, **{f"{kind}_id": id})
        case When(at) as when:
            return part("date", timestamp=at, format=_date_format(when), fallback=_date_fallback(when))
        case Link(url, label, bold):
            return part("link", url=url, text=label, style={"bold": True} if bold else None)
        case other:
            assert_never(other)


def rich(pieces: Iterable[Piece], block_id: str) -> JsonObject:
    """Draws the pieces as one block. Neighbouring lines share a section, with newlines between them, because not every
    client breaks between sections."""
    drawn: list[JsonValue] = []
    for (kind, item), group in groupby(pieces, key=lambda piece: (type(piece), getattr(piece, "item", 0))):
        if kind is not Line:
            drawn += [_set_apart(piece) for piece in group if not isinstance(piece, Line)]
            continue
        rows = [[*map(_element, _with_date_leads(piece.spans))] for piece in group if isinstance(piece, Line)]
        if item:
            items: list[JsonValue] = [part("rich_text_section", elements=[*row]) for row in rows]
            drawn.append(part("rich_text_list", style="bullet", elements=items, indent=item - 1 or None))
        else:
            run = [one for row in rows for one in (_text("\n"), *row)][1:]
            drawn.append(part("rich_text_section", elements=[*run]))
    return part("rich_text", block_id=block_id, elements=drawn)


def _set_apart(piece: Quote | Box) -> JsonObject:
    kind = "rich_text_quote" if isinstance(piece, Quote) else "rich_text_preformatted"
    by = (Say(" — "), *piece.by) if isinstance(piece, Quote) and piece.by else ()
    said = _text(visible(piece.text, keep="\n\t") or "(empty)")
    return part(kind, elements=[said, *map(_element, by)])


# -- as markup, for the text beside the blocks and for small print


def _in_utc(when: When) -> str:
    digits = f".{when.fraction}" if when.fraction else ""
    clock = f"%H:%M:%S{digits}" if when.seconds else "%H:%M"
    return datetime.fromtimestamp(when.at, UTC).strftime(f"%Y-%m-%d {clock} UTC")


def _date_format(when: When) -> str:
    digits = f" + 0.{when.fraction} s" if when.fraction else ""
    time = "{time_secs}" if when.seconds else "{time}"
    both = f"{time} {_DAY}" if when.lead.endswith("until ") else f"{_DAY} at {time}"
    return when.lead + (time if when.clock else both) + digits


def _date_fallback(when: When) -> str:
    return when.lead + _in_utc(when)


def markup(spans: Iterable[TextSpan], longest: int | None = None, *, bold: bool = False) -> str:
    """The spans in Slack's markup; `longest` shortens each supplied one. `bold`: with stars around what is bold."""
    row: list[str] = []
    for span in _with_date_leads(spans):
        said = _span_markup(_well_formed(span), longest)
        starred = bold and isinstance(span, Say | Prose | Link) and span.bold and said.strip()
        row.append(said.replace(said.strip(), f"*{said.strip()}*", 1) if starred else said)
    return "".join(row)


def spoken(
    span: TextSpan, name_of: Callable[[str], str] = "@{}".format, time_of: Callable[[When], str] = _in_utc
) -> str:
    """A span as plain text, about as long as a reader sees it."""
    match span:
        case Say(text) | Supplied(text) | Prose(text) | Link(_, text):
            return text
        case When():
            return time_of(span)
    return name_of(span.id)


def _span_markup(span: TextSpan, longest: int | None) -> str:
    match span:
        case Say(text):
            return escape(text)
        case Supplied(text, bold=True) if _WORDS.fullmatch(text):
            return text
        case Supplied(text):
            return inert(text, longest)
        case Prose(text):
            return escape(prose(text, longest or _SENTENCE))
        case Mention(id):
            return _MENTIONS[type(span)][1].format(id)
        case When(at) as when:
            return f"<!date^{at}^{_date_format(when)}|{_date_fallback(when)}>"
        case Link(url, label):
            return f"<{escape(url)}|{escape(label)}>"
        case other:
            assert_never(other)


_WORDS = re.compile(r"[a-z0-9]+(?: [a-z0-9]+){1,3}", re.ASCII)
"""A name of several words, as `readable_name` writes an identifier. It is not drawn as code, as values are."""


def _text_of(piece: Piece, longest: int | None) -> str:
    match piece:
        case Line(spans, item):
            return "  " * (item - 1) + "• " * bool(item) + markup(spans, longest)
        case Quote(text, by) if by:
            return f"{inert(text, longest)} — {markup(by, longest)}"
        case Quote(text) | Box(text):
            return inert(text, longest)
        case other:
            assert_never(other)


_STEPS = (None, 1000, 400, 160, 80, 40)
_LEFT_OUT = "…"


def marked(lines: Sequence[Line], limit: int) -> str:
    """Lines in markup within the limit, with what is bold: the longest supplied texts are shortened first."""
    drawn = ("\n".join(markup(line.spans, longest, bold=True) for line in lines) for longest in _STEPS)
    return next((whole for whole in drawn if units(whole) <= limit), None) or text([], lines, [], limit)


def text(head: Sequence[Piece], body: Sequence[Piece], tail: Sequence[Piece], limit: int) -> str:
    """Everything as plain text within the limit. If it is too long, the longest supplied texts are shortened first.
    Only then are lines of the body dropped, but never those of the head and the tail."""
    for longest in _STEPS:
        whole = "\n".join(_text_of(piece, longest) for piece in (*head, *body, *tail))
        if units(whole) <= limit:
            return whole
    first, last = ([_text_of(piece, _STEPS[-1]) for piece in part] for part in (head, tail))
    middle = [_text_of(piece, _STEPS[-1]) for piece in body]
    while middle and units("\n".join([*first, *middle, _LEFT_OUT, *last])) > limit:
        middle.pop()
    return "\n".join([*first, *middle, _LEFT_OUT, *last])
