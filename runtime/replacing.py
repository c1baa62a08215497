"""`replace`, a faster `dataclasses.replace` for plain dataclasses. A vote replaces about thirty of them."""

from __future__ import annotations

import dataclasses
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

__all__ = ["replace"]

if TYPE_CHECKING:
    from dataclasses import replace  # so that the names and types of the changes are checked
else:

    def replace(item: Any, /, **changes: Any) -> Any:
        fields = _plain_fields(item.__class__)
        if fields is None or not fields.issuperset(changes):
            return dataclasses.replace(item, **changes)
        copied = object.__new__(item.__class__)
        copied.__dict__.update(item.__dict__, **changes)
        return copied


@cache
def _plain_fields(kind: type) -> frozenset[str] | None:
    """The names of the fields, or None if creating an object does more than setting them."""
    own = [value for one in kind.__mro__ for value in vars(one).values()]
    plain = (
        dataclasses.is_dataclass(kind)
        and not hasattr(kind, "__post_init__")
        and not hasattr(kind, "__slots__")
        and not any(isinstance(value, cached_property) for value in own)
        and all(field.init for field in dataclasses.fields(kind))
    )
    return frozenset(field.name for field in dataclasses.fields(kind)) if plain else None
