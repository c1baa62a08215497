"""Which fields may be edited. Everything else stays exactly as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adk_confirm.blocks.shown import PAYLOAD
from adk_confirm.bot.confirmation.authorise import Reason
from adk_confirm.bot.confirmation.confirmation import Confirmation, Edit, VoteKind
from adk_confirm.bot.confirmation.edits import apply_edit, check_edit, editable_names
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.policy.policies import Policies, Policy
from adk_confirm.runtime.jsontypes import Json, JsonObject
from tests.support.deciding import ANNA, Desk, make_asked, make_policy

ARGUMENTS: JsonObject = {"version": "2.4.1", "replicas": 3, "auth": {"token": "s3cr3t-1"}, "note": None}


def row(policy: Policy, arguments: JsonObject = ARGUMENTS, **asked: object) -> Confirmation:
    return Desk(policy, asked=replace(make_asked(arguments=arguments), **asked)).row  # type: ignore[arg-type]  # Asked's


def refused(held: Confirmation, edit: Edit) -> tuple[Reason, tuple[str, ...]] | None:
    refusal = check_edit(held, edit, Policies.of(held.policy))
    return None if refusal is None else (refusal.reason, refusal.fields)


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({}, ("version", "replicas", "auth", "note")),
        ({"edit": False}, ()),
        ({"edit": ["version", "nothing"]}, ("version",)),
        ({"redact": ["token"]}, ("version", "replicas", "note")),
    ],
)
def test_all_may_be_edited_or_none_or_those_named_and_nothing_that_holds_what_is_hidden(
    keys: dict[str, object], names: tuple[str, ...]
) -> None:
    assert editable_names(row(make_policy(**keys))) == names


SCHEMA: JsonObject = {"type": "object", "properties": {"version": {}, "dry_run": {"type": "boolean"}}}
PAYLOAD_SCHEMA: JsonObject = {"properties": {"approved_days": {"type": "integer"}}}
TEMPLATE: JsonObject = {"approved_days": 0, "pin": {"token": "s3cr3t-1"}}


def test_what_only_a_schema_or_a_form_names_may_be_filled_in() -> None:
    assert editable_names(row(make_policy(), {"version": "1"}, tool_schema=SCHEMA)) == ("version", "dry_run")
    assert editable_names(form(TEMPLATE)) == ("approved_days",), "whatever `edit` says"


def form(template: Json, **more: object) -> Confirmation:
    policy = make_policy(edit=False, redact=["token"])
    return row(policy, ARGUMENTS, wants_payload=True, payload=template, **more)


def fails(*names: str) -> tuple[Reason, tuple[str, ...]]:
    return Reason.NOT_EDITABLE, names


HELD = row(make_policy())
HIDING, LOCKING = row(make_policy(redact=["token"])), row(make_policy(edit=["version"]))
KNOWN = row(make_policy(), {"version": "1"}, tool_schema=SCHEMA)
FORM, NO_FIELDS, OF_A_SCHEMA = form(TEMPLATE), form({}), form({}, payload_schema=PAYLOAD_SCHEMA)

EDITS: list[tuple[str, Confirmation, Edit, tuple[Reason, tuple[str, ...]] | None]] = [
    ("what holds something hidden", HIDING, Edit({"auth": {}}), fails("auth")),
    ("a name that would be hidden", HIDING, Edit({"token": "mine"}), fails("token")),
    ("an argument that the schema knows", KNOWN, Edit({"dry_run": True}), None),
    ("one that it does not know", KNOWN, Edit({"drop_tables": True}), fails("drop_tables")),
    ("locked ones are named", LOCKING, Edit({"version": "3", "replicas": 9, "extra": 1}), fails("replicas", "extra")),
    ("a locked one sent back as it was", LOCKING, Edit({"version": "3", "replicas": 3}), None),
    ("a number stays a number", HELD, Edit({"replicas": "3"}), (Reason.WRONG_KIND, ("replicas",))),
    ("and is no yes", HELD, Edit({"replicas": True}), (Reason.WRONG_KIND, ("replicas",))),
    ("a text stays a text", HELD, Edit({"version": 3}), (Reason.WRONG_KIND, ("version",))),
    ("an object stays an object", HELD, Edit({"auth": []}), (Reason.WRONG_KIND, ("auth",))),
    ("null may become anything, 3 may become 3.5", HELD, Edit({"note": "hi", "replicas": 3.5}), None),
    ("arguments are not a payload", HELD, Edit(payload=3), fails(PAYLOAD)),
    ("nor is one of that name", row(make_policy(), {PAYLOAD: 1}), Edit(payload=3), fails(PAYLOAD)),
    ("a form that is filled in", FORM, Edit(payload={**TEMPLATE, "approved_days": 3}), None),
    ("without what is hidden", FORM, Edit(payload={"approved_days": 3}), fails("pin")),
    ("with something else in its place", FORM, Edit(payload={**TEMPLATE, "pin": 1}), fails("pin")),
    ("with something unknown", FORM, Edit(payload={**TEMPLATE, "x": 1}), fails("x")),
    ("a payload is no arguments", FORM, Edit({"version": "3"}), fails("version")),
    ("even of the same name", form({"version": "2.4.1"}), Edit({"version": "3"}), fails("version")),
    ("a payload that is a text", form("text"), Edit(payload="other"), None),
    ("without fields", NO_FIELDS, Edit(payload={"anything": 1}), None),
    ("without fields, hidden all the same", NO_FIELDS, Edit(payload={"token": 1}), fails("token")),
    ("a list that holds something hidden", form([{"token": "x"}]), Edit(payload=[]), fails(PAYLOAD)),
    ("a field of the schema", OF_A_SCHEMA, Edit(payload={"approved_days": 3}), None),
    ("one that it does not have", OF_A_SCHEMA, Edit(payload={"more": 3}), fails("more")),
    ("a payload that is an object stays one", form({"days": 1}), Edit(payload=[1]), fails(PAYLOAD)),
]


@pytest.mark.parametrize(("held", "edit", "why"), [case[1:] for case in EDITS], ids=[case[0] for case in EDITS])
def test_an_edit_counts_or_its_fields_are_named(
    held: Confirmation, edit: Edit, why: tuple[Reason, tuple[str, ...]] | None
) -> None:
    assert refused(held, edit) == why


def test_true_is_not_1() -> None:
    held = row(make_policy(), {"dry_run": True})
    assert [change.new for change in apply_edit(held, Edit({"dry_run": 1})).changes] == [1]


def test_no_title_of_the_call_before_an_edit_stands_over_what_python_calls_equal() -> None:
    desk = Desk(make_policy(quorum=2), make_asked(arguments={"rows": 1}, title="Delete 1 row"))
    assert shown_of(desk.row).title == "Delete 1 row"
    desk.vote(VoteKind.APPROVE, ANNA, edit=Edit({"rows": 1.0}))
    assert (shown_of(desk.row).title, desk.row.revision.number) == (None, 2)
