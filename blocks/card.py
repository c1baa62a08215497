"""The card: what will run, who may decide, and the buttons that can be used now. Always drawn as a whole from its
row. Where the card is elsewhere, a line leads to it; the asker may not see that card, so they can withdraw there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import (
    CARD,
    LIST,
    TOOL_IN_TITLE,
    Space,
    asked_by_line,
    content,
    headline,
    named_value,
    result,
)
from adk_confirm.blocks.click_ids import Action, CardMark, block_id, checked_id, more_value
from adk_confirm.blocks.kit import (
    JsonObject,
    Message,
    actions,
    button,
    confirm,
    header,
    message,
    option,
    section,
    small_print,
)
from adk_confirm.blocks.mentions import MOST_NAMED, approver_names, people_names
from adk_confirm.blocks.readable import LONGEST_TITLE, readable_name
from adk_confirm.blocks.rich_text import (
    Box,
    Channel,
    Line,
    Link,
    Piece,
    Prose,
    Quote,
    Say,
    Supplied,
    TextSpan,
    User,
    When,
    call_name,
    code,
    join,
    join_list,
    line,
    linked,
    name,
    part,
    quoted,
    rich,
    say,
    spoken,
    text,
)
from adk_confirm.blocks.shown import ABSENT, Approver, ApproverKind, GrantOffer, GrantView, OutcomeKind, Shown, State
from adk_confirm.blocks.shown_lines import ShownLine
from adk_confirm.blocks.text import MESSAGE_TEXT, fit_visible, plain, prose, units
from adk_confirm.runtime.jsontypes import Json


def card(view: Shown) -> Message:
    """The message that shows a confirmation in one place. Its parts keep their places in every state: title, status,
    what was asked, what people said, small print, buttons."""
    what = content(view, CARD)
    became, returned, cut = outcome(view, CARD)
    blind = what.blind and view.stage is State.WAITING
    runs = [*became, *what.runs, *([Line(returned)] if returned else ())]
    late = _problems(view) if view.stage is State.APPROVED else []
    said = [*people_said(view), *what.words, *(one for one in notices(view) if one not in late), *_grant_offered(view)]
    if len(what.small) > _BESIDE and not view.diff:  # so many values in grey would be a wall
        runs.append(Line(join(what.small, words.DOT)))
        what.small.clear()
    state = [*warnings(view), *status(view), *late, asked_by_line(view)]
    tool = () if view.question else (code(view.tool, TOOL_IN_TITLE),)
    small = [*([Line(facts)] if (facts := join([*tool, *what.small], words.DOT)) else ()), *small_facts(view)]
    if cut or what.cut:
        everything = "Review… shows all of it." if blind else "All of it: ⋯ → All details."
        small.append(line(f"Shortened here. {everything}"))

    def named(part: str) -> str:
        return block_id(part, view.ref, view.version)

    blocks = [header(heading(view), named("title")), section(state, named("state"), _menu(view))]
    blocks += [rich(pieces, named(part)) for part, pieces in (("what", runs), ("said", said)) if pieces]
    blocks += [*small_print(small, named("facts")), *actions(buttons(view, blind=what.blind), named("buttons"))]
    return Message(
        text=text([Line(title(view)), *state], runs, [*said, *small], MESSAGE_TEXT),
        blocks=tuple(blocks),
        metadata=CardMark(view.id, view.revision, view.version).metadata(),
    )


_BESIDE = 4
ASKED_AGAIN = (State.DENIED, State.EXPIRED, State.LAPSED, OutcomeKind.FAILED, OutcomeKind.REFUSED)
"""The asker can ask again for a call that ended so. Whoever withdrew it did not want it."""


def buttons(view: Shown, *, blind: bool) -> list[JsonObject]:
    """The buttons that can be used now. Slack shows them to everybody; rights are checked when somebody presses one."""
    row = _first_buttons(view, blind=blind)
    if denies := deny_button(view, "danger"):
        row.append(denies)
    if view.stage is State.WAITING and not view.question and _edits(view):
        row.append(button(Action.EDIT, "Edit…", view.ref.encode(), about=view.tool))
    if approvable(view) and view.grant_offer:
        row.append(button(Action.GRANT_OPEN, words.ALLOW_MORE, view.ref.encode(), about=view.tool))
    if view.grant:
        row.append(revoke_button(view.grant))
    if view.stage in ASKED_AGAIN and view.asked_by and not (view.question or view.drifted):
        row.append(button(Action.ASK_AGAIN, "Ask again", checked_id(view.id), about=view.tool))
    return row


def deny_button(view: Shown, style: str | None = None) -> JsonObject | None:
    if view.stage is not State.WAITING or view.question:
        return None
    return button(Action.DENY, words.DENY_OPENS, view.ref.encode(), about=view.tool, style=style)


def _menu(view: Shown) -> JsonObject:
    """The entries behind "⋯"."""
    entries = (
        ("Approve with a note…", Action.APPROVE_OPEN, approvable(view) and view.approve_note == "optional"),
        ("All details", Action.SEE, True),
        (words.WITHDRAW_OPENS, Action.WITHDRAW_OPEN, view.stage is State.WAITING),
        ("History", Action.HISTORY, True),
    )
    options: list[Json] = [option(more_value(act, view.ref), label) for label, act, there in entries if there]
    return part("overflow", action_id=Action.MORE.value, options=options)


def _edits(view: Shown) -> bool:
    return bool(view.editable) and not view.wants_payload and not view.too_few_may  # a payload's form is Approve's


def approvable(view: Shown) -> bool:
    nobody = view.too_few_may or (view.too_few_now and not able_now(view))
    return view.stage is State.WAITING and not (view.lacks_preview or nobody)


def _first_buttons(view: Shown, *, blind: bool) -> list[JsonObject]:
    """The button that most people want, or all answers about an unknown outcome. What opens a form ends with "…"."""
    if view.stage is OutcomeKind.UNKNOWN:
        return outcome_buttons(view, blind=blind)
    if not approvable(view):
        return []
    value = view.ref.encode()
    if view.question:
        return [button(Action.APPROVE_OPEN, "Answer…", value, about=view.agent, style="primary")]
    # It opens a view to show the whole call, or to let people fill in a payload.
    if blind or view.wants_payload or view.approve_note == "required":
        label = "Approve…" if view.wants_payload or not blind else words.REVIEW
        return [button(Action.APPROVE_OPEN, label, value, about=view.tool, style="primary")]
    texts, style = words.CONFIRM_APPROVE_LAST if view.quorum - len(view.voted) <= 1 else words.CONFIRM_APPROVE, None
    if view.attempt > 1:
        texts, style = words.run_again(len(view.voted), view.quorum, "approval")[:2], "danger"
    sure = confirm(headline(view), texts, words.APPROVE, style) if view.confirm_dialog or style else None
    return [button(Action.APPROVE, words.APPROVE, value, about=view.tool, style="primary", sure=sure)]


def _asking(
    view: Shown, action: Action, label: str, texts: tuple[str, str], verb: str, style: str | None = None
) -> JsonObject:
    """A button that asks once more, and says what follows."""
    sure = confirm(headline(view), texts, verb, style)
    return button(action, label, view.ref.encode(), about=view.tool, sure=sure)


def withdraw_button(view: Shown) -> JsonObject:
    return _asking(view, Action.WITHDRAW, words.WITHDRAW_OPENS, confirm_withdraw(view), words.WITHDRAW, "danger")


def revoke_button(grant: GrantView) -> JsonObject:
    what = "".join(spoken(span) for span in calls_like(grant))
    sure = confirm(what, words.CONFIRM_REVOKE, words.REVOKE, "danger")
    return button(Action.REVOKE, words.REVOKE_OPENS, checked_id(grant.id), about=grant.tool, sure=sure)


def outcome_buttons(view: Shown, *, blind: bool) -> list[JsonObject]:
    title, follows, verb = words.run_again(len(view.voted), view.quorum)
    sure = None if blind else confirm(headline(view), (title, follows), verb, "danger")
    action = Action.RUN_AGAIN_OPEN if blind else Action.RUN_AGAIN
    return [
        _asking(view, Action.HAPPENED, words.HAPPENED, words.CONFIRM_HAPPENED, words.HAPPENED),
        _asking(view, Action.NOT_HAPPENED, words.NOT_HAPPENED, words.CONFIRM_DID_NOT, words.NOT_HAPPENED),
        button(action, words.RUN_AGAIN, view.ref.encode(), about=view.tool, style="danger", sure=sure),
    ]


def pointer(view: Shown, *, channel: str | None, people: Sequence[str] = (), trouble: str | None = None) -> Message:
    """The thread's message that says where the card is: in `channel`, or without one in direct messages to `people`.
    `trouble`: why it can't be posted there."""
    where = "is in {channel}." if channel else "went to {people} as a direct message."
    if trouble is not None:
        where = f"can't be posted in {'{channel}' if channel else 'direct messages'}. {{why}}"
    sentence = line(
        f"The card for {{call}} {where}",
        call=call_name("" if view.question else headline(view), view.tool, view.card_link),
        channel=Channel(channel or ""),
        people=people_names(people),
        why=prose(trouble or "", 300),
    )
    row = [withdraw_button(view)] if view.stage is State.WAITING and trouble is None else []
    below = actions(row, f"withdraw.{view.id}.{view.version}")
    return message([sentence], f"pointer.{view.id}.{view.version}", *below)


