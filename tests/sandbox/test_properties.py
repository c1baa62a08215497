"""Random input from an app is accepted, or refused with a code. Nothing breaks the local Slack."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.sandbox.blockkit.blocks import BLOCKS, Surface, complaints
from adk_confirm.sandbox.blockkit.elements import ELEMENTS
from adk_confirm.sandbox.blockkit.limits import check_metadata, check_view
from adk_confirm.sandbox.methods.call import Args, Call
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.server.web_api import METHODS
from adk_confirm.sandbox.workspace.directory import Directory
from adk_confirm.sandbox.workspace.records import Channel
from adk_confirm.sandbox.workspace.workspace import Workspace

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted(
    {name for shape in (*BLOCKS.values(), *ELEMENTS.values()) for name in (*shape.required, *shape.optional)}
)
KINDS = [*BLOCKS, *ELEMENTS, "plain_text", "mrkdwn"]
NEARLY = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(
            lambda kind, fields: {"type": kind, **fields},
            st.sampled_from(KINDS),
            st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
        )
    ),
    max_leaves=10,
)


@given(blocks=ANY_JSON | st.lists(NEARLY, max_size=3), surface=st.sampled_from(["message", "modal", "home"]))
def test_any_blocks_are_judged(blocks: Json, surface: Surface) -> None:
    for each in complaints(blocks, surface):
        assert each.startswith("[ERROR] ")


def refusal(judged: Callable[[], object]) -> str:
    """The code with which it was refused, empty when it was taken."""
    try:
        judged()
    except ApiRefusal as refused:
        return refused.code
    return ""


@given(value=ANY_JSON, blocks=st.lists(NEARLY, max_size=3))
def test_any_view_and_metadata_are_judged(value: Json, blocks: list[Json]) -> None:
    for view in (value, {"type": "modal", "title": value, "blocks": blocks}):
        assert refusal(partial(check_view, view, "modal")) in ("", "invalid_arguments", "view_too_large")
    codes = ("", "invalid_metadata_format", "invalid_metadata_schema", "metadata_too_large")
    assert refusal(lambda: check_metadata(value)) in codes


NAMES = [
    "channel", "user", "users", "text", "blocks", "ts", "thread_ts", "view", "trigger_id", "user_id", "metadata",
    "chunks", "files", "limit", "cursor", "oldest", "latest", "file", "email", "name", "types", "length", "filename",
]  # fmt: skip


@pytest.mark.parametrize("method", sorted(METHODS))
@settings(max_examples=settings().max_examples // 4)
@given(values=st.dictionaries(st.sampled_from(NAMES), ANY_JSON | st.just("C1"), max_size=6))
def test_any_arguments_are_answered(method: str, values: JsonObject) -> None:
    workspace = Workspace(our_app())
    directory: Directory = workspace.directory
    team = directory.add_team("Acme", id="T1")
    install = directory.install(team)
    channel = directory.add_channel(team, "deploys", id="C1", members=(install.bot_user_id,))
    assert isinstance(channel, Channel)
    call = Call(workspace, Args(values), install, "http://127.0.0.1", lambda *_: None)
    answers: list[JsonObject] = []
    code = refusal(lambda: answers.append(METHODS[method].run(call)))
    assert code or answers[0]["ok"] is True
