"""Which fields may be edited. Everything else stays exactly as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.bot.confirmation.authorise import Reason
from adk_confirm.bot.confirmation.edits import amendments, apply_edit, check_edit, editable_names
from adk_confirm.bot.confirmation.model import Confirmation, Edit
from adk_confirm.bot.policy.model import Policies, Policy
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from tests.support.deciding import Desk, make_asked, make_policy

ARGUMENTS: JsonObject = {"version": "2.4.1", "replicas": 3, "auth": {"token": "s3cr3t-1"}, "note": None}


def row(policy: Policy, arguments: JsonObject = ARGUMENTS, **asked: object) -> Confirmation:
    return Desk(policy, asked=replace(make_asked(arguments=arguments), **asked)).row  # type: ignore[arg-type]  # Asked's


def refused(held: Confirmation, edit: Edit) -> tuple[Reason, tuple[str, ...]] | None:
    refusal = check_edit(held, edit, Policies.of(held.policy))
    return None if refusal is None else (refusal.reason, refusal.fields)


class TestWhatMayBeEdited:
    def test_all_by_default_none_or_names(self) -> None:
        assert editable_names(row(make_policy())) == ("version", "replicas", "auth", "note")
        assert editable_names(row(make_policy(edit=False))) == ()
        assert editable_names(row(make_policy(edit=["version", "nothing"]))) == ("version",)

    def test_never_what_is_redacted_nor_what_holds_it(self) -> None:
        held = row(make_policy(redact=["token"]))
        assert editable_names(held) == ("version", "replicas", "note")
        assert refused(held, Edit({"auth": {}})) == (Reason.NOT_EDITABLE, ("auth",))
        assert refused(held, Edit({"token": "mine"})) == (Reason.NOT_EDITABLE, ("token",))

    def test_an_argument_that_only_the_schema_knows_may_be_added(self) -> None:
        schema: JsonObject = {"type": "object", "properties": {"version": {}, "dry_run": {"type": "boolean"}}}
        held = row(make_policy(), {"version": "1"}, tool_schema=schema)
        assert editable_names(held) == ("version", "dry_run")
        assert refused(held, Edit({"dry_run": True})) is None
        assert refused(held, Edit({"drop_tables": True})) == (Reason.NOT_EDITABLE, ("drop_tables",))

    def test_locked_names_are_named_free_ones_are_not(self) -> None:
        held = row(make_policy(edit=["version"]))
        assert refused(held, Edit({"version": "3", "replicas": 9, "extra": 1})) == (
            Reason.NOT_EDITABLE,
            ("replicas", "extra"),
        )

    def test_a_locked_field_sent_back_as_it_was_is_no_edit(self) -> None:
        assert refused(row(make_policy(edit=["version"])), Edit({"version": "3", "replicas": 3})) is None

    @pytest.mark.parametrize(("name", "value"), [("replicas", "3"), ("replicas", True), ("version", 3), ("auth", [])])
    def test_a_number_stays_a_number(self, name: str, value: str | int | list[object]) -> None:
        held = row(make_policy())
        assert refused(held, Edit({name: value})) == (Reason.WRONG_KIND, (name,))  # type: ignore[dict-item]  # JSON

    def test_null_may_become_anything_and_3_may_become_3_5(self) -> None:
        assert refused(row(make_policy()), Edit({"note": "hi", "replicas": 3.5})) is None


TEMPLATE: JsonObject = {"approved_days": 0, "pin": {"token": "s3cr3t-1"}}


class TestPayloads:
    def held(self, template: object = None, **more: object) -> Confirmation:
        payload = TEMPLATE if template is None else template
        return row(make_policy(edit=False, redact=["token"]), ARGUMENTS, wants_payload=True, payload=payload, **more)

    def test_a_form_is_there_to_be_filled_in_whatever_edit_says(self) -> None:
        assert editable_names(self.held()) == ("approved_days",)
        assert refused(self.held(), Edit(payload={**TEMPLATE, "approved_days": 3})) is None

    def test_but_not_with_what_is_hidden_or_unknown(self) -> None:
        payloads: list[JsonObject] = [{"approved_days": 3}, {**TEMPLATE, "pin": 1}]
        for payload in payloads:
            assert refused(self.held(), Edit(payload=payload)) == (Reason.NOT_EDITABLE, ("pin",))
        assert refused(self.held(), Edit(payload={**TEMPLATE, "x": 1})) == (Reason.NOT_EDITABLE, ("x",))

    def test_a_payload_without_fields(self) -> None:
        assert refused(self.held("text"), Edit(payload="other")) is None
        assert refused(self.held({}), Edit(payload={"anything": 1})) is None
        assert refused(self.held({}), Edit(payload={"token": 1})) == (Reason.NOT_EDITABLE, ("token",))
        assert refused(self.held([{"token": "x"}]), Edit(payload=[])) == (Reason.NOT_EDITABLE, ("payload",))

    def test_fields_of_the_schema(self) -> None:
        schema: JsonObject = {"properties": {"approved_days": {"type": "integer"}}}
        held = self.held({}, payload_schema=schema)
        assert refused(held, Edit(payload={"approved_days": 3})) is None
        assert refused(held, Edit(payload={"more": 3})) == (Reason.NOT_EDITABLE, ("more",))

    def test_a_payload_goes_where_one_is_wanted_arguments_where_not(self) -> None:
        assert refused(self.held(), Edit({"version": "3"})) == (Reason.NOT_EDITABLE, ("version",))
        assert refused(row(make_policy()), Edit(payload=3)) == (Reason.NOT_EDITABLE, ("payload",))
        namesake = self.held({"version": "2.4.1"})
        assert refused(namesake, Edit({"version": "3"})) == (Reason.NOT_EDITABLE, ("version",))
        assert refused(row(make_policy(), {"payload": 1}), Edit(payload=3)) == (Reason.NOT_EDITABLE, ("payload",))

    def test_an_object_stays_an_object(self) -> None:
        assert refused(self.held({"days": 1}), Edit(payload=[1])) == (Reason.NOT_EDITABLE, ("payload",))


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.lists(st.integers()),
)
objects = st.dictionaries(st.sampled_from("abcdef"), values)


@given(arguments=objects, changes=objects)
def test_only_changed_fields_are_replaced(arguments: JsonObject, changes: JsonObject) -> None:
    held = row(make_policy(), arguments)
    after = apply_edit(held, Edit(changes))
    for name in {*arguments, *changes}:
        wanted = changes.get(name, arguments.get(name))
        assert canonical(after.arguments[name]) == canonical(wanted)
        if name not in {change.name for change in after.changes}:
            assert after.arguments[name] is arguments[name], "the others keep their exact value"
    assert {change.name for change in after.changes} == {
        name
        for name, value in changes.items()
        if name not in arguments or canonical(arguments[name]) != canonical(value)
    }


@given(arguments=objects, changes=objects)
def test_the_answer_carries_just_what_differs(arguments: JsonObject, changes: JsonObject) -> None:
    held = row(make_policy(), arguments)
    after = apply_edit(held, Edit(changes))
    revised = replace(held, revisions=(*held.revisions, replace(held.revision, number=2, arguments=after.arguments)))
    amended = amendments(revised) or {}
    assert canonical({**arguments, **amended}) == canonical(after.arguments)
    assert set(amended) == {change.name for change in after.changes}


def test_true_is_not_1() -> None:
    held = row(make_policy(), {"dry_run": True})
    assert [change.after for change in apply_edit(held, Edit({"dry_run": 1})).changes] == [1]