def note(view: Shown) -> Message:
    """A direct message to an approver that links to the card."""
    asker = User(view.asked_by) if view.asked_by else words.SOMEBODY
    what = linked(headline(view).removesuffix("" if view.question else "?"), view.card_link)
    said = say(
        "💬 {agent} asks: {what}" if view.question else "⏳ {what}? {asker} needs your approval",
        what=what,
        asker=asker,
        agent=Prose(view.agent),
    )
    until = (Say(words.DOT), *say(words.UNTIL, when=When(view.expires_at))) if view.expires_at else ()
    pieces = [Line((*said, *until)), *content(view, LIST).words]
    return message(pieces, f"note.{view.id}")


# -- its texts

_OPEN = (State.WAITING, OutcomeKind.UNKNOWN)
SAME_DAY = 12 * 3600  # so soon after the question, the time says enough


def title(view: Shown) -> tuple[TextSpan, ...]:
    return say(_title(view), what=linked(headline(view), view.card_link))


def heading(view: Shown) -> str:
    """The title for a header block, which takes plain text."""
    what, template = plain(headline(view), LONGEST_TITLE), _title(view)
    ends = what.endswith(("?", "!")) and template.endswith("{what}?")
    return (template.removesuffix("?") if ends else template).replace("{what}", what)


