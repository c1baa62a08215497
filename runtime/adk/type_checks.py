"""Compares arguments, edits and answers with a schema, in a limited number of steps. Pure; nothing is fetched."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import chain, product

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, is_deeper, objects, same, texts

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_OPEN = ("additionalProperties", "unevaluatedProperties", "patternProperties")
_DEEPEST, _MOST_STEPS = 64, 100_000
_LONGEST_LIST, _TOLD = 200, 5
_ENDLESS = "The tool's schema or this call is too large to compare them, or the schema's defaults have no end."


def check_edit(amended: JsonObject, schema: JsonObject | None, call: str) -> None:
    """Raises `Invalid`, naming the argument, for an argument that the tool does not have or of another type."""
    if schema is not None and (problem := misfit(schema, amended)):
        raise Invalid(f"The edit of the call {call} does not fit: {problem}. Nothing was stored.")


def check_answer(value: Json, schema: JsonObject | None, request: str) -> None:
    """Raises `Invalid`, naming the field, for an answer of another kind than the question's schema. Without a schema
    the answer is a text."""
    rules = schema or {"type": "string"}
    found = _Comparison(rules, value).misfits("answer", value, rules)
    missing = [name for name in texts(rules.get("required")) if isinstance(value, dict) and name not in value]
    found |= {f"answer.{name}": "is missing" for name in missing}
    for where, why in found.items():
        raise Invalid(f"In the answer to {request}, {where!r} {why}. Nothing was stored.")


def misfit(schema: JsonObject, arguments: JsonObject) -> str:
    """The first of the `misfits` as one text. Empty if nothing is wrong."""
    return "; ".join(f"{where!r} {why}" for where, why in [*misfits(schema, arguments).items()][:_TOLD])


def misfits(schema: JsonObject, arguments: JsonObject) -> dict[str, str]:
    """What is wrong with arguments, by place and at any depth: names that the schema does not declare, and values of
    another type. More names than the declared ones are allowed only where the schema says so, and inside an argument
    also where it declares none."""
    return _Comparison(schema, arguments).misfits("", arguments, schema)


def with_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """The arguments with the defaults that the schema declares for what is left out, at any depth. Alternatives count
    only if exactly one fits."""
    whole = copy.deepcopy(arguments)
    _Comparison(schema, whole).fill(whole, schema)
    return whole


def declared(schema: JsonObject) -> dict[str, bool]:
    """The names that a schema declares, as paths such as `lines.amount`, and whether each may have names inside that it
    does not declare. The arguments as a whole are at the empty path.

    >>> lines = {"type": "array", "items": {"type": "object", "properties": {"amount": {"type": "number"}}}}
    >>> declared({"properties": {"lines": lines, "labels": {"type": "object"}}})
    {'': False, 'lines': False, 'lines.amount': False, 'labels': True}
    """
    found: dict[str, bool] = {}
    _Comparison(schema, None).declare("", schema, found, _DEEPEST)
    return found


class _Comparison:
    """Compares values with a schema in a limited number of steps, since strangers write schemas."""

    def __init__(self, root: JsonObject, value: Json) -> None:
        self._root, self._steps = root, 0
        self._targets: dict[str, Json] = {}
        if is_deeper(value, _DEEPEST):
            raise Invalid(_ENDLESS)

    def misfits(self, where: str, value: Json, rules: Json) -> dict[str, str]:
        """What is wrong: nothing if one alternative fits as a whole, otherwise what is wrong in the nearest one."""
        self._takes(len(where) // 10)
        kinds: list[str] = []
        nearest: dict[str, str] = {}
        for parts in self._alternatives(rules):
            if wrong := _wrong_kinds(value, parts):
                kinds += wrong
            elif found := self._misfits_in(where, value, parts):
                nearest = min(
                    nearest or found, found, key=lambda one: sum(why.startswith("must") for why in one.values())
                )
            else:
                return {}
        return nearest or ({where: f"must be {' or '.join(dict.fromkeys(kinds))[:_LONGEST_LIST]}"} if kinds else {})

    def _misfits_in(self, where: str, value: Json, parts: list[JsonObject]) -> dict[str, str]:
        found: dict[str, str] = {}
        known, closed = _properties(parts), not where or any("properties" in part for part in parts)
        if closed and isinstance(value, dict) and all(part.get(key, False) is False for part in parts for key in _OPEN):
            why = f"is not an argument (there are: {', '.join(known)[:_LONGEST_LIST] or 'none'})"
            found |= {_inside(where, name): why for name in value if name not in known}
        for name, inner, rules in _places(value, parts):
            found |= self.misfits(_inside(where, name), inner, rules)
        return found

    def declare(self, where: str, rules: Json, found: dict[str, bool], levels: int) -> None:
        for parts in self._alternatives(rules):
            items = [one for part in parts for one in (part.get("items"), *objects(part.get("prefixItems"))) if one]
            known, opens = _properties(parts), any(part.get(key, False) is not False for part in parts for key in _OPEN)
            ends = not where or known or items or any(key in part for part in parts for key in ("enum", "const"))
            ends = ends or bool(_wrong_kinds({}, parts) and _wrong_kinds([], parts))
            found[where] = found.get(where, False) or opens or not ends
            if not levels:
                raise Invalid(_ENDLESS)
            for name, inner in [
                *((_inside(where, name), of) for name, of in known.items()),
                *((where, i) for i in items),
            ]:
                self._takes(1 + len(name) // 10)
                self.declare(name, inner, found, levels - 1)

    def fill(self, value: Json, rules: Json, levels: int = _DEEPEST) -> None:
        fitting = [one for one in self._alternatives(rules) if not _wrong_kinds(value, one)]
        fitting = [one for one in fitting if len(fitting) == 1 or not self._misfits_in("it", value, one)]
        if len(fitting) != 1:
            return
        (parts,) = fitting
        required = {name for part in parts for name in texts(part.get("required"))}
        for name, inner in _properties(parts).items() if isinstance(value, dict) else ():
            defaults = [part["default"] for one in self._alternatives(inner) for part in one if "default" in part]
            if isinstance(value, dict) and defaults and name not in {*value, *required}:
                if not levels:
                    raise Invalid(_ENDLESS)
                if all(same(defaults[0], default) for default in defaults):
                    value[name] = copy.deepcopy(defaults[0])
        for _, inside, inner in _places(value, parts):
            self.fill(inside, inner, levels - 1 if levels else 0)

    def _alternatives(self, rules: Json, within: frozenset[int] = frozenset()) -> Iterator[list[JsonObject]]:
        """The ways in which a value may follow rules: for each, the schemas that hold together."""
        if not isinstance(rules, dict) or id(rules) in within:
            yield []
            return
        if len(within) > _DEEPEST:
            raise Invalid(_ENDLESS)
        within |= {id(rules)}
        together = [self._target(as_text(rules.get("$ref"))), *objects(rules.get("allOf"))]
        either = [options for key in ("anyOf", "oneOf") if (options := objects(rules.get(key)))]
        for chosen in product(*([one] for one in together), *either):
            for parts in product(*(self._alternatives(one, within) for one in chosen)):
                found = [rules, *chain.from_iterable(parts)]
                self._takes(10 * len(found))
                self._takes(sum(len(of) for one in found for of in one.values() if isinstance(of, dict | list)))
                yield found

    def _takes(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MOST_STEPS:
            raise Invalid(_ENDLESS)

    def _target(self, reference: str) -> Json:
        """What a reference into the same schema names, or None. Looked up once: a stranger's reference may be long."""
        if reference not in self._targets:
            found: Json = self._root if reference.startswith("#") else None
            for step in reference.split("/")[1:]:
                found = as_object(found).get(step.replace("~1", "/").replace("~0", "~"))
            self._targets[reference] = found
        return self._targets[reference]


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _properties(parts: list[JsonObject]) -> JsonObject:
    """The names that the parts declare. A name that several parts declare must follow each of them."""
    found: dict[str, list[Json]] = {}
    for part in parts:
        for name, rules in as_object(part.get("properties")).items():
            found.setdefault(name, []).append(rules)
    return {name: _all_of(rules) for name, rules in found.items()}


