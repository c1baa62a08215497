"""A proof, payload by payload, that nothing supplied can act: it reads a payload as Slack would, and knows which
people, groups, channels and links are ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from adk_confirm.blocks.text import visible
from adk_confirm.sandbox.reading import as_text, objects
from tests.blocks.limits import Payload, parts, strings

_CODE = re.compile(r"`[^`\n]+`")
_TOKEN = re.compile(r"<([^<>]*)>")
_OURS = re.compile(
    r"@[UW][A-Z0-9]+|!subteam\^S[A-Z0-9]+|#[CGD][A-Z0-9]+|!date\^\d+\^[^|]+\|[^|<>]+|https://[^|]+\|[^|<>]+"
)
_ENTITY = re.compile(r"&(?!amp;|lt;|gt;)")
_EMOJI = re.compile(r":[a-z0-9_+'-]+:")
_FORMAT = re.compile(r"(?<!\w)([*_~])[^\s*_~][^*_~]*\1(?!\w)")
_OUR_BOLD = re.compile(
    r"(?:^|(?<=[:?] ))\*([^*\n]+)\*|\*((?:Needs|Nobody|First|It may|[0-9]+ of)[^*\n]*)\*", re.MULTILINE
)
"""In a section: a headline, which ends a line, and what is counted. No supplied star is one."""
_DATE = re.compile(r"<!date\^[^<>]*>")
_URL = re.compile(r"\w+://|www\.|\w@\w")


def check(payload: Payload, ours: set[str]) -> None:
    """`ours`: the ids and links that may come alive."""
    for sent in strings(payload):  # as people read it: no letters of an entity or of a date's form stand beside a word
        text = _DATE.sub(" ", sent).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        assert visible(text, keep="\n\t") == text, f"something unseen in {text!r}"
    for text in _markup(payload):
        _check_markup(text, ours)
    for block in objects(payload.get("blocks")):
        if block["type"] == "rich_text":
            _check_rich(block["elements"], ours)
    for one in (one for one in parts(payload) if one.get("type") == "plain_text"):
        text = as_text(one["text"])
        assert "\n" not in text
        assert not re.search("[<>]", text)
        assert one.get("emoji") is False or not _EMOJI.search(text)


def _check_markup(text: str, ours: set[str]) -> None:
    bare = _CODE.sub("", text)
    assert "`" not in bare, f"an open code span in {text!r}"
    for span in _CODE.findall(text):
        assert not re.search("[<>]", span)
        assert not _ENTITY.search(span)
    for token in _TOKEN.findall(bare):
        assert _OURS.fullmatch(token), token
        assert token.startswith("!date") or any(one in token for one in ours), f"{token} is not ours"
    rest = _TOKEN.sub("", bare)
    assert not re.search("[<>]", rest)
    for pattern in (_ENTITY, _EMOJI, _FORMAT, _URL):
        assert not pattern.search(rest), f"{pattern.pattern} in {rest!r}"


def _check_rich(value: JsonValue, ours: set[str]) -> None:
    for part in objects(value):
        match part["type"]:
            case "rich_text_section" | "rich_text_quote" | "rich_text_preformatted" | "rich_text_list":
                _check_rich(part["elements"], ours)
            case "text":
                assert set(part) <= {"type", "text", "style"}
            case "user" | "usergroup" | "channel" | "link":
                named = [part.get(key) for key in ("user_id", "usergroup_id", "channel_id", "url")]
                assert any(one in ours for one in named), f"{part} is not ours"
            case "date":
                assert "url" not in part
            case other:
                raise AssertionError(f"a {other} element")


def _markup(payload: Payload) -> Iterator[str]:
    if isinstance(text := payload.get("text"), str):
        yield text
    for block in objects(payload.get("blocks")):
        if block["type"] in ("context", "section"):
            for part in objects(block.get("elements") or [block["text"]]):
                assert part["type"] == "mrkdwn"
                assert isinstance(part["text"], str)
                yield _OUR_BOLD.sub(r"\1\2", part["text"]) if block["type"] == "section" else part["text"]


def shown(payload: Payload) -> str:
    """What a reader of the blocks sees, as one text."""
    parts: list[str] = []

    def walk(value: JsonValue | Payload) -> None:
        if isinstance(value, Mapping):
            named = (value.get(key) for key in ("text", "user_id", "usergroup_id", "fallback"))
            parts.extend(found for found in named if isinstance(found, str))
            for key, inner in value.items():
                if key != "confirm":
                    walk(inner)
            if value.get("type") in ("rich_text_section", "header", "context", "mrkdwn", "rich_text_preformatted"):
                parts.append("\n")
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk({"blocks": payload.get("blocks")})
    return "".join(parts)
