"""The fast `replace` does the same as `dataclasses.replace`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest

from runtime.replacing import replace


@dataclass(frozen=True, kw_only=True)
class Plain:
    name: str
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Checked:
    age: int

    def __post_init__(self) -> None:
        if self.age < 0:
            raise ValueError("an age is not negative")


@dataclass(frozen=True)
class Counted:
    words: str

    @cached_property
    def count(self) -> int:
        return len(self.words.split())


@dataclass(frozen=True, slots=True)
class Slim:
    size: int


@pytest.mark.parametrize(
    ("item", "changes"),
    [
        (Plain(name="a", tags=["x"]), {"name": "b"}),
        (Plain(name="a"), {}),
        (Checked(3), {"age": 4}),
        (Slim(1), {"size": 2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_copy_is_the_same_and_the_original_stays(item: Any, changes: dict[str, Any]) -> None:
    before = dataclasses.asdict(item)
    copied = replace(item, **changes)
    assert (copied, type(copied)) == (dataclasses.replace(item, **changes), type(item))
    assert dataclasses.asdict(item) == before


def test_what_a_class_does_when_it_is_made_is_done_for_the_copy_too() -> None:
    with pytest.raises(ValueError, match="not negative"):
        replace(Checked(3), age=-1)
    one = Counted("a b c")
    assert (one.count, replace(one, words="a").count) == (3, 1)


def test_an_unknown_name_is_refused() -> None:
    changes: dict[str, Any] = {"nmae": "b"}
    with pytest.raises(TypeError, match="nmae"):
        replace(Plain(name="a"), **changes)
