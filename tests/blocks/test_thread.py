"""The lines of a thread, the history, and the answer to one person's vote."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adk_confirm.blocks.call_details import headline
from adk_confirm.blocks.card import card
from adk_confirm.blocks.click_ids import LineMark, parse_mark
from adk_confirm.blocks.ledger_kinds import LineKind, Reason
from adk_confirm.blocks.mentions import mentions, with_names
from adk_confirm.blocks.notices import (
    agent_failure_message,
    notice_message,
    notice_modal,
    verdict_message,
    verdict_modal,
)
from adk_confirm.blocks.rich_text import rich
from adk_confirm.blocks.shown import Argument, FieldDiff, Shown
from adk_confirm.blocks.shown_lines import LINES, ShownLine
from adk_confirm.blocks.thread import (
    history,
    history_pieces,
    notified_users,
    thread_messages,
)
from adk_confirm.bot.audit.ledger import LedgerLine
from adk_confirm.bot.confirmation.authorise import Refusal
from adk_confirm.bot.confirmation.confirmation import State
from adk_confirm.bot.confirmation.shown_lines import About, thread_lines
from adk_confirm.bot.confirmation.states import Verdict
from adk_confirm.bot.policy.approvers import ApproverKind, Unresolved
from tests.blocks import inert, limits, samples, strategies
from tests.support.deciding import Desk, make_policy

SHOWN = [kind for kind, entry in LINES.items() if entry.sentence is not None]

some = settings(
    max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@some
@given(st.lists(strategies.steps, min_size=1, max_size=6))
def test_no_story_is_over_a_limit_or_does_anything_by_itself(steps: list[ShownLine]) -> None:
    for message in thread_messages("slack-T1-C1-1.2", steps):
        limits.check(message.payload(), "message")
        inert.check(message.payload(), strategies.OURS)
    payload = history(replace(samples.WAITING, title=None, tool=steps[0].tool), steps)
    limits.check(payload, "modal")
    inert.check(payload, strategies.OURS)


def history_text(step: ShownLine) -> str:
    return inert.shown({"blocks": [rich(history_pieces(step), "step")]})


def thread_text(*steps: ShownLine) -> str:
    return "".join(inert.shown(message.payload()) for message in thread_messages("s", steps)).strip()


def test_a_thread_notifies_approvers_of_a_reminder_and_the_asker_of_an_end() -> None:
    reminded, escalated, done, denied = samples.THREAD
    assert notified_users(reminded) == {samples.LEAD}
    assert notified_users(escalated) == frozenset()  # a group is mentioned as a group
    assert notified_users(done) == notified_users(denied) == {samples.DANA}
    own = replace(denied, kind=LineKind.WITHDRAWN, who=samples.DANA)
    assert notified_users(own) == frozenset()
    (message,) = thread_messages("s", samples.THREAD)
    named = mentions(message) - {user for step in samples.THREAD for user in notified_users(step)}
    assert named == {samples.OPS}
    message = with_names(message, {samples.OPS: "Olga *<!channel>* `O`"})
    assert mentions(message) == {samples.LEAD, samples.DANA}
    assert "Approved by <@U0LEAD> and Olga ∗‹!channel›∗ ˋOˋ." in message.text
    assert "Approved by U0LEAD and Olga *<!channel>* `O`." in inert.shown(message.payload())


def test_a_thread_notifies_who_can_say_how_an_unknown_call_ended_and_whose_approval_fell() -> None:
    calls = {
        "1": replace(samples.UNKNOWN, id="1"),
        "2": replace(samples.WAITING, id="2", edited_by=samples.DANA),
    }
    at, voter = datetime.fromtimestamp(samples.NOON, UTC), f'{{"who": {{"user": "{samples.OPS}"}}}}'
    entries = [
        LedgerLine(
            chain="s",
            seq=seq,
            at=at,
            kind=kind,
            confirmation=str(seq),
            tool="deploy",
            content=content,
            salt=None,
            digest="",
            previous="",
            hash="",
            sealed="",
        )
        for seq, kind, content in ((1, LineKind.UNKNOWN, "{}"), (2, LineKind.VOTE_FELL, voter))
    ]
    row = Desk(make_policy()).row
    about = {number: About(row, call) for number, call in calls.items()}
    unknown, fell = thread_lines(entries, about, "9.9", ())
    asked = {one.value for one in samples.UNKNOWN.approvers if one.kind is ApproverKind.USER}
    assert asked
    assert notified_users(unknown) == asked
    assert headline(calls["1"]) in thread_text(unknown)
    assert notified_users(fell) == {samples.OPS}
    assert "your approval no longer counts" in thread_text(fell)
    assert headline(calls["2"]).removesuffix("?") in thread_text(fell)
    done = replace(calls["2"], stage=State.APPROVED)
    (late,) = thread_lines(entries[1:], {"2": About(row, done)}, "9.9", ())
    assert notified_users(late) == frozenset()  # nothing is left to decide


def test_a_message_names_those_whom_it_does_not_notify() -> None:
    message = card(samples.APPROVED)
    assert mentions(message) >= {samples.LEAD, samples.DANA}
    named = with_names(message, {samples.LEAD: "*lea* <!here>"})
    assert mentions(named) == mentions(message) - {samples.LEAD}
    assert "∗lea∗ ‹!here›" in named.text
    limits.check(named.payload(), "message")
    inert.check(named.payload(), {*strategies.OURS, "*lea* <!here>"})


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (
            ShownLine(seq=1, kind=LineKind.DONE, at=0, seconds=42.3, text='{"status": "deployed", "replicas": 3}'),
            "✅ Done.\nReturned status deployed · replicas 3",
        ),
        (
            ShownLine(seq=1, kind=LineKind.DONE, at=0, people=("U1",), attempt=2),
            "✅ Done in a second run. Approved by U1.",
        ),
        (
            ShownLine(seq=1, kind=LineKind.FAILED, at=0, people=("U1",), seconds=75, text="no", carded=True),
            "❌ Failed. Approved by U1.",
        ),
        (ShownLine(seq=1, kind=LineKind.REFUSED, at=0, people=("U1",)), "⛔ Did not run. Approved by U1."),
        (
            ShownLine(seq=1, kind=LineKind.EXPIRED, at=0, votes=1, quorum=2),
            "⌛ Expired with 1 of 2 approvals.",
        ),
        (
            ShownLine(seq=1, kind=LineKind.LAPSED, at=0, people=("U1",)),
            "⌛ Not started in time. Approved by U1.",
        ),
        (
            ShownLine(seq=1, kind=LineKind.APPROVED, at=0, people=("U1", "U2")),
            "👍 It can start. Approved by U1 and U2.",
        ),
        (ShownLine(seq=1, kind=LineKind.WITHDRAWN, at=0, who="U1"), "↩️ Withdrawn by U1."),
        (ShownLine(seq=1, kind=LineKind.DENIED, at=0), "🚫 Denied by the policy."),
        (
            ShownLine(seq=1, kind=LineKind.VOTE_REFUSED, at=0, tool="pay", who="U1", why=Reason.NOT_APPROVER),
            "✋ U1 tried three times to decide on pay, but no vote counted: the policy names others.",
        ),
        (
            ShownLine(seq=1, kind=LineKind.VOTE_FELL, at=0, tool="pay", who="U1", editor="U2"),
            "↘️ The approval of U1 no longer counts, because U2 edited pay.",
        ),
    ],
)
def test_a_line_says_who_decided_and_how_it_ended(step: ShownLine, line: str) -> None:
    assert thread_text(step) == line


DAYS, APPROVED_DAYS = Argument("days", 3), Argument("approved_days", 2)


@pytest.mark.parametrize(
    ("call", "answer", "line", "sentence"),
    [
        (
            (DAYS,),
            (APPROVED_DAYS,),
            "✅ Done. U1 approved 2 of 3 days",
            "👍 U1 approved 2 of 3 days for pay: 1 of 2 approvals.",
        ),
        (
            (Argument("amount", 1500, formats=(("", "EUR"),)),),
            (Argument("approved_amount", 1200), Argument("note", None)),
            "✅ Done. U1 approved €1,200.00 of €1,500.00",
            "👍 U1 approved €1,200.00 of €1,500.00 for pay: 1 of 2 approvals.",
        ),
        (
            (DAYS,),
            (APPROVED_DAYS, Argument("note", "fine"), Argument("iban", None, masked=True)),
            "✅ Done. Approved by U1 with approved days 2, note fine and iban 🔒 hidden",
            "👍 U1 approved pay with approved days 2, note fine and iban 🔒 hidden: 1 of 2 approvals.",
        ),
        (
            (DAYS,),
            (Argument("approved_days", None),),
            "✅ Done. Approved by U1",
            "👍 U1 approved pay: 1 of 2 approvals.",
        ),
        (
            (Argument("days", "three"),),
            (APPROVED_DAYS,),
            "✅ Done. Approved by U1 with approved days 2",
            "👍 U1 approved pay with approved days 2: 1 of 2 approvals.",
        ),
    ],
)
def test_an_answer_is_described_in_words_and_not_as_an_edit(
    call: tuple[Argument, ...], answer: tuple[Argument, ...], line: str, sentence: str
) -> None:
    done = ShownLine(seq=1, kind=LineKind.DONE, at=0, people=("U1",), call=call, answer=answer)
    assert thread_text(done) == f"{line}."
    changes = (FieldDiff("approved_days", 0, 2),)
    filled = replace(done, kind=LineKind.EDITED, tool="pay", who="U1", votes=1, quorum=2, revision=2, changes=changes)
    assert history_text(filled).strip() == sentence


def test_an_answer_that_is_changed_says_that_earlier_approvals_no_longer_count() -> None:
    step = ShownLine(
        seq=1, kind=LineKind.EDITED, at=0, tool="pay", who="U2", votes=1, quorum=2, revision=3,
        call=(DAYS,), answer=(Argument("approved_days", 1),),
    )  # fmt: skip
    assert history_text(step).strip() == (
        "✏️ U2 approved 1 of 3 days for pay instead: 1 of 2 approvals. Earlier approvals no longer count."
    )
    fell = replace(step, kind=LineKind.VOTE_FELL, who="U1", editor="U2")
    assert thread_text(fell) == "↘️ The approval of U1 no longer counts, because U2 changed the answer to pay."


def test_a_long_story_is_several_messages_and_each_says_how_far_it_goes() -> None:
    steps = [replace(samples.OTHER_STEPS[4], seq=n, reason="x" * 400) for n in range(1, 41)]
    messages = thread_messages("s", steps)
    assert len(messages) > 3
    marks = [parse_mark(message.metadata) for message in messages]
    seqs = [mark.told_seq for mark in marks if isinstance(mark, LineMark)]
    assert seqs == sorted(seqs)
    assert seqs[-1] == 40
    assert sum(message.text.count("Denied by") for message in messages) == 40


def test_every_kind_of_line_has_its_entry_and_can_be_shown_however_little_is_known_of_it() -> None:
    assert set(LINES) == set(LineKind)
    for kind in SHOWN:
        assert history_text(ShownLine(seq=1, kind=kind, at=0)) != ""
        assert thread_text(ShownLine(seq=1, kind=kind, at=0)) != ""


def test_a_stop_names_the_calls_that_go_on_and_nothing_in_a_name_acts() -> None:
    reasons = '{"runs": ["deploy"], "waits": ["<!channel> {x}", "*pay*"]}'
    step = ShownLine(seq=1, kind=LineKind.STOPPED, at=1_900_000_000, tool="", who="U0ANN", text=reasons)
    (message,) = thread_messages("s", [step])
    assert "deploy was approved and still runs" in message.text
    assert "`&lt;!channel&gt; {x}`, `*pay*` still wait for decisions" in message.text
    (nothing,) = thread_messages("s", [replace(step, text="[1")])
    assert nothing.text.endswith("stopped the agent.")


def test_an_endless_history_shows_the_latest_and_says_so() -> None:
    steps = tuple(replace(samples.OTHER_STEPS[4], seq=n, reason=f"no {n} " + "x" * 400) for n in range(2000))
    payload = history(samples.HISTORY, steps)
    limits.check(payload, "modal")
    text = inert.shown(payload)
    assert "no 1999 " in text
    assert "Earlier steps are left out here" in text
    assert "no 0 " not in text


# -- one person's verdict

Given = tuple[Shown, Verdict]


def made(kind: LineKind, **more: int) -> Given:
    return samples.WAITING, Verdict(confirmation="c1", kind=kind, **more)  # type: ignore[arg-type]  # its numbers


def refused(refusal: Refusal) -> Given:
    return samples.WAITING, Verdict(confirmation="c1", refusal=refusal)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (samples.VERDICTS["counted"], "Your approval counts: 1 of 2."),
        (
            samples.VERDICTS["decided"],
            "Your approval was the last one needed. Deploy checkout 2.14.0 to prod runs.",
        ),
        (samples.VERDICTS["older"], "The card changed. Look again, then decide."),
        (samples.VERDICTS["late"], "You are too late for Deploy checkout 2.14.0 to prod. Denied by U0LEAD."),
        (
            (samples.WAITING, samples.VERDICTS["late"][1]),
            "You are too late: Deploy checkout 2.14.0 to prod is denied already.",
        ),
        (
            (samples.DONE, Verdict(confirmation="c1", refusal=Refusal(reason=Reason.TOO_LATE, state="approved"))),
            "You are too late: Deploy checkout 2.14.0 to prod is approved already.",
        ),
        (
            (samples.ELSEWHERE, Verdict(confirmation="c1", refusal=Refusal(reason=Reason.TOO_LATE, state="elsewhere"))),
            "You are too late: Deploy checkout 2.14.0 to prod is answered outside this app already.",
        ),
        (made(LineKind.EDITED, votes=1), "Your edit counts: 1 of 2."),
        (made(LineKind.EDITED), "You edited deploy. The card has the new plan. Approve it there."),
        (made(LineKind.DENIED), "You denied Deploy checkout 2.14.0 to prod. It won't run."),
        (made(LineKind.GRANT_REVOKED), "Stopped. Calls of deploy ask again."),
        (
            refused(Refusal(reason=Reason.NOT_EDITABLE, fields=("env", "a\nb"))),
            "env and a\\nb can't be edited under this policy.",
        ),
        (
            refused(Refusal(reason=Reason.CANNOT_ASK, unresolved=Unresolved("group:S0ONCALL", "busy"))),
            "group:S0ONCALL could not be looked up. We could not find out",
        ),
    ],
)
def test_a_verdict_says_what_happened_and_what_to_do_next(given: Given, sentence: str) -> None:
    for payload, surface in ((verdict_modal(*given), "modal"), (verdict_message(*given).payload(), "message")):
        limits.check(payload, surface)
        assert sentence in inert.shown(payload)


@pytest.mark.parametrize("why", Reason)
def test_every_refusal_has_its_sentence(why: Reason) -> None:
    refusal = Refusal(reason=why, state="expired", fields=("env",))
    text = verdict_message(*refused(refusal)).text
    assert text.endswith(".")
    assert "{" not in text
    assert (
        history_text(ShownLine(seq=1, kind=LineKind.VOTE_REFUSED, at=0, tool="deploy", who="U1", why=why)).count(":")
        == 1
    )


@some
@given(strategies.nasty, st.sampled_from(SHOWN), st.sampled_from(Reason), st.lists(strategies.nasty, max_size=12))
def test_no_verdict_does_anything_by_itself(tool: str, kind: LineKind, why: Reason, fields: list[str]) -> None:
    call = replace(samples.WAITING, tool=tool, title=None)
    refusal = Refusal(reason=why, fields=tuple(fields), unresolved=Unresolved(tool, "busy"))
    verdicts = (Verdict(confirmation="c1", kind=kind), Verdict(confirmation="c1", refusal=refusal))
    messages = [verdict_message(call, one) for one in verdicts]
    for message in (*messages, notice_message(tool), agent_failure_message("m1", tool)):
        limits.check(message.payload(), "message")
        inert.check(message.payload(), strategies.OURS)
    for modal in (*(verdict_modal(call, one) for one in verdicts), notice_modal(tool)):
        limits.check(modal, "modal")
        inert.check(modal, strategies.OURS)


def test_a_refusal_of_somebody_else_says_who_can() -> None:
    refused_vote = Verdict(confirmation="c1", refusal=Refusal(reason=Reason.NOT_APPROVER))
    shown = inert.shown(verdict_modal(samples.ESCALATED, refused_vote))
    assert f"{samples.LEAD} or S0LEADS can." in shown


_ASKED = "You can't approve this, because you asked for it."
_SPOKE = "You can't approve this, because you spoke to the agent in this conversation."
_OTHERS = "You can't decide this, because you are not an approver."
_AT = "2026-11-21 12:20 UTC"
_NOBODY_ELSE = "Nobody else can either"
_UNTIL_THEN = f"Nobody can approve it yet: S0LEADS can from {_AT}."
_LATER, _NOBODY, _YET = samples.LEADS_LATER, samples.NOBODY, samples.NOBODY_YET
_UNKNOWN = replace(samples.UNKNOWN, approvers=samples.approvers("user:U0LEAD"))


@pytest.mark.parametrize(
    ("call", "why", "voter", "said"),
    [
        (
            _NOBODY,
            Reason.TURN_AUTHOR,
            "U0DANA",
            f"{_ASKED} {_NOBODY_ELSE} until the policy file names more approvers.",
        ),
        (
            _NOBODY,
            Reason.NOT_APPROVER,
            "U0OPS",
            f"{_OTHERS} Nobody can approve it until the policy file names more approvers.",
        ),
        (_YET, Reason.TURN_AUTHOR, "U0DANA", f"{_ASKED} Nobody can yet: S0LEADS can from {_AT}."),
        (_LATER, Reason.REQUESTER, "U0OPS", f"{_SPOKE} U0LEAD can now, S0LEADS from {_AT}."),
        (
            replace(_LATER, spoke=("U0OPS",)),
            Reason.REQUESTER,
            "U0OPS",
            f"{_SPOKE} U0LEAD can now, S0LEADS from {_AT}. You can still deny it.",
        ),
        (
            replace(_LATER, spoke=("U0LEAD",)),
            Reason.NOT_APPROVER,
            "U0OPS",
            f"{_OTHERS} {_UNTIL_THEN}",
        ),
        (
            replace(_LATER, voted=("U0LEAD",)),
            Reason.NOT_APPROVER,
            "U0OPS",
            f"{_OTHERS} {_UNTIL_THEN}",
        ),
        (
            replace(_LATER, voted=("U0LEAD",)),
            Reason.ALREADY_VOTED,
            "U0LEAD",
            f"You already approved this. It needs 1 more person: S0LEADS can approve from {_AT}.",
        ),
        (
            replace(_NOBODY, question=True),
            Reason.TURN_AUTHOR,
            "U0DANA",
            "You can't answer this, because the agent asks it on your behalf. "
            f"{_NOBODY_ELSE} until the policy file names more people.",
        ),
        (
            _UNKNOWN,
            Reason.TURN_AUTHOR,
            "U0DANA",
            "You can't say whether it happened, because you asked for it. U0LEAD can.",
        ),
        (
            _UNKNOWN,
            Reason.REQUESTER,
            "U0LEAD",
            f"{_SPOKE.replace('approve this', 'vote to run this again')} {_NOBODY_ELSE} "
            "until the policy file names more approvers. You can still say whether it happened.",
        ),
    ],
)
def test_a_refusal_names_only_those_who_can(call: Shown, why: Reason, voter: str, said: str) -> None:
    made = Verdict(confirmation="c1", refusal=Refusal(reason=why))
    assert said in inert.shown(verdict_modal(call, made, voter))
