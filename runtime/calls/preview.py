"""A call's preview: what its tool says about its effect, and how that differs from an earlier preview. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import unified_diff

from adk_confirm.runtime.jsontypes import Json, JsonObject, same

_MOST_COMPARED = 1000  # lines: the search for the smallest difference takes time by their third power


@dataclass(frozen=True)
class Preview:
    """What the call would do, or why its tool could not say."""

    shows: Json = None
    failed: str | None = None

    def as_json(self) -> JsonObject:
        return {"shows": self.shows} if self.failed is None else {"failed": self.failed}

    @classmethod
    def of(cls, announced: JsonObject | None) -> Preview | None:
        if not announced:
            return None
        failed = announced.get("failed")
        return cls(announced.get("shows"), None if failed is None else str(failed))

    def same(self, other: Preview | None) -> bool:
        """Two previews that failed are the same, whatever their errors say."""
        if other is None or (self.failed is None) != (other.failed is None):
            return False
        return self.failed is not None or same(self.shows, other.shows)

    @property
    def text(self) -> str:
        """A text as it is, anything else as JSON with a line for each value."""
        if self.failed is not None:
            return self.failed
        shows = self.shows
        return shows.rstrip("\n") if isinstance(shows, str) else json.dumps(shows, indent=2, ensure_ascii=False)

    def changes_from(self, before: Preview) -> list[str]:
        """The lines that are gone, and those that are new.

        >>> Preview("a\\nB\\nc").changes_from(Preview("a\\nb\\nc"))
        ['-b', '+B']
        """
        gone, new = before.text.split("\n"), self.text.split("\n")
        for _ in range(2):  # from the end, then from the beginning
            gone.reverse()
            new.reverse()
            alike = next(
                (at for at, (one, other) in enumerate(zip(gone, new, strict=False)) if one != other),
                min(len(gone), len(new)),
            )
            del gone[:alike], new[:alike]
        if max(len(gone), len(new)) > _MOST_COMPARED:
            return [*(f"-{line}" for line in gone), *(f"+{line}" for line in new)]
        return [line for line in [*unified_diff(gone, new, n=0)][2:] if not line.startswith("@@")]