def _title(view: Shown) -> str:
    if view.stage is State.APPROVED and view.tries_until and not view.paused:
        return "🔌 Agent unreachable: {what}"
    for kind in [words.TITLES_QUESTION] * view.question + [words.TITLES_OPERATION] * view.operation:
        if view.stage in kind:
            return kind[view.stage]
    if view.stage is State.WAITING and (view.attempt > 1 or view.approved_preview):
        return "⚠️ Run again? {what}" if view.attempt > 1 else "⚠️ Plan changed: {what}?"
    if view.stage is State.APPROVED and view.paused:
        return "⏸️ Paused: {what}"
    if view.stage is State.ELSEWHERE and not view.question:
        return f"🚨 {words.OUTSIDE[view.outside].capitalize()} outside this app: {{what}}"
    return words.TITLES[view.became]


# -- the state of the call


def confirm_withdraw(view: Shown) -> tuple[str, str]:
    """The question before a withdrawal, and its consequence."""
    return words.CONFIRM_WITHDRAW_QUESTION if view.question else words.CONFIRM_WITHDRAW


def outcome(view: Shown, room: Space) -> tuple[list[Piece], tuple[TextSpan, ...], bool]:
    """How the call failed, or what it returned, as small print if that is short; and whether some of it had to be
    cut."""
    if view.result is ABSENT:
        if text := view.error or (view.reason if view.stage is OutcomeKind.REFUSED else None):
            done = fit_visible(text, room.result, room.lines, keep="\n\t")
            said = Box(done.text) if view.error else Quote(done.text, (Say("the agent's runtime"),))
            return [said], (), not done.whole
        nothing = view.stage is OutcomeKind.DONE and not (view.question or view.operation)
        return [], say("Returned nothing") if nothing else (), False
    if view.result in (None, "", {}, {"result": None}):
        return [], say("Returned nothing"), False
    if view.became == words.HANDED_OVER and not room.exact:  # the status says it
        return [], (), False
    below = (*view.arguments, *(view.payload if view.answered else ()))
    drawn, cut = result(view.result, room, view.formats, below)
    if room.small and not cut and len(drawn) == 1 and isinstance(drawn[0], Line):
        returned = (Say(f"{words.RESULT} "), *drawn[0].spans[2:])
        if sum(units(spoken(span)) for span in returned) <= _RETURNED:
            return [], returned, False
    return drawn, (), cut