def _places(value: Json, parts: list[JsonObject]) -> Iterator[tuple[str, Json, Json]]:
    """What is inside a value, each with the rules for it."""
    known = _properties(parts)
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield name, inner, known.get(name, _all_of([part.get("additionalProperties") for part in parts]))
    for at, item in enumerate(value if isinstance(value, list) else ()):
        yield str(at), item, _all_of([_item_rules(part, at) for part in parts])


def _item_rules(part: JsonObject, at: int) -> Json:
    first = part.get("prefixItems")
    return first[at] if isinstance(first, list) and at < len(first) else part.get("items")


def _all_of(rules: list[Json]) -> Json:
    return rules[0] if len(rules) == 1 else {"allOf": rules}


def _wrong_kinds(value: Json, parts: list[JsonObject]) -> list[str]:
    """What the value would have to be. Empty if it is that, or if the schemas do not say."""
    if value is None and any(part.get("nullable") is True for part in parts):
        return []
    for part in parts:
        declared, allowed = part.get("type"), texts(part.get("enum")) or texts([part.get("const")])
        named = [declared] if isinstance(declared, str) else texts(declared)
        kinds = [kind.lower() for kind in named if kind.lower() in _KINDS]
        if kinds and not any(_is_kind(value, kind) for kind in kinds):
            return [f"of type {kind}" for kind in kinds]
        if isinstance(value, str) and allowed and value not in allowed:
            return [repr(one[:_LONGEST_LIST]) for one in allowed[:_LONGEST_LIST]]
    return []


def _is_kind(value: Json, kind: str) -> bool:
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    if isinstance(value, float) and kind == "integer":
        return value.is_integer()
    return isinstance(value, _KINDS[kind])
