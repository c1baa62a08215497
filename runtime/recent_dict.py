"""A dictionary that keeps only the latest entries, for what a process remembers."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentDict(dict[K, V]):
    """Keeps the `most` entries that were set last.

    >>> names = RecentDict[str, int](2)
    >>> for name in ("anna", "ben", "anna", "cleo"):
    ...     names[name] = len(name)
    >>> list(names)
    ['anna', 'cleo']
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._most:
            del self[next(iter(self))]
