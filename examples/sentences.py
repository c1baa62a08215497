"""Turns plain sentences into calls, for the on-call agent without a model.

>>> [asked.name for asked in understand("reimburse 1500 for the team dinner and deploy checkout 2.4.1")]
['reimburse', 'deploy']
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from adk_confirm import FunctionCall, call
from adk_confirm.runtime.jsontypes import Json

_FEW = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
_COUNT = rf"(?:\d+|{'|'.join(_FEW)})"
_MONEY = r"[€$£]?\s*\d[\d.,]*k?(?:\s*(?:€|\$|£|eur|euros?|usd|dollars?)(?!\w))?"
_AMOUNT = rf"(?P<amount>{_MONEY})"


def _reimburse(found: re.Match[str]) -> list[FunctionCall]:
    return [call("reimburse", purpose=found["purpose"].strip(" ,:"), amount=_number(found["amount"]))]


_RELEASE = re.compile(
    r"(?:version\s+)?\bv?(?P<early>\d[\w.+-]*)\s+of\s+(?P<late>[\w-]+)"
    r"|(?P<service>[a-z][\w-]*)\s+(?:version\s+)?v?(?P<version>\d[\w.+-]*)",
    re.IGNORECASE,
)
_PLACES = {"prod": "prod", "production": "prod", "live": "prod", "stage": "staging", "staging": "staging"}
_KNOWN = rf"\b(?:{'|'.join(_PLACES)})\b"
_TO = r"(?:to|on|in|into)\s+"
_PLACE = re.compile(
    rf"\b{_TO}(?:(?:the|both)\s+)?(?P<first>[a-z]\w*)(?P<more>(?:(?:\s*,|,?\s+(?:and|then))+\s+(?:{_TO})?{_KNOWN})*)",
    re.IGNORECASE,
)


def _deploy(found: re.Match[str]) -> list[FunctionCall]:
    """Each release goes to the places named after it, or else to the places of the next release."""
    text, calls, places = found["releases"], list[FunctionCall](), ["prod"]
    end = len(text)
    for release in reversed([*_RELEASE.finditer(text)]):
        if there := _PLACE.search(text, release.end(), end):
            named = [there["first"], *re.findall(_KNOWN, there["more"], re.IGNORECASE)]
            places = [*dict.fromkeys(_PLACES.get(place.lower(), place.lower()) for place in named)]
        service, version = release["service"] or release["late"], release["version"] or release["early"]
        for env in reversed(places):
            calls.append(call("deploy", service=service, version=version.rstrip("."), env=env))
        end = release.start()
    return calls[::-1]


def _days(found: re.Match[str]) -> list[FunctionCall]:
    count = _FEW.get(found["count"].lower()) or int(found["count"])
    return [call("request_time_off", days=count * (5 if found["unit"].lower().startswith("week") else 1))]


_LINE = re.compile(rf"(?:^|,?\s+(?:and|plus)\s+|,\s*){_AMOUNT}\s+for\s+", re.IGNORECASE)


def _refund(found: re.Match[str]) -> list[FunctionCall]:
    """A line for each amount: “20 for the mug and 5 for the spoon”."""
    _, *parts = _LINE.split(f"{found['amount']} for {found['items']}")
    lines: list[Json] = [
        {"item": item.strip(), "amount": _number(amount)} for amount, item in zip(parts[::2], parts[1::2], strict=True)
    ]
    return [call("refund", customer=found["customer"], lines=lines)]


def _lookup(found: re.Match[str]) -> list[FunctionCall]:
    topic = found["topic"].lower()
    known = {"call": "on-call", "refund": "refunds"}
    return [call("lookup", topic=next((name for part, name in known.items() if part in topic), topic))]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request: its tool, an example, how such a request begins, and its forms."""

    tool: str
    example: str
    begins: str
    forms: tuple[str, ...]
    read: Callable[[re.Match[str]], list[FunctionCall]]