_RETURNED = 70


def people_said(view: Shown) -> list[Piece]:
    """The words of those who decided: notes with approvals, or why not."""
    if view.reason and view.stage is not OutcomeKind.REFUSED:
        by = people_names(view.decided_by) if view.decided_by else ()
        return [Quote(fit_visible(view.reason, _WORDS, keep="\n\t").text, by)]
    return [Quote(fit_visible(note, _WORDS, keep="\n\t").text, (User(who),)) for who, note in view.notes]


_WORDS = 1000  # as much as the forms for them take


def after_a_no(asked: Shown | ShownLine) -> str:
    """What followed from a decision that was no approval."""
    if asked.question:
        return "The agent got no answer."
    return "The agent got a rejection." if asked.operation else "It did not run."


def status(view: Shown, most: int = MOST_NAMED) -> list[Line]:
    """Who decides, or who decided and what came of it: right below the title, in every state."""
    if view.stage is OutcomeKind.UNKNOWN:
        begun = say(" It started {when}" if view.started_at else " It started", when=When(view.started_at or 0))
        alone = "" if view.voted else " It won't run again by itself."
        knows = (Say(words.CHECK_FIRST, bold=True), *begun, Say(", and nobody knows how it ended." + alone))
        return [Line(knows), *approval_status(view, most)]
    return approval_status(view, most) if view.stage is State.WAITING else [Line(state_sentence(view))]


def state_sentence(view: Shown) -> tuple[TextSpan, ...]:
    voted = {who: When(at, clock=at - view.asked_at < SAME_DAY) for who, at in view.voted_at.items()}
    people = people_names(view.decided_by, voted)
    no = "It may have run all the same." if view.outside else after_a_no(view)
    runs, yes = not (view.question or view.operation), "Answered" if view.question else "Approved"

    def decided(verb: str, after: str = "") -> tuple[TextSpan, ...]:
        return say(f"{verb} by {{people}}.{after}" if view.decided_by else f"{verb}.{after}", people=people)

    approved = say("Approved by {people}", people=people) if view.decided_by else ()
    start = When(view.start_by or 0, clock=(view.start_by or 0) - view.asked_at < SAME_DAY)
    match view.stage:
        case State.WITHDRAWN if view.asked_anew:
            return say("The agent asked again. Use the newer card.")
        case State.APPROVED:
            waits = " It starts when the agent is free." if runs else " The agent gets it when it is free."
            by = f" It must {'start' if runs else 'get it'} by {{when}}."
            late = by if view.start_by and not view.tries_until else ""
            return decided(yes) + say("" if _problems(view) else waits) + say(late, when=start)
        case OutcomeKind.RUNNING:
            begun = say("started {when}", when=When(view.started_at)) if view.started_at else say("started")
            return join([*filter(None, (approved, begun))], words.DOT)
        case OutcomeKind.DONE if not runs:
            return decided(yes, " The agent has the answer.")
        case OutcomeKind.DONE | OutcomeKind.FAILED:
            time = took(view.duration)
            said = say("reported by {who}", who=name(view.reported_by)) if view.reported_by else ()
            if view.became == words.HANDED_OVER and isinstance(view.result, dict):
                whom, time = code(str(view.result["handed to"])), ""
                said = say(
                    "handed by {who} to {whom}, which does not report back. Check the system that it changes.",
                    who=name(view.reported_by or ""),
                    whom=whom,
                )
            ran = join([*filter(None, (approved, say(time) if time else (), said))], words.DOT) or say("It ran")
            return (*ran, Say(". "), Say(words.FAILED_STATUS, bold=True)) if view.stage is OutcomeKind.FAILED else ran
        case State.DENIED | State.WITHDRAWN:
            return decided("Denied" if view.stage is State.DENIED else "Withdrawn", f" {no}")
        case State.EXPIRED:
            votes = votes_of(view, len(view.voted))
            return say(f"Expired {{when}} with {{votes}}. {no}", votes=votes, when=When(view.expires_at))
        case State.LAPSED if runs:
            by = "had to start by {when}." if view.start_by else "did not start in time."
            return say(f"Approved by {{people}}. Not run: it {by}", people=people, when=start)
        case State.LAPSED:
            return say(f"{yes} by {{people}}, but the agent could not be reached in time.", people=people)
        case State.ELSEWHERE:
            may = "" if view.outside is False else " It may have run: check the system that it changes."
            return say("Somebody answered the agent directly: find out who. No vote here counted." + may)
        case OutcomeKind.HAPPENED | OutcomeKind.DID_NOT | OutcomeKind.NOBODY_KNOWS:
            ended = f"{{who}} said that it {words.STATES[view.stage]}."
            if view.stage is OutcomeKind.NOBODY_KNOWS:
                ended = "Nobody knows whether it took effect, not even the agent. Check the system."
            ended += " Approved by {people}." if view.approved_by else ""
            return say(ended, who=people_names(view.decided_by), people=people_names(view.approved_by, voted))
    if view.question:
        return say("The agent did not accept the answer.")
    newer = (Link(view.newer_link, "the newer card"),) if view.newer_link else "the newer card"
    cause = "It was refused before it started." if view.reason else no
    cause = "Its plan changed before it started. Use {newer}." if view.drifted else cause
    return join([say(cause, newer=newer), *([decided(yes)] if view.decided_by else [])], " ")


