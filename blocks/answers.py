"""Words for what somebody filled in, as part of a sentence: `2 of 3 days`, or `amount €1,200, note “fine”`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blocks import words
from blocks.readable import readable_name, scalar
from blocks.rich import Prose, Say, Supplied, TextSpan, join, name, spoken
from blocks.text import fit_visible
from blocks.view import Argument

_FIELDS = 3
_LONG = 80


@dataclass(frozen=True, slots=True)
class AnswerText:
    """An answer in words. `complete`: it says by itself what was approved."""

    spans: tuple[TextSpan, ...]
    complete: bool


def describe_answer(answer: Sequence[Argument], call: Sequence[Argument]) -> AnswerText | None:
    """Describes what was filled in. None if every field was left empty.

    The answer is complete if it is one number that belongs to an argument of the call by name: `approved_days` belongs
    to `days`. Empty fields are left out.
    """
    given = [one for one in answer if one.masked or one.value is not None]
    if len(given) == 1 and (whole := _original_of(given[0], call)) is not None:
        return AnswerText(_part_of(given[0], whole), complete=True)
    parts = [(name(readable_name(field.name), _LONG), Say(" "), _value(field)) for field in given[:_FIELDS]]
    more = [Say(words.more(len(given) - _FIELDS))] if len(given) > _FIELDS else []
    return AnswerText(join([*parts, *more]), complete=False) if parts else None


def _original_of(field: Argument, call: Sequence[Argument]) -> Argument | None:
    ends = (one for one in call if field.name.endswith(f"_{one.name}") and _is_number(one))
    return max(ends, key=lambda one: len(one.name), default=None) if _is_number(field) else None


def _is_number(one: Argument) -> bool:
    return not one.masked and isinstance(one.value, int | float) and not isinstance(one.value, bool)


def _part_of(field: Argument, whole: Argument) -> tuple[TextSpan, ...]:
    formats = field.formats or whole.formats
    called = readable_name(whole.name)
    unit = () if formats else (Say(" "), Prose(called) if whole.name.isidentifier() else name(called, _LONG))
    return (_value(field, whole), Say(words.OF), _value(whole, field), *unit)


def _value(one: Argument, like: Argument | None = None) -> TextSpan:
    if one.masked:
        return Say(words.HIDDEN_VALUE)
    formats = one.formats or (like.formats if like else ())
    span = scalar(one.value, dict(formats).get(""), one.name)
    fitted = fit_visible(spoken(span), _LONG)
    return span if fitted.whole else Supplied(fitted.text)
