"""Who is named: people, groups and approvers. A mention in a message notifies a person, a name does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from pydantic import JsonValue

from adk_confirm.blocks import words
from adk_confirm.blocks.kit import JsonObject, Message, small_print
from adk_confirm.blocks.readable import words_of
from adk_confirm.blocks.rich_text import Group, Say, TextSpan, User, When, code, join_list, line, markup, name, say
from adk_confirm.blocks.shown import Approver, ApproverKind
from adk_confirm.blocks.text import MESSAGE_TEXT, fit, fit_visible, prose

MOST_NAMED = 8
"""How many people or groups a sentence names. Then it counts the others."""

_NAME = 80
_ROOM = 600
_GROUP = re.compile(r"<!subteam\^(S[A-Z0-9]{1,32})>")
_USER = re.compile(r"<@([UW][A-Z0-9]{1,32})>")
_ELEMENTS = {"user": "user_id", "usergroup": "usergroup_id"}


def mentions(message: Message) -> frozenset[str]:
    """The users whom a message mentions."""
    return frozenset((*_USER.findall(message.text), *(user for block in message.blocks for user in _find(block))))


def with_names(message: Message, names: Mapping[str, str]) -> Message:
    """The message with names in place of mentions of these users and groups. All other mentions stay."""
    if not names:
        return message
    blocks = tuple(cast("JsonObject", _replace(block, names)) for block in message.blocks)
    return replace(message, text=_in_markup(message.text, names), blocks=blocks)


def mentions_in_view(view: JsonObject) -> frozenset[str]:
    """The users whom a form or a window mentions."""
    return frozenset(_find(view))


def view_with_names(view: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """The view with names instead of mentions of these users."""
    return cast("JsonObject", _replace(view, names))


def groups(message: Message) -> frozenset[str]:
    """The user groups that a message mentions."""
    return frozenset(_GROUP.findall(message.text))


def with_mention_line(message: Message, who: Sequence[Approver], name: str) -> Message:
    """The message with a last line that mentions these people and groups."""
    said = line(words.NOTIFIED, approvers=approver_names(who))
    text = fit(message.text, MESSAGE_TEXT - _ROOM).text + "\n" + markup(said.spans)
    return replace(message, text=text, blocks=(*message.blocks, *small_print([said], name)))


def approver_names(who: Sequence[Approver], most: int = MOST_NAMED) -> tuple[TextSpan, ...]:
    """`@oncall, @lead or the on call list`; empty when nobody is named."""
    known = [one for one in who if one.kind is not ApproverKind.EMAIL]  # `check` says so of an unknown address
    return join_list([_approver(one) for one in known or who], most, " or ")


def _approver(one: Approver) -> tuple[TextSpan, ...]:
    match one.kind:
        case ApproverKind.GROUP:
            return (Group(one.value),)
        case ApproverKind.USER:
            return (User(one.value),)
        case ApproverKind.EMAIL:
            return (code(one.value),)
        case ApproverKind.PYTHON:
            return say("the {name} list", name=name(words_of(one.value.rpartition(":")[2]).lower()))


def people_names(users: Sequence[str], voted_at: Mapping[str, When] | None = None) -> tuple[TextSpan, ...]:
    """`@ann at 11:29, @ben and 3 more`; "Somebody" when nobody is known."""
    if not users:
        return say(words.SOMEBODY)
    at = voted_at or {}
    named = [(User(user), *((Say(" at "), at[user]) if user in at else ())) for user in users]
    return join_list(named, MOST_NAMED)


def _find(value: JsonValue) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _find(item)
    elif isinstance(value, dict):
        if value.get("type") == "user":
            yield str(value.get("user_id"))
        elif value.get("type") == "mrkdwn":
            yield from _USER.findall(str(value.get("text")))
        else:
            for item in value.values():
                yield from _find(item)


def _replace(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    if isinstance(value, list):
        return [_replace(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    id_ = _ELEMENTS.get(str(value.get("type")))
    if id_ is not None and value.get(id_) in names:
        return {"type": "text", "text": fit_visible(names[str(value[id_])], _NAME).text}
    if value.get("type") == "mrkdwn":
        return {**value, "text": _in_markup(str(value.get("text")), names)}
    return {key: _replace(item, names) for key, item in value.items()}


def _in_markup(text: str, names: Mapping[str, str]) -> str:
    """Replaces mentions in markup. Names are written so that nothing in them is formatting or a link. Whatever looks
    like a mention is one, since brackets in other values are escaped."""

    def named(found: re.Match[str]) -> str:
        return prose(names[found[1]], _NAME) if found[1] in names else found[0]

    return _GROUP.sub(named, _USER.sub(named, text))