def took(seconds: float | None) -> str:
    return "" if seconds is None or seconds < 0.1 else f"took {words.duration(seconds)}"


def votes_of(asked: Shown | ShownLine, count: int) -> str:
    return words.votes(count, asked.quorum, "answer" if asked.question else "approval")


# -- the facts around it


def around(view: Shown) -> list[Piece]:
    """What people said, and what they should know, below the call in a window."""
    return [*people_said(view), *warnings(view), *notices(view)]


def approval_status(view: Shown, most: int = MOST_NAMED) -> list[Line]:
    """For an open request: who approved, how many approvals are missing and from whom, and until when. Only some people
    are named."""
    named = {one.value for one in _left(view)}
    asker = (view.asked_by,) if view.too_few_may and view.asked_by in named else ()
    spoke = view.spoke if view.stage is State.WAITING else ()
    only = view.too_few_may and not view.question and named <= {*asker, *spoke}  # then nobody else can deny
    asked = words.ONLY_ASKER if only else words.ASKER[view.question]
    talked = words.ONLY_SPEAKERS if only else words.SPEAKERS[view.question]
    rows = [_voting_status(view, most, deniers_follow=only)]
    rows += [say(asked, asker=User(one)) for one in asker]
    rows += [say(talked, people=people_names(spoke))] if spoke else []
    if view.too_few_may and not (view.escalates_at and view.escalates_to):
        rows.append(say(words.ADD_APPROVERS[view.question]))
    return [Line(row) for row in rows if row]


def notices(view: Shown) -> list[Line]:
    """What people should know in any state: a grant that continues, and problems."""
    given = [_grant(grant, When(grant.until, lead="until "), used=grant.used)] if (grant := view.grant) else []
    return [*given, *_problems(view)]


def warnings(view: Shown, length: int = 300) -> list[Line]:
    """What to know before approving: that an earlier attempt may have run; why nobody sees what the call would do, and
    whether it can be approved all the same."""
    if view.stage is not State.WAITING:
        return []
    text = f"Attempt {view.attempt - 1} may have taken effect: check first."
    earlier = [Line((Say(text, bold=True),))] if view.attempt > 1 else []
    if view.awaits_preview:
        return [*earlier, line("The edited call gets its plan. It can be approved after that.")]
    if view.preview is None or view.preview.failed is None:
        return earlier
    then, why = "Edit it to try again, or deny it." if _edits(view) else "Deny it, and ask again.", view.preview.failed
    nobody = (Say("Nobody can approve this", bold=True),)
    return [*earlier, line(words.PREVIEW_FAILED[view.lacks_preview], nobody=nobody, then=then, why=prose(why, length))]


