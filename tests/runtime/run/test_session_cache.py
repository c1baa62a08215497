"""Sessions in memory: only used if nobody changed them since, and limited in number."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runtime.calls.view import View
from runtime.run.session_cache import CachedSession, SessionCache
from runtime.store.records import SessionId, StoredSession
from runtime.wire import Content, Event


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


def warm(session: StoredSession) -> CachedSession:
    return CachedSession(session, {"a": View("a")})


def test_a_session_stays_warm_and_another_of_its_name_is_not_it() -> None:
    kept = SessionCache()
    kept.put(warm(stored(version=3)))
    assert kept.take(stored(version=3)).views
    assert kept.take(stored(version=3)).views == {}, "it is taken, and not put back: its run may have failed"
    for changed in ({"key": 2}, {"created": 2.0}):
        kept.put(warm(stored(version=3)))
        assert kept.take(replace(stored(version=3), **changed)).views == {}


def test_a_view_that_missed_what_others_wrote_is_not_added_to() -> None:
    def said(text: str) -> Event:
        return Event(author="user", content=Content.of_text(text))

    kept = SessionCache()
    live = CachedSession(stored(events=0), {"a": View("a")})
    live.add(said("one"))
    live.stored = stored(events=1)
    kept.put(live)

    live = kept.take(stored(events=2, version=2))  # another process wrote "two"
    live.views["b"] = View("b")
    live.add(said("three"))
    behind = live.views["a"]
    assert (behind.seen, live.events) == (1, 3)
    behind.add(said("two"))
    behind.add(said("three"))
    live.add(said("four"))
    assert [content.text for content in behind.contents] == ["one", "two", "three", "four"]
    assert live.views["b"].contents == []


def test_another_session_is_not_the_same_though_it_looks_like_it() -> None:
    kept = SessionCache()
    kept.put(warm(stored("one")))
    assert kept.take(stored("other")).views == {}


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 30), st.booleans()), max_size=60))
def test_what_is_kept_is_bounded_by_sessions_and_by_events(moves: list[tuple[str, int, bool]]) -> None:
    kept = SessionCache(most_sessions=4, most_events=50)
    last: dict[str, StoredSession] = {}
    for name, events, back in moves:
        live = kept.take(last.get(name, stored(name)))
        live.stored = stored(name, events=events)
        live.views = {"a": View("a")}
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
