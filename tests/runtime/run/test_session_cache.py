"""Sessions in memory: only used if nobody changed them since, and limited in number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.runtime.calls.model_history import ModelHistory
from adk_confirm.runtime.run.journal import SessionCache
from adk_confirm.runtime.store.stored_session import StoredSession
from adk_confirm.runtime.wire import SessionId


def stored(name: str = "s", *, key: int = 1, version: int = 1, events: int = 1, created: float = 1.0) -> StoredSession:
    return StoredSession(
        key=key,
        name=SessionId("app", "ann", name),
        opened_by="anyone",
        state={},
        shared={},
        agent="a",
        events=events,
        turn=0,
        version=version,
        created=created,
        updated=created,
    )


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 30), st.booleans()), max_size=60))
def test_what_is_kept_is_bounded_by_sessions_and_by_events(moves: list[tuple[str, int, bool]]) -> None:
    kept = SessionCache(most_sessions=4, most_events=50)
    last: dict[str, StoredSession] = {}
    for name, events, back in moves:
        live = kept.take(last.get(name, stored(name)))
        live.stored = stored(name, events=events)
        live.views = {"a": ModelHistory("a")}
        if back:
            last[name] = live.stored
            kept.put(live)
        found = [name for name, session in last.items() if _is_kept(kept, session)]
        assert len(found) <= 4
        assert len(found) <= 1 or sum(last[name].events for name in found) <= 50
        if back:
            assert name in found


def _is_kept(kept: SessionCache, session: StoredSession) -> bool:
    live = kept.take(session)
    if live.views:
        kept.put(live)
    return bool(live.views)
