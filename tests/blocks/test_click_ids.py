"""The ids and values that go through Slack: they are read strictly, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.blocks.click_ids import Ref, block_id, checked_id, parse_id, parse_mark, parse_ref
from tests.blocks import strategies

refs = st.builds(Ref, strategies.ids, st.integers(1, 999_999_999))


@given(refs)
def test_a_reference_comes_back_as_it_went(ref: Ref) -> None:
    assert parse_ref(ref.encode()) == ref
    assert len(ref.encode()) <= 75  # it has to fit into an option's value


NOT_REFS = ["", "c1", "c1.", ".1", "c1.0", "c1.-1", "c1.01", "c1.1\n", " c1.1", "c1.1.1", "c 1.1", "ċ.1", "c1.١"]
NOT_REFS += ["c1.1e3", "x" * 65 + ".1", "c1.1234567890"]


@pytest.mark.parametrize("value", [*NOT_REFS, None, 7, ["c1.1"], {"id": "c1"}])
def test_anything_else_is_no_reference(value: object) -> None:
    assert parse_ref(value) is None


@given(st.text())
def test_what_is_read_as_a_reference_was_written_as_one(text: str) -> None:
    ref = parse_ref(text)
    assert ref is None or ref.encode() == text


@pytest.mark.parametrize("ref", [Ref("", 1), Ref("a.b", 1), Ref("a", 0), Ref("a b", 1), Ref("x" * 65, 1)])
def test_a_reference_that_could_not_be_read_is_not_written(ref: Ref) -> None:
    with pytest.raises(ValueError, match="is not a reference"):
        ref.encode()


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "x",
        {},
        {"event_type": "adk_confirmation_card"},
        {"event_type": "adk_confirmation_card", "event_payload": {"confirmation": "a b", "revision": 1, "version": 1}},
        {"event_type": "adk_confirmation_card", "event_payload": {"confirmation": "a", "revision": "1", "version": 1}},
        {"event_type": "other", "event_payload": {"confirmation": "a", "revision": 1, "version": 1}},
    ],
)
def test_other_metadata_is_no_mark(metadata: object) -> None:
    assert parse_mark(metadata) is None


def test_ids_are_read_strictly() -> None:
    assert parse_id("g41") == "g41"
    assert parse_id("g 41") is None
    assert parse_id(41) is None
    with pytest.raises(ValueError, match="is not an id"):
        checked_id("g 41")


def test_a_block_id_is_new_with_every_version_and_fits() -> None:
    longest = Ref("x" * 64, 999_999_999)
    assert block_id("title", longest, 1) != block_id("title", longest, 2)
    assert len(block_id("outcome.buttons", longest, 10**18)) <= 255
