"""Values as people read them, and the headline that is made from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic import JsonValue

from adk_confirm.blocks.call_details import headline
from adk_confirm.blocks.readable import Readable, readable, readable_name, words_of
from adk_confirm.blocks.rich_text import Line, When, markup, rich, spoken
from adk_confirm.blocks.shown import Argument
from tests.blocks import samples


def read(value: JsonValue, name: str = "value", **formats: str) -> str:
    found = readable(value, name, {key if key != "own" else "": kind for key, kind in formats.items()}, 130, 3)
    lines = [
        "".join(map(spoken, found.beside)),
        *("• " * row.item + "".join(map(spoken, row.spans)) for row in found.below),
    ]
    return "\n".join(lines) + ("" if found.whole else " (cut)")


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (1500, None, "1,500"),
        (1500, "plain", "1500"),
        (-1234567.25, None, "-1,234,567.25"),
        (0.30000000000000004, None, "0.30000000000000004"),
        (1e300, None, "1e+300"),
        (True, None, "yes"),
        (None, None, "none"),
        ("1500", None, '"1500"'),
        ("1,500", None, '"1,500"'),
        ("yes", None, '"yes"'),
        ("empty", None, '"empty"'),
        ("empty list", None, '"empty list"'),
        ([], None, "empty list"),
        ({}, None, "empty"),
        (1500, "EUR", "€1,500.00"),
        (1500, "JPY", "JPY 1,500"),
        (1500.5, "EUR", "€1,500.50"),
        (-1500.123, "USD", "-$1,500.123"),
        ("1500.00", "CHF", "CHF 1,500.00"),
        ("soon", "CHF", "soon"),
        (1536000, "bytes", "1.5 MB (1,536,000 bytes)"),
        (1, "bytes", "1 byte"),
        (5400, "seconds", "1 h 30 min"),
        (1500, "milliseconds", "1.5 s"),
        ("1700000000.50000000000000000000001", "seconds", '"1700000000.50000000000000000000001"'),
        (90, "minutes", "1 h 30 min"),
        (1795262400, "time", "2026-11-21 12:00 UTC"),
        (1795262439, "time", "2026-11-21 12:00:39 UTC"),
        ("2026-11-21", None, "Sat, 21 Nov 2026"),
        ("2026-11-21T12:00:00Z", None, "2026-11-21 12:00 UTC"),
        ("2026-11-21T12:00:01Z", None, "2026-11-21 12:00:01 UTC"),
        ("2026-11-21T13:00:01+01:00", None, "2026-11-21 12:00:01 UTC"),
        ("2026-11-21T12:00:00.000000+00:00", None, "2026-11-21 12:00 UTC"),
        ("2026-11-21T12:00:01.1234567890Z", None, "2026-11-21 12:00:01.123456789 UTC"),
        ("2026-11-21 12:00", None, "Sat, 21 Nov 2026 at 12:00 (no time zone)"),
        ("2026-11-21T12:00:01", None, "Sat, 21 Nov 2026 at 12:00:01 (no time zone)"),
        ("2026-11-21T12:00:00.5", None, "Sat, 21 Nov 2026 at 12:00:00.5 (no time zone)"),
        ("2026-11-21T25:00:00Z", None, "2026-11-21T25:00:00Z"),
        ("20261121 120001", None, "20261121 120001"),
        ("1066-10-14T09:00:00Z", None, "1066-10-14T09:00:00Z"),
        ("2026-13-45", None, "2026-13-45"),
        ("https://ci.example/run/7", "link", "ci.example/run/7"),
        ("https://ci.example@evil.example/", "link", "https://ci.example@evil.example/"),
        ("javascript:alert(1)", "link", "javascript:alert(1)"),
        (["ada@x.example", "bob@x.example"], None, "ada@x.example, bob@x.example"),
        ({"retry": 3, "wait": [1, 2, 4], "dry_run": False}, None, "retry 3 · wait 1, 2, 4 · dry run no"),
        ([[1, 2], [3]], None, "[[1, 2], [3]]"),
    ],
)
def test_a_value_reads_as_people_write_it(value: JsonValue, kind: str | None, shown: str) -> None:
    assert (read(value, own=kind) if kind else read(value)) == shown


def test_a_year_and_an_id_are_not_grouped() -> None:
    assert read(2026, "year") == "2026"
    assert read(4103221, "order_id") == "4103221"
    assert read(4103221, "customerId") == read(4103221, "customerID") == read(4103221, "HTTPPort") == "4103221"
    assert read(4103221, "orders") == "4,103,221"


def test_many_are_counted_and_the_first_are_shown() -> None:
    people: list[JsonValue] = [f"person{n}@example.com" for n in range(60)]
    text = read(people, "recipients")
    assert text == "60: person0@example.com, person1@example.com and 58 more (cut)"


def test_objects_are_lines_with_a_count_and_formats_reach_into_them() -> None:
    lines: list[JsonValue] = [{"item": "Train", "amount": 120.5}, {"item": "Hotel", "amount": 1300}]
    euros = "• item Train · amount €120.50\n• item Hotel · amount €1,300.00"
    assert read(lines, "lines", amount="EUR") == f"2 items, €1,420.50 in total\n{euros}"
    assert read(lines * 4, "lines") == (
        "8 items\n• item Train · amount 120.5\n• item Hotel · amount 1,300\n… and 6 more (cut)"
    )


def test_a_long_list_in_an_object_is_counted() -> None:
    mail: dict[str, JsonValue] = {"subject": "Outage", "recipients": [f"a{n}@acme.test" for n in range(60)]}
    assert read(mail, "mail") == "\n• subject Outage\n• 60 recipients: a0@acme.test and 59 more (cut)"
    both = read({**mail, "to": mail["recipients"]}, "mail")
    assert both.endswith("\n• to 60: a0@acme.test and 59 more (cut)")
    assert readable({**mail, "body": "two\nlines"}, "mail", {}, 400, 6).box


def test_what_moves_its_neighbours_or_has_lines_is_in_a_box() -> None:
    values: tuple[JsonValue, ...] = ("a\nb", "ערך 15", {"a": {"b": {"c": "x" * 100}}})
    for value in values:
        found = readable(value, "value", {}, 130, 3)
        assert isinstance(found, Readable)
        assert found.box


def test_a_time_shows_its_seconds_in_the_reader_s_zone() -> None:
    exact, short = (
        cast("Any", rich([Line(readable(f"2026-11-21T12:00:{second}Z", "at", {}, 130, 3).beside)], "b"))
        for second in ("07.25", "00")
    )
    date = exact["elements"][0]["elements"][0]
    assert date["timestamp"] == 1795262407
    assert date["format"] == "{date_short_pretty} at {time_secs} + 0.25 s"
    assert date["fallback"] == "2026-11-21 12:00:07.25 UTC"
    assert short["elements"][0]["elements"][0]["format"] == "{date_short_pretty} at {time}"
    assert markup([When(1795262407, seconds=True)]) == (
        "<!date^1795262407^{date_short_pretty} at {time_secs}|2026-11-21 12:00:07 UTC>"
    )


# -- the headline


def title(template: str | None, *arguments: Argument) -> str:
    return headline(replace(samples.WAITING, title=template, arguments=arguments))


def test_a_title_is_filled_from_the_arguments() -> None:
    lines = Argument("lines", [{"amount": 1}] * 60)
    amount = Argument("amount", 1500, formats=(("", "EUR"),))
    customer = Argument("customer", {"name": "Ada"})
    assert (
        title("Refund {customer.name} {amount} for {lines}", customer, amount, lines)
        == "Refund Ada €1,500.00 for 60 lines"
    )
    assert title("Set {{x}} to {amount}", amount) == "Set {x} to €1,500.00"
    assert title("Pay €{amount}", amount) == "Pay €1,500.00"
    assert title("Pay €{amount}", Argument("amount", -5, formats=(("", "EUR"),))) == "Pay -€5.00"
    assert title("Pay €{amount}", Argument("amount", "all")) == "Pay €all"
    assert title("Build {it}", Argument("it", "il paral·lel")) == "Build il paral·lel"


@pytest.mark.parametrize(
    "argument",
    [
        Argument("service", None),
        Argument("service", "x" * 61),
        Argument("service", "a\u202eb"),
        Argument("service", "שלום"),
        Argument("service", "checkout · approved by @chris"),
        Argument("service", ["checkout", "search \u22c5 ran in 0.8 s"]),
        Argument("service", "checkout", masked=True),
        Argument("service", {"name": "checkout"}),
        Argument("other", "checkout"),
    ],
)
def test_what_has_no_place_in_a_title_leads_to_the_tools_name(argument: Argument) -> None:
    assert title("Deploy {service}", argument).startswith("Deploy")
    assert "Deploy {" not in title("Deploy {service}", argument)
    assert title("Restart {service} now", argument).startswith("Deploy"), "the tool is called deploy"


def test_without_a_title_it_is_the_tools_name_in_words_and_the_first_arguments() -> None:
    assert title(None, Argument("days", 12)) == "Deploy: 12 days"
    assert title("broken {", Argument("days", 12)) == "Deploy: 12 days"
    assert title("x" * 101) == "Deploy"
    assert words_of("request_time_off") == "Request time off"
    assert words_of("requestTimeOff") == "Request time off"
    assert words_of("run_SQL") == "Run SQL"
    assert words_of("pay!") == "pay!"


def test_no_two_names_read_the_same() -> None:
    """A model that may choose names could show `dry run` for what the tool reads as `dry_run`, and ignores."""
    names = [
        "dry_run",
        "dry run",
        "_dry_run",
        "dry_run_",
        "dry__run",
        '"dry run"',
        " dry run",
        "dry-run",
        "dry\u00a0run",
    ]
    seen = {name: readable_name(name) for name in names}
    assert seen["dry_run"] == "dry run"
    assert len({*seen.values()}) == len(names)