def small_facts(view: Shown) -> list[Line]:
    """Facts in small print: what was edited, what is hidden, which attempt this is, whether the arguments are known to
    be the tool's."""
    parts: list[Sequence[TextSpan]] = []
    if view.attempt > 1 and view.stage is not State.WAITING:
        parts.append(say("Attempt {number}", number=str(view.attempt)))
    if hidden := view.hidden - sum(one.masked for one in (*view.arguments, *view.payload)):
        parts.append(say(words.hidden(hidden)))
    if view.unbound and view.stage is State.WAITING:
        parts.append(say("⚠️ The agent's server does not list this tool's arguments, so a default may be missing here."))
    return [Line(join(parts, words.DOT))] if parts else []


def _voting_status(view: Shown, most: int, *, deniers_follow: bool = False) -> tuple[TextSpan, ...]:
    """`Needs 1 more approval from @oncall · approved by @ops · expires today at 09:05`."""
    if view.stage is OutcomeKind.UNKNOWN:
        count = (Say(f"{words.votes(len(view.voted), view.quorum, 'vote')} to run it again", bold=True),)
        votes = say("{count}: {people}.\n", count=count, people=people_names(view.voted)) if view.voted else ()
        left = _left(view, (*view.voted, *_asker(view))) or _left(view)
        return (*votes, *approver_names(left, most), Say(" can answer."))
    if view.stage is not State.WAITING:
        return ()
    verb = "answer" if view.question else "approve"
    parts: list[tuple[TextSpan, ...]] = []
    later = _leads_later(view, "{leads} can {when}") if view.too_few_now else ()
    if view.too_few_may and view.able:
        few = f"{len(view.able)} {'person' if len(view.able) == 1 else 'people'} can approve"
        parts.append((Say(f"Needs {view.quorum} approvals, but only {few}", bold=True),))
    elif view.too_few_may:
        nobody = Say(f"Nobody can {verb} {'yet' if later else 'this'}", bold=True)
        parts.append((nobody, Say(": "), *later) if later else (nobody,))
    elif view.question:
        able = approver_names(able_now(view) or _left(view), most)
        parts.append(who_can(view, " answer", most=most) if later else (*able, Say(" can answer")))
    elif not view.lacks_preview:
        parts.append(_approvals_needed(view, most))
    if (view.lacks_preview or view.too_few_may) and view.approvers and not (view.question or deniers_follow):
        parts.append((*approver_names(_left(view, view.voted) or _left(view), most), Say(" can deny")))
    parts += [say("approved by {people}", people=people_names(view.voted))] if view.voted else []
    parts.append(say(words.UNTIL, when=When(view.expires_at)))
    return join(parts, words.DOT)


def _leads_later(view: Shown, template: str = "{leads} {when}") -> tuple[TextSpan, ...]:
    """Who else can decide, and from when. Nothing if nobody follows."""
    near = When(view.escalates_at, lead="from ", clock=view.escalates_at - view.asked_at < SAME_DAY)
    leads = approver_names(view.escalates_to) if view.escalates_at else ()
    return say(template, leads=leads, when=near) if leads else ()


def _approvals_needed(view: Shown, most: int) -> tuple[TextSpan, ...]:
    """`Needs 1 more approval from @oncall`; with those who can approve later, if it takes them."""
    needed = Say(words.needed(len(view.voted), view.quorum, view.approve_note == "required"), bold=True)
    if view.too_few_now and _leads_later(view):
        return (needed, Say(": "), *who_can(view, " approve", most=most))
    left = able_now(view) or _left(view)
    return (needed, Say(" from "), *approver_names(left, most))


def who_can(view: Shown, act: str, *out: str, most: int = MOST_NAMED) -> tuple[TextSpan, ...]:
    """`@oncall can approve now, @lead from 14:11`: who can act, without some people. Nothing if nobody can."""
    able = approver_names(able_now(view, *out), most)
    if not able:
        return _leads_later(view, f"{{leads}} can{act} {{when}}")
    row, later = say(f"{{able}} can{act}", able=able), _leads_later(view)
    return (*row, Say(" now, "), *later) if later else row


