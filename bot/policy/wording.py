"""How a policy shows a call and its values: `title` and `format`. Pure."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from runtime.titles import title_fields

_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_CURRENCY = re.compile(r"[A-Z]{3}")
FORMATS = ("bytes", "seconds", "milliseconds", "minutes", "hours", "time", "link", "plain")

Formats = tuple[tuple[str, str], ...]


def _title(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f'must be a text such as "Deploy {{service}} to {{env}}", not {value!r}')
    title_fields(value)
    return value


def _format(value: object) -> Formats:
    """
    >>> _format({"amount": "EUR", "lines.size": "bytes"})
    (('amount', 'EUR'), ('lines.size', 'bytes'))
    """
    if not isinstance(value, dict):
        raise ValueError(f'must be a table such as {{ amount = "EUR", size = "bytes" }}, not {value!r}')
    for name, kind in value.items():
        if not isinstance(name, str) or not _PATH.fullmatch(name):
            raise ValueError(f'names arguments, such as amount or "lines.amount", not {name!r}')
        if not isinstance(kind, str) or not (kind in FORMATS or _CURRENCY.fullmatch(kind)):
            known = ", ".join(FORMATS)
            raise ValueError(f'{name} must be a currency such as "EUR", or one of {known}, not {kind!r}')
    return tuple(value.items())


Title = Annotated[str, PlainValidator(_title)]
Format = Annotated[Formats, PlainValidator(_format), PlainSerializer(dict, return_type=dict[str, str])]
