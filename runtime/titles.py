"""Titles: one sentence that says what a call will do, as a format string over its arguments.

A field names an argument, or something inside one: `Refund {customer.name}`. Nothing else of Python's format language
is allowed, so that a title needs only the arguments and not the tool.
"""

from __future__ import annotations

import re
import string

_FIELD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
LONGEST = 300
CURRENCIES = {"€": "EUR", "$": "USD", "£": "GBP"}


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


def currencies(template: str | None) -> tuple[tuple[str, str], ...]:
    """The currencies that a title gives for its arguments.

    >>> currencies("Pay {customer} €{amount}")
    (('amount', 'EUR'),)
    """
    try:
        parts = [*string.Formatter().parse(template or "")]
    except ValueError:
        return ()
    return tuple((path, CURRENCIES[before[-1]]) for before, path, _, _ in parts if path and before[-1:] in CURRENCIES)


def as_title(said: str) -> str:
    """The title of a call that a function made: a format string without fields."""
    return said[:LONGEST].replace("{", "{{").replace("}", "}}")


def title_after_edit(title: str | None) -> str | None:
    """The title, if it names arguments: only then does it still fit a call that was edited."""
    try:
        return title if title and title_fields(title) else None
    except ValueError:
        return None
