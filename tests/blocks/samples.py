"""One example in all of its states: an on-call agent wants to deploy. Every golden file is made from these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from adk_confirm.blocks.home import HomeView
from adk_confirm.blocks.ledger_kinds import LineKind, Reason
from adk_confirm.blocks.shown import Argument, FieldDiff, Free, GrantOffer, GrantView, Paused, Shown
from adk_confirm.blocks.shown_lines import ShownLine
from adk_confirm.bot.confirmation.authorise import Refusal
from adk_confirm.bot.confirmation.confirmation import OutcomeKind, State
from adk_confirm.bot.confirmation.decision import open_confirmation
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.confirmation.states import Verdict
from adk_confirm.bot.policy.approvers import Approver, parse_approver
from adk_confirm.runtime.calls.preview import Preview
from tests.support import deciding

NOON = 1_795_262_400  # 2026-11-21 12:00 UTC
DANA, LEAD, OPS, BOT = "U0DANA", "U0LEAD", "U0OPS", "U0BOT"


def approvers(*entries: str) -> tuple[Approver, ...]:
    return tuple(map(parse_approver, entries))


_NOTHING = replace(
    shown_of(open_confirmation("c0", deciding.make_asked(), deciding.make_policy(), deciding.NOON).row),
    approvers=(),
    asked_by=None,
    editable=(),
)


def shown(**facts: Any) -> Shown:
    """A call as people see it, with these facts. A real one is made from a row, and masked: `test_shown.py`."""
    return replace(_NOTHING, **facts)


WAITING = shown(
    id="c7Qd2m",
    revision=1,
    version=3,
    stage=State.WAITING,
    tool="deploy",
    agent="ops",
    only_agent=True,
    hint="Ship the checkout fix before the evening peak?",
    title="Deploy {service} {version} to {env}",
    arguments=(
        Argument("service", "checkout"),
        Argument("version", "2.14.0"),
        Argument("env", "prod"),
        Argument("replicas", 6),
    ),
    asked_by=DANA,
    asked_at=NOON,
    approvers=approvers("group:S0ONCALL", "user:U0LEAD"),
    quorum=2,
    expires_at=NOON + 3600,
    editable=("version", "replicas"),
)

DEFAULTS = replace(
    WAITING,
    arguments=(
        Argument("service", "checkout"),
        Argument("version", "2.14.0"),
        Argument("env", "prod", is_default=True),
        Argument("force", True, is_default=True),
    ),
)
UNBOUND = replace(WAITING, title=None, unbound=True)
ONE_VOTE = replace(WAITING, version=4, voted=(OPS,))

REIMBURSE = shown(
    id="r1",
    revision=2,
    version=9,
    stage=State.WAITING,
    tool="reimburse",
    agent="hr_agent",
    arguments=(
        Argument("purpose", "Train to Turin and two nights for the spring meeting, hotel included"),
        Argument("amount", 1200),
        Argument("receipts", ["r-102.pdf", "r-103.pdf"]),
        Argument("iban", None, masked=True),
    ),
    hidden=1,
    asked_by=DANA,
    asked_at=NOON,
    approvers=approvers("user:U0LEAD", "email:release-manager@example.com", "user:U0OPS", "python:my.rota:on_call"),
    voted=(),
    expires_at=NOON + 86_400,
    edited_by=LEAD,
    diff=(FieldDiff("amount", 1500, 1200),),
    editable=("amount",),
    confirm_dialog=True,
    session_link="https://example.slack.com/archives/C0TALK/p1795262400000100",
)

SCRIPT = "\n".join(f"UPDATE orders SET state = 'paid' WHERE id = {4000 + n};" for n in range(40))
LONG = replace(
    WAITING,
    id="long",
    tool="run_sql",
    hint="Mark these orders as paid",
    arguments=(
        Argument("database", "orders"),
        Argument("script", SCRIPT),
        Argument("options", {"timeout": 30, "retry": {"times": 3, "wait": [1, 2, 4]}, "dry_run": False, "tag": "fix"}),
    ),
    editable=(),
)

HOSTILE = replace(
    WAITING,
    id="hostile",
    tool="pay :tada: <!channel>",
    agent="*ops* <@U0LEAD>",
    hint="All good.\nApproved by <@U0LEAD> <!here>\n> *amount* `5` <https://evil.example|details> :white_check_mark:",
    arguments=(
        Argument("amount", "5\namount 5000"),
        Argument("to\nstate approved", "<!channel> @here <@U0LEAD> #general https://evil.example"),
        Argument("note", "in\u202evoice\u2066 \u200b\u00ad:tada: ```x``` *b* &amp; <b>"),
        Argument("שלום", "ערך 15"),
        Argument("", ""),
        Argument("flag", "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ok\u200d"),
        Argument("text", "1500"),
        Argument("accent", "a" + "\u0301" * 30),
    ),
    editable=(),
)

_BY = (OPS, LEAD)
_APPROVED = replace(
    ONE_VOTE, decided_by=_BY, version=5, start_by=NOON + 1020, voted_at={OPS: NOON + 60, LEAD: NOON + 120}
)
APPROVED = replace(_APPROVED, stage=State.APPROVED)
RUNNING = replace(_APPROVED, stage=OutcomeKind.RUNNING, started_at=NOON + 125, version=6)
_RAN = replace(RUNNING, duration=42.3, version=7)
DONE = replace(
    _RAN,
    stage=OutcomeKind.DONE,
    result={"service": "checkout", "status": "deployed", "url": "https://checkout.example/health"},
)
FAILED = replace(
    _RAN, stage=OutcomeKind.FAILED, error="DeployError: checkout-6f9c is not ready\n  in 40 s (2 of 6 pods)"
)
DENIED = replace(
    ONE_VOTE,
    stage=State.DENIED,
    version=5,
    decided_by=(LEAD,),
    reason="Not during the sale. Try 2.14.1 with the hotfix after 20:00.",
)
REFUSED = replace(_APPROVED, stage=OutcomeKind.REFUSED, version=6, reason="deploy takes no argument replicas any more.")
EXPIRED = replace(ONE_VOTE, stage=State.EXPIRED, version=5)
LAPSED = replace(_APPROVED, stage=State.LAPSED, version=6)
WITHDRAWN = replace(ONE_VOTE, stage=State.WITHDRAWN, version=5, decided_by=(DANA,))
ELSEWHERE = replace(ONE_VOTE, stage=State.ELSEWHERE, version=5, outside=True, answered_outside=True)
UNKNOWN = replace(
    RUNNING,
    stage=OutcomeKind.UNKNOWN,
    version=7,
    voted=(),
)
UNKNOWN_VOTED = replace(UNKNOWN, version=8, voted=(OPS,))
NOBODY_KNOWS = replace(UNKNOWN, approved_by=_BY, stage=OutcomeKind.NOBODY_KNOWS, version=9, decided_by=())
SETTLED = replace(
    UNKNOWN, approved_by=_BY, stage=OutcomeKind.HAPPENED, version=9, decided_by=(LEAD,), said_at=NOON + 960
)
AGAIN = replace(WAITING, attempt=2, version=9)
PAUSED = replace(APPROVED, paused=Paused())
UNREACHABLE = replace(APPROVED, tries_until=NOON + 900)
ESCALATED = replace(ONE_VOTE, version=6, escalated_to=approvers("group:S0LEADS"))
NOBODY = replace(
    WAITING, approvers=approvers(f"user:{DANA}"), quorum=1, too_few_now=True, too_few_may=True, able=frozenset()
)
NOBODY_YET = replace(NOBODY, escalates_to=approvers("group:S0LEADS"), escalates_at=NOON + 1200)
LEADS_LATER = replace(
    NOBODY_YET, approvers=approvers("user:U0LEAD"), quorum=2, too_few_may=False, able=frozenset({LEAD}), spoke=()
)
_FREE = (Free("version"), Free("env"), Free("replicas", "up to 8 each"))
GRANT = GrantView("g41", "deploy", (LEAD,), NOON + 1800, (Argument("service", "checkout"),), _FREE)
GRANTED = replace(DONE, id="granted", grant=GRANT, decided_by=(LEAD,))
OFFERED = replace(WAITING, grant_offer=GrantOffer("deploy", 1800, (Argument("service", "checkout"),), _FREE))
TIME_OFF = shown(
    id="t1",
    revision=1,
    version=1,
    stage=State.WAITING,
    tool="request_time_off",
    agent="hr_agent",
    hint="How many days?",
    arguments=(Argument("days", 12),),
    asked_by=DANA,
    asked_at=NOON,
    approvers=approvers("user:U0LEAD"),
    expires_at=NOON + 86_400,
    wants_payload=True,
    payload=(Argument("approved_days", 0),),
    editable=("approved_days",),
)
ANSWERED = replace(
    TIME_OFF,
    revision=2,
    version=2,
    payload=(Argument("approved_days", 8),),
    answered=True,
    quorum=2,
    approvers=approvers(f"user:{LEAD}", f"user:{OPS}"),
    edited_by=LEAD,
    voted=(LEAD,),
)
EXPENSES: list[JsonValue] = [
    {"item": "Train to Turin", "amount": 148.5},
    {"item": "Hotel", "amount": 1320},
    {"item": "Taxi", "amount": 31},
]
LISTS = replace(
    REIMBURSE,
    id="lists",
    revision=1,
    tool="reimburse",
    title="Reimburse {employee}",
    arguments=(
        Argument("employee", "Dana Ortiz"),
        Argument("expenses", EXPENSES, formats=(("amount", "EUR"),)),
        Argument("cost_centre", "4711"),
    ),
    hidden=0,
    edited_by=None,
    diff=(),
)
MANY_LISTS = replace(
    LISTS,
    id="many",
    arguments=(
        Argument("expenses", EXPENSES * 20, formats=(("amount", "EUR"),)),
        Argument("guests", [{"name": "Ann", "meals": 2}, {"name": "<@U0LEAD>", "meals": 1}]),
    ),
)
LISTED_DONE = replace(
    LISTS,
    id="listed",
    stage=OutcomeKind.DONE,
    decided_by=(LEAD,),
    duration=1.2,
    result=[{"payment": "p-19", "state": "booked"}, {"payment": "p-20", "state": "waits for the bank"}],
)
NO_ARGUMENTS = replace(
    WAITING, id="none", tool="rotate_keys", arguments=(), hint="", asked_by=None, quorum=1, editable=()
)

PLAN = Preview("--- prod now\n+++ prod after this\n@@ -1,2 +1,2 @@\n env: prod\n-checkout 2.13.9\n+checkout 2.14.0\n")
_BEFORE = Preview(PLAN.text.replace("2.13.9", "2.13.8"))
_KEYS = [f"-  key-{n}: old\n+  key-{n}: new\n" for n in range(20)]
_PATCH = f"--- a/deploy/checkout.yaml\n+++ b/deploy/checkout.yaml\n@@ -1,21 +1,21 @@\n keys:\n{''.join(_KEYS)}"
PLANNED = replace(
    WAITING,
    id="planned",
    preview=PLAN,
    hint="",
    why="The fix has to be out before the evening peak. The error budget of checkout is spent.",
)
PATCH = replace(
    PLANNED,
    id="patch",
    tool="apply_patch",
    title="Patch deploy/checkout.yaml",
    arguments=(Argument("service", "checkout"), Argument("diff", _PATCH)),
    preview=Preview(_PATCH),
    editable=(),
)
MAIL = replace(
    WAITING,
    id="mail",
    tool="send_mail",
    title=None,
    hint="",
    arguments=(
        Argument("recipients", [f"customer{n:02}@example.com" for n in range(60)]),
        Argument("subject", "Checkout was slow on Friday"),
        Argument("body", "Hello,\n\nfrom 18:00 to 18:40 payments were slow.\nNothing was charged twice.\n\nSorry!"),
    ),
)
QUESTION = replace(
    WAITING,
    id="asks",
    tool="ask_for_laptop",
    agent="onboarding",
    title=None,
    question=True,
    hint="Which laptop is it to be?",
    arguments=(Argument("newcomer", "Grace Hopper"),),
    wants_payload=True,
    quorum=1,
    editable=("model", "memory"),
)
QUESTION_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "enum": ["13 inch", "14 inch", "16 inch"]},
        "memory": {"type": "integer", "description": "In GB"},
    },
    "required": ["model", "memory"],
}
TYPED = replace(
    WAITING,
    id="typed",
    tool="schedule_maintenance",
    title="Maintain {service}",
    hint="",
    arguments=(
        Argument("service", "checkout"),
        Argument("day", "2026-12-05"),
        Argument("starts_at", "2026-12-05T22:00:00+01:00"),
        Argument("budget", 1500, formats=(("", "EUR"),)),
        Argument("notify", ["ops@acme.example", "support@acme.example"]),
        Argument("regions", ["eu-west-1", "us-east-1"]),
        Argument("owner", {"name": "Ben Ortiz", "email": "ben@acme.example"}),
        Argument("steps", [{"name": "drain", "minutes": 15}, {"name": "patch", "minutes": 45}]),
    ),
    editable=("day", "starts_at", "budget", "notify", "regions", "owner", "steps"),
)
_STEP: dict[str, JsonValue] = {"name": {"type": "string"}, "minutes": {"type": "integer"}}
_OWNER: dict[str, JsonValue] = {"name": {"type": "string"}, "email": {"type": "string"}}
TYPED_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "service": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "starts_at": {"type": "string", "format": "date-time"},
        "budget": {"type": "number", "description": "What it may cost"},
        "notify": {"type": "array", "items": {"type": "string"}, "description": "Who is told by mail"},
        "regions": {"type": "array", "items": {"enum": ["eu-west-1", "us-east-1", "ap-south-1"]}},
        "owner": {"type": "object", "properties": _OWNER},
        "steps": {"type": "array", "items": {"type": "object", "properties": _STEP}},
    },
}
_CHANGES: dict[str, JsonValue] = {
    "day": "2026-12-06",
    "starts_at": "2026-12-06T22:00:00+01:00",
    "owner": {"name": "Ben Ortiz", "email": "b@acme.example"},
}
_MOVED = tuple(replace(one, value=_CHANGES.get(one.name, one.value)) for one in TYPED.arguments)
EDITED_DONE = replace(
    TYPED,
    id="moved",
    revision=2,
    stage=OutcomeKind.DONE,
    arguments=_MOVED,
    diff=tuple(FieldDiff(a.name, a.value, b.value) for a, b in zip(TYPED.arguments, _MOVED, strict=True) if a != b),
    edited_by=LEAD,
    decided_by=_BY,
    voted_at={OPS: NOON + 60, LEAD: NOON + 120},
    duration=2.5,
    result={"status": "scheduled"},
    editable=(),
)

CARDS = {
    "waiting": WAITING,
    "waiting_one_vote": ONE_VOTE,
    "waiting_defaults": DEFAULTS,
    "waiting_unbound": UNBOUND,
    "waiting_edited": REIMBURSE,
    "waiting_cut": LONG,
    "waiting_hostile": HOSTILE,
    "waiting_escalated": ESCALATED,
    "waiting_payload": TIME_OFF,
    "waiting_answered": ANSWERED,
    "waiting_nobody": NOBODY,
    "waiting_nobody_yet": NOBODY_YET,
    "waiting_leads_later": LEADS_LATER,
    "waiting_no_arguments": NO_ARGUMENTS,
    "waiting_again": AGAIN,
    "waiting_list": LISTS,
    "waiting_lists_cut": MANY_LISTS,
    "waiting_grant": OFFERED,
    "waiting_spoke": replace(ONE_VOTE, spoke=(LEAD,)),
    "waiting_plan": PLANNED,
    "waiting_patch": PATCH,
    "waiting_drift": replace(PLANNED, id="drift", approved_preview=_BEFORE, approved_then=_BY),
    "waiting_unseen": replace(PLANNED, preview=Preview(failed="timed out after 10 s"), lacks_preview=True),
    "waiting_mail": MAIL,
    "waiting_note": replace(PLANNED, approve_note="required"),
    "waiting_question": QUESTION,
    "waiting_operation": replace(WAITING, operation=True, hint="It has begun, and waits for its result.", editable=()),
    "approved": APPROVED,
    "approved_paused": PAUSED,
    "approved_restarting": replace(APPROVED, paused=Paused(restarts=True)),
    "approved_paused_by": replace(APPROVED, paused=Paused(LEAD, "freeze until the incident is over")),
    "approved_unreachable": UNREACHABLE,
    "running": RUNNING,
    "done": DONE,
    "done_granted": GRANTED,
    "done_nothing": replace(DONE, id="nothing", result={"result": None}),
    "done_handed_over": replace(DONE, id="handed", reported_by="nightly", result={"handed to": "the coding agent"}),
    "done_plan": replace(
        DONE, id="planned", preview=PLAN, why=PLANNED.why, hint="", notes=((LEAD, "Checked with the payments team."),)
    ),
    "done_patch": replace(PATCH, stage=OutcomeKind.DONE, decided_by=_BY, approved_by=_BY, duration=3.2, result="ok"),
    "done_edited": EDITED_DONE,
    "done_question": replace(
        QUESTION,
        stage=OutcomeKind.DONE,
        answered=True,
        payload=(Argument("model", "16 inch"), Argument("memory", 32)),
        decided_by=(LEAD,),
    ),
    "done_list": LISTED_DONE,
    "done_answered": replace(
        ANSWERED, stage=OutcomeKind.DONE, version=3, decided_by=(LEAD,), result={"approved_days": 8}
    ),
    "failed": FAILED,
    "denied": DENIED,
    "refused": REFUSED,
    "refused_drift": replace(
        REFUSED,
        id="planned",
        preview=_BEFORE,
        reason=None,
        drifted=True,
        newer_link="https://example.slack.com/archives/C0DEPLOYS/p1795262400000500",
    ),
    "expired": EXPIRED,
    "lapsed": LAPSED,
    "withdrawn": WITHDRAWN,
    "elsewhere": ELSEWHERE,
    "unknown": UNKNOWN,
    "unknown_voted": UNKNOWN_VOTED,
    "settled": SETTLED,
    "nobody_knows": NOBODY_KNOWS,
}

_CARD = "https://example.slack.com/archives/C0DEPLOYS/p1795262400000200"
LINKED = replace(CARDS["waiting"], card_link=_CARD)
HOME = HomeView(
    version=12,
    reader=LEAD,
    waiting=(
        replace(ONE_VOTE, card_link=_CARD),
        replace(LONG, expires_at=NOON + 7200, card_link=_CARD),
        replace(REIMBURSE, card_link="https://example.slack.com/archives/C0MONEY/p1795262400000300"),
        replace(TIME_OFF, card_link=_CARD),
    ),
    asked=tuple(
        replace(one, id=f"mine{at}", card_link=_CARD)
        for at, one in enumerate((replace(WAITING, tool="restart"), DONE, DENIED))
    ),
    decided=(
        replace(SETTLED, id="decided", card_link="https://example.slack.com/archives/C0DEPLOYS/p1795262400000400"),
        replace(DONE, id="decided2", card_link=_CARD),
        replace(DENIED, id="decided3", voted_at={LEAD: NOON + 90}, card_link=_CARD),
    ),
    grants=(
        replace(
            GRANT,
            by=(LEAD, OPS),
            thread="https://example.slack.com/archives/C0DEPLOYS/p1795262400000100",
            channel="C0DEPLOYS",
            uses=3,
        ),
    ),
    more_waiting=3,
)

STEPS = (
    ShownLine(seq=1, kind=LineKind.ASKED, at=NOON, tool="deploy", channel="C0DEPLOYS"),
    ShownLine(
        seq=2,
        kind=LineKind.REMINDED,
        at=NOON + 600,
        tool="deploy",
        votes=0,
        quorum=2,
        approvers=WAITING.approvers,
        until=NOON + 3600,
    ),
    ShownLine(seq=3, kind=LineKind.ESCALATED, at=NOON + 1200, tool="deploy", approvers=approvers("group:S0LEADS")),
    ShownLine(seq=4, kind=LineKind.APPROVAL, at=NOON + 1260, tool="deploy", who=OPS, votes=1, quorum=2),
    ShownLine(seq=5, kind=LineKind.VOTE_REFUSED, at=NOON + 1270, tool="deploy", who=DANA, why=Reason.REQUESTER),
    ShownLine(
        seq=6,
        kind=LineKind.EDITED,
        at=NOON + 1300,
        tool="deploy",
        who=LEAD,
        revision=2,
        votes=1,
        changes=(FieldDiff("version", "2.14.0", "2.14.1"), FieldDiff("replicas", 6, 4)),
    ),
    ShownLine(seq=10, kind=LineKind.APPROVAL, at=NOON + 1320, tool="deploy", who=OPS, votes=2, quorum=2),
    ShownLine(seq=7, kind=LineKind.APPROVED, at=NOON + 1320, tool="deploy", people=(LEAD, OPS)),
    ShownLine(seq=8, kind=LineKind.BEGUN, at=NOON + 1321, tool="deploy"),
    ShownLine(seq=9, kind=LineKind.DONE, at=NOON + 1363, tool="deploy", seconds=42.3, text='{"status": "deployed"}'),
)
OTHER_STEPS = (
    ShownLine(seq=10, kind=LineKind.ASKED, at=NOON, tool="deploy"),
    ShownLine(seq=11, kind=LineKind.CALL_REFUSED, at=NOON, tool="drop_db", reason="No policy matches this call."),
    ShownLine(seq=12, kind=LineKind.VOTE_FELL, at=NOON, tool="deploy", who=OPS),
    ShownLine(seq=13, kind=LineKind.REAPPLIED, at=NOON, tool="deploy"),
    ShownLine(seq=14, kind=LineKind.DENIED, at=NOON, tool="deploy", who=LEAD, reason=DENIED.reason),
    ShownLine(seq=15, kind=LineKind.EXPIRED, at=NOON, tool="deploy", votes=1, quorum=2),
    ShownLine(seq=16, kind=LineKind.WITHDRAWN, at=NOON, tool="deploy", who=DANA),
    ShownLine(seq=17, kind=LineKind.ELSEWHERE, at=NOON, tool="deploy", yes=True),
    ShownLine(seq=18, kind=LineKind.LAPSED, at=NOON, tool="deploy"),
    ShownLine(seq=19, kind=LineKind.BEGUN, at=NOON, tool="deploy", attempt=2),
    ShownLine(seq=20, kind=LineKind.FAILED, at=NOON, tool="deploy", seconds=75, text=FAILED.error),
    ShownLine(seq=21, kind=LineKind.REFUSED, at=NOON, tool="deploy", reason=REFUSED.reason),
    ShownLine(seq=22, kind=LineKind.UNKNOWN, at=NOON, tool="deploy"),
    ShownLine(seq=23, kind=LineKind.SETTLED, at=NOON, tool="deploy", who=LEAD, yes=False),
    ShownLine(seq=24, kind=LineKind.RUN_AGAIN_VOTE, at=NOON, tool="deploy", who=OPS, votes=1, quorum=2),
    ShownLine(seq=25, kind=LineKind.RUN_AGAIN, at=NOON, tool="deploy", people=(OPS, LEAD), attempt=2),
    ShownLine(seq=26, kind=LineKind.NOBODY_KNOWS, at=NOON, tool="deploy"),
    ShownLine(
        seq=27,
        kind=LineKind.GRANTED,
        at=NOON,
        tool="deploy",
        people=(LEAD,),
        until=NOON + 1800,
        on=(Argument("service", "checkout"),),
    ),
    ShownLine(
        seq=28,
        kind=LineKind.GRANT_USED,
        at=NOON,
        tool="deploy",
        people=(LEAD,),
        arguments=WAITING.arguments,
    ),
    ShownLine(seq=29, kind=LineKind.GRANT_REVOKED, at=NOON, tool="deploy", who=LEAD),
    ShownLine(seq=30, kind=LineKind.PAUSED, at=NOON),
    ShownLine(seq=31, kind=LineKind.RESUMED, at=NOON),
)
_THREAD = (
    *STEPS[1:3],
    ShownLine(
        seq=5,
        kind=LineKind.DONE,
        at=NOON + 1363,
        tool="deploy",
        people=(LEAD, OPS),
        editor=LEAD,
        asker=DANA,
        seconds=0.84,
        text='{"status": "deployed"}',
        carded=True,
    ),
    ShownLine(seq=6, kind=LineKind.DENIED, at=NOON, tool="deploy", who=LEAD, reason=DENIED.reason, asker=DANA),
)
_TALK: dict[str, Any] = {"asker": DANA, "carded": True, "headline": "Deploy checkout 2.14.0 to prod", "tool": "deploy"}
_NEWER = "https://example.slack.com/archives/C0DEPLOYS/p1795262400000200"
_NOTE = ((LEAD, "Checked with the team."),)
_NO_RULE = "No policy covers it, so nobody was asked. Whoever keeps the policy file can add one."
_LAPTOP = (Argument("model", "16 inch"), Argument("memory", 32))
THREAD_LINES = (
    ShownLine(seq=7, kind=LineKind.DONE, people=(OPS, LEAD), notes=_NOTE, **_TALK),
    ShownLine(seq=8, kind=LineKind.FAILED, people=(LEAD,), **_TALK),
    ShownLine(seq=9, kind=LineKind.REFUSED, people=(OPS, LEAD), drifted=True, card_link=_NEWER, **_TALK),
    ShownLine(seq=10, kind=LineKind.EXPIRED, **_TALK),
    ShownLine(seq=11, kind=LineKind.UNKNOWN, approvers=approvers("user:U0LEAD"), card_link=_CARD, **_TALK),
    ShownLine(seq=12, kind=LineKind.SETTLED, who=LEAD, yes=True, **_TALK),
    ShownLine(seq=13, kind=LineKind.GRANTED, people=(LEAD,), until=NOON + 1800, free=(Free("version"),), **_TALK),
    ShownLine(seq=14, kind=LineKind.GRANT_USED, people=(LEAD,), arguments=WAITING.arguments, **_TALK),
    ShownLine(
        seq=15, kind=LineKind.CALL_REFUSED, tool="drop_table", arguments=(Argument("name", "orders"),), said=_NO_RULE
    ),
    ShownLine(
        seq=16,
        kind=LineKind.VOTE_FELL,
        who=OPS,
        editor=LEAD,
        notified=approvers("user:U0OPS"),
        card_link=_CARD,
        **_TALK,
    ),
    ShownLine(seq=17, kind=LineKind.VOTE_REFUSED, who=DANA, why=Reason.TURN_AUTHOR, **_TALK),
    ShownLine(seq=18, kind=LineKind.APPROVED, question=True, people=(LEAD,), arguments=_LAPTOP, headline=QUESTION.hint),
    ShownLine(seq=19, kind=LineKind.STOPPED, who=DANA),
)
THREAD = tuple(replace(one, headline="Deploy checkout 2.14.0 to prod") for one in _THREAD)
HISTORY = replace(
    WAITING,
    revision=2,
    version=9,
    arguments=(Argument("service", "checkout"), Argument("version", "2.14.1"), Argument("env", "prod")),
)
LISTED = replace(HOME, waiting=HOME.waiting[:2], here=HOME.waiting[2:3], more_waiting=0)
EMPTY = HomeView(version=1)
_UNSETTLED = replace(UNKNOWN, card_link=_CARD)
HOME_UNKNOWN = replace(EMPTY, waiting=(_UNSETTLED, replace(AGAIN, id="again", card_link=_CARD)))
LISTED_UNKNOWN = replace(EMPTY, here=(_UNSETTLED,))
SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "service": {"type": "string"},
        "version": {"type": "string", "description": "What to roll out"},
        "env": {"type": "string", "enum": ["dev", "staging", "prod"]},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 20},
        "dry_run": {"type": "boolean", "description": "Only say what would happen"},
        "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
    },
    "required": ["service", "version"],
}
EDITABLE = replace(WAITING, editable=("version", "env", "replicas", "dry_run", "when"))
VERDICTS = {
    "not_yours": (WAITING, Verdict(confirmation="c7Qd2m", refusal=Refusal(reason=Reason.TURN_AUTHOR))),
    "counted": (WAITING, Verdict(confirmation="c7Qd2m", kind=LineKind.APPROVAL, votes=1)),
    "decided": (WAITING, Verdict(confirmation="c7Qd2m", kind=LineKind.APPROVAL, decided=True)),
    "older": (WAITING, Verdict(confirmation="c7Qd2m", refusal=Refusal(reason=Reason.OLDER_REVISION))),
    "late": (DENIED, Verdict(confirmation="c7Qd2m", refusal=Refusal(reason=Reason.TOO_LATE, state="denied"))),
}
HUGE = replace(LONG, arguments=(*LONG.arguments, Argument("dump", "x" * 400_000)))
LONG_EDITABLE = replace(LONG, editable=("options", "script"))
