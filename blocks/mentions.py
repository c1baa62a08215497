"""Who is notified by a message. A mention notifies; a name does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from pydantic import JsonValue

from blocks.kit import JsonObject, Message
from blocks.text import prose, seen

_NAME = 80
_MENTION = re.compile(r"<@([UW][A-Z0-9]{1,32})>")


def mentions(message: Message) -> frozenset[str]:
    """The users whom a message mentions."""
    return frozenset((*_MENTION.findall(message.text), *(user for block in message.blocks for user in _found(block))))


def with_names(message: Message, names: Mapping[str, str]) -> Message:
    """The message with names in place of the mentions of these users. Everybody else stays mentioned."""
    if not names:
        return message
    blocks = tuple(cast("JsonObject", _named(block, names)) for block in message.blocks)
    return replace(message, text=_in_markup(message.text, names), blocks=blocks)


def _found(value: JsonValue) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _found(item)
    elif isinstance(value, dict):
        if value.get("type") == "user":
            yield str(value.get("user_id"))
        elif value.get("type") == "mrkdwn":
            yield from _MENTION.findall(str(value.get("text")))
        else:
            for item in value.values():
                yield from _found(item)


def _named(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    if isinstance(value, list):
        return [_named(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "user" and value.get("user_id") in names:
        return {"type": "text", "text": seen(names[str(value["user_id"])], _NAME).text}
    if value.get("type") == "mrkdwn":
        return {**value, "text": _in_markup(str(value.get("text")), names)}
    return {key: _named(item, names) for key, item in value.items()}


def _in_markup(text: str, names: Mapping[str, str]) -> str:
    """In markup a name is spelt so that none of it is formatting or a link. What looks like a mention is one: values
    of others have their brackets escaped."""
    return _MENTION.sub(lambda found: prose(names[found[1]], _NAME) if found[1] in names else found[0], text)
