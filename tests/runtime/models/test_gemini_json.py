"""The JSON of a history: the same as if it were written anew, although each message is written once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.models.gemini_json import HistoryJson
from runtime.wire import Content, FunctionCall, Part


class Counted(Content):
    """Knows how often it was written."""

    _written: int = 0

    def to_dict(self) -> dict[str, Any]:
        self._written += 1
        return super().to_dict()


def message(number: int) -> Counted:
    if number % 7 == 0:
        return Counted(role="user", parts=[])
    if number % 3 == 0:
        called = FunctionCall(id=f"adk-{number}", name="pay", args={"n": number})
        return Counted(role="model", parts=[Part(function_call=called)])
    return Counted(role="user", parts=[Part(text=f"“ü” {number}")])


@given(
    st.lists(st.tuples(st.sampled_from(["add", "move to the end", "replace", "drop"]), st.integers(0, 30)), max_size=30)
)
def test_kept_json_follows_every_change_of_the_history(changes: list[tuple[str, int]]) -> None:
    kept, contents = HistoryJson(vertex=False), [message(number) for number in range(1, 4)]
    for number, (what, place) in enumerate(changes, 4):
        if what == "add" or not contents:
            contents.append(message(number))
        elif what == "move to the end":
            contents.append(contents.pop(place % len(contents)))
        elif what == "replace":
            contents[place % len(contents)] = message(number)
        else:
            del contents[place % len(contents)]
        assert kept.of(contents) == HistoryJson(vertex=False).of(contents)
    shown = json.loads(b"[" + kept.of(contents) + b"]")
    assert [content["parts"] for content in shown] == [
        json.loads(content.to_json().replace(f'"id":"adk-{n}",', ""))["parts"]
        for content in contents
        if content.parts
        for n in [next((call.arguments["n"] for call in content.calls()), "")]
    ]


def test_each_message_is_written_once() -> None:
    kept, contents = HistoryJson(vertex=False), list[Counted]()
    for number in range(1, 200):
        contents.append(message(number))
        kept.of(contents)
    assert {content._written for content in contents if content.parts} == {1}