def able_now(view: Shown, *out: str) -> list[Approver]:
    """Those who can approve or answer, without some people; of a grant, those who can end it."""
    voted = (*view.voted, *view.spoke) if view.stage is State.WAITING else ()
    asker = _asker(view) if view.stage in (State.WAITING, OutcomeKind.UNKNOWN) else ()
    return [] if view.too_few_may else _left(view, (*out, *voted, *asker))


def _asker(view: Shown) -> Sequence[str]:
    """Who asked, unless the policy lets them decide."""
    return (view.asked_by,) if view.asked_by and view.asked_by not in view.able else ()


def _left(view: Shown, out: Sequence[str] = ()) -> list[Approver]:
    """Those whom the policy names, without some people."""
    named = (*view.approvers, *view.escalated_to)
    return [one for one in named if one.kind is not ApproverKind.USER or one.value not in out]


def audit_line(view: Shown) -> Line:
    """By which id somebody who may read the audit finds this confirmation."""
    tools = Say("all tools") if "*" in view.policy_tools else code(", ".join(view.policy_tools))
    return line("Policy for {tools} · audit id {id}", tools=tools, id=code(view.id[:8]))


_RUNS = (Say("Runs without asking", bold=True),)


def _grant(grant: GrantView | GrantOffer, time: When | str, runs: tuple[TextSpan, ...] = _RUNS, used: int = 0) -> Line:
    """What a grant allows or would allow, and for how long."""
    return line(words.GRANT, runs=runs, time=time, calls=calls_like(grant), uses=words.uses(grant.uses, used))


def _grant_offered(view: Shown) -> list[Line]:
    """What else the grant's button allows."""
    if not (offer := view.grant_offer) or not approvable(view):
        return []
    runs = (Say(words.ALLOW_MORE, bold=True), Say(" also stops asking"))
    return [_grant(offer, f"for {words.duration(offer.seconds)}", runs)]


def grant_scope(view: Shown, offer: GrantOffer) -> list[Line]:
    """What the next calls may be that run without asking, and for how long."""
    after = "the last approval" if view.quorum > 1 else "your approval"
    all_must = [line("Every approver must allow it.")] if view.quorum > 1 else []
    return [_grant(offer, f"for {words.duration(offer.seconds)} after {after}"), *all_must]


def calls_like(grant: GrantView | GrantOffer | ShownLine) -> tuple[TextSpan, ...]:
    """`deploy with service checkout, replicas up to 4 each, any version or env`: what a grant covers, in all places."""
    parts: list[Sequence[TextSpan]] = [join_list([*map(named_value, grant.on)], _BOUND)] if grant.on else []
    for limit in sorted({one.limit for one in grant.free}, reverse=True):
        named = [name(readable_name(one.name)) for one in grant.free if one.limit == limit]
        free = (
            (*join_list(named, _BOUND), Say(f" {limit}")) if limit else (Say("any "), *join_list(named, _BOUND, " or "))
        )
        parts.append([replace(one, bold=True) for one in free if isinstance(one, Say | Supplied)])
    start = "" if not parts else " with " if grant.free else " with exactly "
    tool = Prose(fit_visible(grant.tool, 60).text, bold=True)
    return (tool, *([Say(start)] if start else []), *join(parts))


_BOUND = 5


def _problems(view: Shown) -> list[Line]:
    lines: list[Line] = []
    if view.answered_outside and view.stage is not State.ELSEWHERE:  # there, title and state say it
        lines.append(line("🚨 Somebody answered the agent directly, outside this app. Find out who."))
    lines += [line(words.NOT_SEALED)] if view.unsealed else []
    if view.tries_until:
        does = "count" if view.question or view.operation else "run"
        until = When(view.tries_until, clock=view.tries_until - view.asked_at < SAME_DAY)
        lines.append(line(f"🔌 Trying again until {{when}}, else it won't {does}.", when=until))
    waits, by = (
        (words.PAUSED, words.PAUSED_BY) if view.stage is State.WAITING else (words.STARTS_LATER, words.STARTS_LATER_BY)
    )
    if view.paused and view.paused.by:
        lines.append(line(by, who=User(view.paused.by), why=quoted(view.paused.reason or "")))
    elif view.paused:
        lines.append(line(words.RESTARTING if view.paused.restarts else waits))
    return lines