KINDS = (
    Kind(
        "reimburse",
        "reimburse 1500 for the team dinner",
        rf"(?:reimburse|expense|pay(?:\s+me)?\s+back|{_MONEY}\s+reimbursed)",
        (
            rf"\b(?:reimburse|expense|pay(?:\s+me)?\s+back)\s+(?:me\s+|us\s+)?{_AMOUNT}\s+for\s+(?P<purpose>.+)",
            rf"(?<!\w){_AMOUNT}\s+reimbursed\s+for\s+(?P<purpose>.+)",
            rf"\b(?:reimburse|expense)\s+(?:me\s+for\s+)?(?P<purpose>[a-z].*?),?\s+(?:for\s+|of\s+)?{_AMOUNT}$",
        ),
        _reimburse,
    ),
    Kind(
        "deploy",
        "deploy checkout 2.4.1 to prod",
        r"(?:deploy|ship|release|roll\s*out)",
        (r"\b(?:deploy|ship|release|roll\s*out)\s+(?P<releases>\D.*\d.*|v?\d.*\sof\s.*)",),
        _deploy,
    ),
    Kind(
        "request_time_off",
        "I need 3 days off",
        rf"(?:{_COUNT}\s+(?:days?|weeks?)\s+(?:off|of|leave|vacation|holiday))",
        (rf"\b(?P<count>{_COUNT})\s+(?P<unit>days?|weeks?)\s+(?:off|(?:of\s+)?(?:leave|vacation|holidays?))",),
        _days,
    ),
    Kind(
        "refund",
        "refund Ada 20 for the mug",
        r"(?:refund|give\s+[\w-]+\s+(?:back\b|[€$£\d]))",
        (
            rf"\brefund\s+{_AMOUNT}\s+to\s+(?P<customer>[\w-]+)\s+for\s+(?P<items>.+)",
            rf"\b(?:refund|give)\s+(?P<customer>[\w-]+)\s+(?:back\s+)?{_AMOUNT}\s+(?:back\s+)?for\s+(?P<items>.+)",
        ),
        _refund,
    ),
    Kind(
        "lookup",
        "what runs as checkout?",
        r"(?:who(?:'s|\s+is)\s+(?:currently\s+)?on|what\s+(?:runs|was|has\s+been)|(?:what|which)\s+version|look\s+up)\b",
        (
            r"\bwho(?:'s|\s+is)\s+(?:currently\s+)?(?P<topic>on[\s-]call)",
            r"\b(?:what|which)\s+version\s+(?:of|does)\s+(?P<topic>[\w-]+)",
            r"\bwhat\s+(?:was|has\s+been)\s+(?P<topic>refunded)",
            r"\b(?:what\s+runs(?:\s+as|\s+on)?|look\s+up)\s+(?P<topic>[\w-]+)",
        ),
        _lookup,
    ),
)
_POLITELY = r"(?:please|(?:could|can|would)\s+(?:you|i)|i(?:'d|\s+would)?|also|need|want|like|take|have|to)"
_ALSO = r"(?:and|then|also|plus)"
_BREAK = re.compile(
    rf"(?:[,;.!?]+\s+(?:{_ALSO}\s+)*|\s+(?:{_ALSO}\s+)+)"
    rf"(?=(?:{_POLITELY}\s+)*(?:{'|'.join(kind.begins for kind in KINDS)}))",
    re.IGNORECASE,
)


def understand(text: str) -> list[FunctionCall]:
    """The calls that the text asks for, in its order."""
    return [asked for clause in _clauses(text) for asked in _calls(clause)]


def puzzles(text: str) -> list[Kind]:
    """Kinds of request that the text seems to contain in a form that is not understood."""
    wishes = (_meant(clause) for clause in _clauses(text) if not _calls(clause))
    return [*dict.fromkeys(kind for kind in wishes if kind is not None)]


def _clauses(text: str) -> Iterator[str]:
    for clause in _BREAK.split(text.replace("’", "'")):
        yield clause.strip().rstrip("!?., ")


def _calls(clause: str) -> list[FunctionCall]:
    for kind in KINDS:
        for form in kind.forms:
            if found := re.search(form, clause, re.IGNORECASE):
                return kind.read(found)
    return []


def _meant(clause: str) -> Kind | None:
    """Finds the kind by how the text begins, or by a first word that is spelled like an example's."""
    words = re.findall(r"[a-z]{5,}", clause.lower())
    for kind in KINDS:
        alike = difflib.get_close_matches(kind.example.split()[0], words, n=1, cutoff=0.75)
        if alike or re.search(rf"\b{kind.begins}", clause, re.IGNORECASE):
            return kind
    return None


def _number(text: str) -> Json:
    """`1,500`, `1.5k` and `1500 €` are whole, `12.50` is not."""
    digits = "".join(re.findall(r"[\d.,]", text)).rstrip(".,")
    plain = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", digits).replace(",", ".")
    value = float(plain) * (1000 if "k" in text.lower() else 1)
    return int(value) if value == int(value) else value
