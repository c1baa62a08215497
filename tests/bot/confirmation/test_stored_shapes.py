"""What is stored has the fields that its version says: a new key without a new version would be unreadable for replicas
of the release before, and nothing else would notice."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from bot.confirmation.effects import Delivery, Step
from bot.confirmation.grants import Grant
from bot.confirmation.model import Confirmation
from bot.confirmation.stored_json import CONTENT_VERSION, VERSION
from bot.policy.model import Policy
from runtime.store.records import CALL, CALL_FORMAT

GOLDEN = Path(__file__).with_name("stored_shapes.json")

STORED: dict[str, tuple[TypeAdapter[Any], int]] = {
    "confirmation": (TypeAdapter(Confirmation), VERSION),
    "policy": (TypeAdapter(Policy), Policy.VERSION),
    "grant": (TypeAdapter(Grant), Grant.VERSION),
    "delivery": (TypeAdapter(Delivery), CONTENT_VERSION),
    "step": (TypeAdapter(Step), CONTENT_VERSION),
    "call": (CALL, CALL_FORMAT),
}


def shape(adapter: TypeAdapter[Any]) -> list[str]:
    """Each field by the type that has it, each value that an enumeration knows."""
    schema = adapter.json_schema(mode="serialization")
    named = {"": schema, **schema.get("$defs", {})}
    fields = [f"{name}.{field}" for name, one in named.items() for field in one.get("properties", {})]
    values = [f"{name}={value}" for name, one in named.items() for value in one.get("enum", [])]
    inline = [
        f"{name}.{field}={value}"
        for name, one in named.items()
        for field, what in one.get("properties", {}).items()
        for value in _inline(what)
    ]
    return sorted(fields + values + inline)


def _inline(schema: dict[str, Any]) -> list[str]:
    """The values of an enumeration that has no name of its own."""
    own = [*schema.get("enum", []), *([schema["const"]] if "const" in schema else [])]
    return [str(value) for value in own] + [one for each in schema.get("anyOf", []) for one in _inline(each)]


@pytest.mark.parametrize("what", STORED)
def test_its_fields_belong_to_its_version(what: str) -> None:
    adapter, version = STORED[what]
    known: dict[str, list[str]] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    key = f"{what} {version}"
    if os.environ.get("UPDATE_GOLDEN"):
        known[key] = shape(adapter)
        GOLDEN.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    assert shape(adapter) == known.get(key), (
        f"The stored {what} has other fields than version {version} had. If that version was released, raise it and "
        "add a reader for it. Then run `make golden`."
    )
