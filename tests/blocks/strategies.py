"""Views as an attacker, a broken agent or a long-winded one would fill them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from pydantic import JsonValue

from adk_confirm.blocks.ledger_kinds import Reason
from adk_confirm.blocks.shown import ABSENT, Argument, FieldDiff, GrantOffer, GrantView, Paused
from adk_confirm.blocks.shown_lines import LINES, ShownLine
from adk_confirm.bot.confirmation.confirmation import OutcomeKind, State
from adk_confirm.bot.policy.approvers import Approver, ApproverKind
from tests.blocks.samples import shown

FRAGMENTS = [
    "<!channel>", "<!here|x>", "<@U0EVIL>", "<#C0EVIL>", "<!subteam^S0EVIL>", "<https://evil.example|ok>", "&amp;",
    "&lt;",
    "@here", "@channel", "#general", "https://evil.example/x", "www.evil.example", "a@evil.example", ":tada:", ":+1:",
    "*b*", "_i_", "~s~", "`c`", "```", "> q", "\n", "\r\n", "\t", "\x00", "\x1b[31m", "\u202e", "\u2066", "\u2069",
    "\u200b", "\u00ad", "\ufeff", "\u2028", "\ud800", "\udfff", "\U000e0041", "\ue000", "e\u0301", "\u0301" * 12,
    "👩‍👩‍👧‍👦", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🇮🇹🇫🇷", "👍🏽", "❤️", "1️⃣", "שלום", "عربي 12", "नमस्ते", "각", "\u1112\u1161\u11ab",
    "amount", "1500", "true", "null", "\"", "\\", "\\u202e", "{", "}", "[", " ", "  ", "", "a", "Approved by", "…",
    "{tool}", "{0}", "%s",
]  # fmt: skip


def mixed(order: bytes, characters: str) -> str:
    """Fragments between characters. To Hypothesis it is two choices, not three for each piece: of views with a thousand
    texts it gave up most, because they were too large."""
    rest = iter(characters)
    pieces = (FRAGMENTS[number // 2] if number < 2 * len(FRAGMENTS) else next(rest, "") for number in order)
    return "".join([*pieces, *rest])


texts = st.builds(mixed, st.binary(max_size=10), st.text(max_size=16))
long_texts = st.builds(lambda text, times: text * times, texts.filter(bool), st.sampled_from([30, 300]))
nasty = st.one_of(texts, texts, texts, long_texts)

scalars: st.SearchStrategy[JsonValue] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(10**18, 10**400), st.floats(), nasty
)
values: st.SearchStrategy[JsonValue] = st.deferred(
    lambda: st.one_of(scalars, *2 * [st.lists(values, max_size=5), st.dictionaries(texts, values, max_size=5)])
)

USERS = ["U0DANA", "U0LEAD", "U0OPS", "W0BIG"]
GROUPS = ["S0ONCALL", "S0LEADS"]
LINKS = ["https://example.slack.com/archives/C0TALK/p1", "https://example.slack.com/files/F1"]
CHANNELS = ["C0DEPLOYS"]
OURS = {*USERS, *GROUPS, *LINKS, *CHANNELS}

moments = st.integers(0, 9_999_999_999)
users = st.sampled_from(USERS) | texts  # a row may hold what is no id
several = st.lists(users, max_size=12).map(tuple)
links = st.none() | st.sampled_from([*LINKS, "javascript:alert(1)", "https://x y|<!here>"])
arguments = st.lists(
    st.builds(Argument, nasty, values, st.booleans(), is_default=st.booleans()),
    max_size=8,
    unique_by=lambda one: one.name,  # a call is an object
).map(tuple)
many_arguments = st.builds(
    lambda some, times: {f"{one.name}{n or ''}": one for n in range(times) for one in some},
    arguments,
    st.sampled_from([1, 1, 1, 30]),
).map(lambda named: tuple(replace(one, name=name) for name, one in named.items()))
changes = st.lists(st.builds(FieldDiff, nasty, values | st.just(ABSENT), values | st.just(ABSENT)), max_size=12).map(
    tuple
)
approvers = st.lists(
    st.one_of(
        st.builds(Approver, st.just(ApproverKind.GROUP), st.sampled_from(GROUPS) | texts),
        st.builds(Approver, st.just(ApproverKind.USER), users),
        st.builds(Approver, st.sampled_from([ApproverKind.EMAIL, ApproverKind.PYTHON]), nasty),
    ),
    max_size=12,
).map(tuple)
grants = st.builds(GrantView, st.just("g41"), nasty, several, moments, arguments)
ids = st.from_regex(r"\A[A-Za-z0-9_-]{1,64}\Z")

cards = st.builds(
    shown,
    id=ids,
    revision=st.integers(1, 999_999_999),
    version=st.integers(1, 10**9),
    stage=st.sampled_from([*State, *OutcomeKind]),
    tool=nasty,
    agent=nasty,
    arguments=many_arguments,
    hint=nasty,
    hidden=st.integers(0, 3),
    asked_by=st.none() | users,
    asked_at=moments,
    attempt=st.integers(1, 3),
    approvers=approvers,
    escalated_to=approvers,
    quorum=st.integers(1, 5),
    voted=several,
    expires_at=moments,
    start_by=st.none() | moments,
    edited_by=st.none() | users,
    diff=changes,
    decided_by=several,
    reason=st.none() | nasty,
    started_at=st.none() | moments,
    result=values | st.just(ABSENT),
    error=st.none() | nasty,
    duration=st.none() | st.floats(0, 10**6),
    outside=st.none() | st.booleans(),
    editable=st.lists(texts, max_size=3).map(tuple),
    wants_payload=st.booleans(),
    payload=arguments,
    answered=st.booleans(),
    confirm_dialog=st.booleans(),
    grant_offer=st.none() | st.builds(GrantOffer, st.integers(1, 10**6), arguments),
    grant=st.none() | grants,
    session_link=links,
    card_link=links,
    paused=st.sampled_from([None, Paused()]),
    tries_until=st.none() | moments,
    answered_outside=st.booleans(),
    too_few_may=st.booleans(),
    unsealed=st.booleans(),
)

steps = st.builds(
    ShownLine,
    seq=st.integers(1, 10**6),
    kind=st.sampled_from([kind for kind, entry in LINES.items() if entry.sentence is not None]),
    at=moments,
    tool=nasty,
    who=st.none() | users,
    people=several,
    approvers=approvers,
    revision=st.integers(1, 9),
    attempt=st.integers(1, 3),
    votes=st.integers(0, 5),
    quorum=st.integers(1, 5),
    reason=st.none() | nasty,
    why=st.none() | st.sampled_from(Reason),
    changes=changes,
    arguments=arguments,
    text=st.none() | nasty,
    seconds=st.none() | st.floats(0, 10**6),
    until=st.none() | moments,
    channel=st.none() | st.sampled_from(CHANNELS),
    yes=st.none() | st.booleans(),
    answer=arguments,
    call=arguments,
)
