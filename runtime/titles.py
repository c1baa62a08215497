"""Titles: one sentence that says what a call will do, as a format string over its arguments.

A field names an argument, or something inside one: `Refund {customer.name}`. Nothing else of Python's format language
is allowed, so that a title needs only the arguments and not the tool.
"""

from __future__ import annotations

import re
import string

from runtime.jsontypes import JsonObject

TITLE_KEY = "x-adk-confirm-title"
"""The key of a tool's schema under which its title is announced."""

_FIELD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
LONGEST = 300


def title_fields(template: str) -> tuple[str, ...]:
    """The names that a title mentions; ValueError, with a sentence, for one that can't be drawn.

    >>> title_fields("Deploy {service} {version} to {env}")
    ('service', 'version', 'env')
    """
    if not template.strip():
        raise ValueError('must not be empty; write a sentence such as "Deploy {service} to {env}"')
    if len(template) > LONGEST or "\n" in template:
        raise ValueError(f"must be one line of at most {LONGEST} characters")
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError:
        raise ValueError("has a lone brace; write {name} for an argument, and {{ or }} for a brace") from None
    names = []
    for _, field, spec, conversion in parts:
        if field is None:
            continue
        if spec or conversion or not _FIELD.fullmatch(field):
            raise ValueError(f"can only name arguments, as {{name}} or {{name.inner}}; {{{field}}} is something else")
        names.append(field)
    return tuple(names)


def with_title(schema: JsonObject, title: str | None) -> JsonObject:
    """Adds a title to a schema, as a format string that the bot fills in."""
    return schema if title is None else {**schema, TITLE_KEY: title}


def with_computed_title(schema: JsonObject, said: str) -> JsonObject:
    """Adds a title that a function made for this call. It is not used for edited arguments."""
    return {**schema, TITLE_KEY: {"said": said[:LONGEST]}}


def title_in(schema: JsonObject | None, *, edited: bool) -> str | None:
    """The title that a schema announces, if it fits the call as it is now."""
    title = (schema or {}).get(TITLE_KEY)
    if isinstance(title, str):
        return title
    said = title.get("said") if isinstance(title, dict) and not edited else None
    return said.replace("{", "{{").replace("}", "}}") if isinstance(said, str) else None
