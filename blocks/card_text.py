"""The texts of a card: its title, what became of the call, whose approval is missing, and what else to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blocks import words
from blocks.content import Space, headline, result
from blocks.readable import LONGEST_TITLE
from blocks.rich import (
    Box,
    Channel,
    Group,
    Line,
    Piece,
    Prose,
    Quote,
    Say,
    TextSpan,
    User,
    When,
    code,
    join,
    join_list,
    line,
    name,
    say,
)
from blocks.text import fit_visible, plain
from blocks.values import spell_on_one_line
from blocks.view import (
    ABSENT,
    AgentUnreachable,
    AnsweredOutside,
    Approvers,
    Argument,
    CardView,
    EndsTurn,
    Face,
    GrantView,
    Notice,
    NotSealed,
    Parked,
    Paused,
    VoteSide,
)

_OPEN = (Face.WAITING, Face.UNKNOWN)
_PEOPLE = 8


def title(view: CardView) -> tuple[TextSpan, ...]:
    return say(_title(view), what=Prose(headline(view)), agent=Prose(view.agent))


def heading(view: CardView) -> str:
    """The title for a header block, which takes plain text."""
    what, agent = plain(headline(view), LONGEST_TITLE), plain(view.agent, LONGEST_TITLE)
    template = _title(view)
    if "{what}" not in template:
        return template.replace("{agent}", agent)
    ends = what.endswith(("?", "!")) and template.endswith("{what}?")
    return (template.removesuffix("?") if ends else template).replace("{what}", what)


def _title(view: CardView) -> str:
    if view.question:
        return words.TITLES_QUESTION.get(view.face, words.TITLES[view.face])
    if view.operation and view.face in words.TITLES_OPERATION:
        return words.TITLES_OPERATION[view.face]
    if view.face is Face.WAITING and view.attempt > 1:
        return words.TITLE_AGAIN
    if view.face is Face.APPROVED and any(isinstance(notice, Paused) for notice in view.notices):
        return words.TITLE_PAUSED
    if view.face is Face.SETTLED and view.happened is not True:
        return words.TITLE_NOBODY_KNOWS if view.happened is None else words.TITLE_NO_EFFECT
    return words.TITLES[view.face]


# -- the state of the call


def confirm_withdraw(view: CardView) -> tuple[str, str]:
    """The question before a withdrawal, and its consequence."""
    return words.CONFIRM_WITHDRAW_QUESTION if view.question else words.CONFIRM_WITHDRAW


def outcome(view: CardView, room: Space) -> tuple[list[Piece], bool]:
    """What the card says about its state, and whether some of it had to be cut."""
    pieces: list[Piece] = [Line(_sentence(view))] if view.face not in _OPEN else []
    cut = False
    if view.result is not ABSENT and view.face in (Face.DONE, Face.SETTLED, Face.ELSEWHERE):
        drawn, cut = result(view.result, room)
        pieces += drawn
    elif left := _end_text(view):
        text, as_code = left
        done = fit_visible(text, room.result, room.lines, keep="\n\t")
        pieces.append(Box(done.text) if as_code else Quote(done.text))
        cut = not done.whole
    if view.face is Face.UNKNOWN:
        return _unknown_outcome(view, room)
    return pieces, cut


def _end_text(view: CardView) -> tuple[str, bool] | None:
    """The text from an agent, a tool or a person, and whether it is code."""
    match view.face:
        case Face.FAILED if view.error:
            return view.error, True
        case Face.DENIED | Face.REFUSED | Face.WITHDRAWN | Face.ELSEWHERE | Face.SETTLED if view.reason:
            return view.reason, False
    return None


def _about_question(view: CardView) -> tuple[TextSpan, ...]:
    people = by(view.decided_by)
    match view.face:
        case Face.APPROVED:
            begin = say(words.ANSWERED_BY, people=people) + (() if view.notices else say(words.ANSWER_WAITS))
            return begin + (say(words.ANSWER_SEND_BY, when=When(view.start_by)) if view.start_by else ())
        case Face.DONE:
            return say(words.ANSWERED_BY, people=people)
        case Face.EXPIRED:
            return say(words.NO_ANSWER_BY, when=When(view.expires_at or 0))
        case Face.LAPSED:
            return say(words.ANSWER_LAPSED, people=people)
        case Face.WITHDRAWN if view.decided_by:
            return say(words.QUESTION_WITHDRAWN_BY, people=people)
        case Face.WITHDRAWN:
            return say(words.QUESTION_WITHDRAWN)
        case Face.ELSEWHERE:
            return say(words.QUESTION_ELSEWHERE)
        case Face.DENIED:
            return say(words.NO_ANSWER)
    return say(words.ANSWER_NOT_TAKEN)


def _sentence(view: CardView) -> tuple[TextSpan, ...]:
    if view.asked_anew:
        return say(words.ASKED_ANEW)
    if view.left_behind:
        return say(words.LEFT_BEHIND)
    if view.operation and view.face in words.OPERATION_ENDS:
        return say(words.OPERATION_ENDS[view.face], people=by(view.decided_by))
    if view.question and view.face in words.TITLES_QUESTION:
        return _about_question(view)
    people = by(view.decided_by)
    approved = say(" " + words.APPROVED_BY, people=people) if view.decided_by else ()
    match view.face:
        case Face.APPROVED:
            begin = say(words.APPROVED_BY, people=people) + (() if view.notices else say(words.APPROVED_WAITS))
            return begin + (say(words.APPROVED_START_BY, when=When(view.start_by)) if view.start_by else ())
        case Face.RUNNING:
            begun = say(words.RUNNING_SINCE, when=When(view.started_at)) if view.started_at else say(words.RUNNING)
            return begun + approved
        case Face.DONE:
            nothing = say(" " + words.NO_RESULT) if view.result is ABSENT else ()
            return say(words.DONE, took=_duration(view)) + nothing + approved
        case Face.FAILED:
            return say(words.FAILED, took=_duration(view, words.TOOK_UNTIL_FAILED)) + approved
        case Face.DENIED:
            return say(words.DENIED_BY, people=people) if view.decided_by else say(words.DENIED)
        case Face.EXPIRED:
            votes = words.votes(len(_users(view, VoteSide.APPROVE)), view.quorum)
            template = words.EXPIRED if view.expires_at is None else words.EXPIRED_AT
            return say(template, votes=votes, when=When(view.expires_at or 0))
        case Face.LAPSED:
            template = words.LAPSED if view.start_by is None else words.LAPSED_AT
            return say(template, people=people, when=When(view.start_by or 0))
        case Face.WITHDRAWN:
            return say(words.WITHDRAWN_BY, people=people) if view.decided_by else say(words.WITHDRAWN)
        case Face.ELSEWHERE:
            return say(words.ELSEWHERE[view.outside])
        case Face.SETTLED:
            if view.happened is None:
                return say(words.NOBODY_KNOWS)
            return say(words.SETTLED[view.happened], people=people)
    return say(words.REFUSED) + approved


def _duration(view: CardView, template: str = words.TOOK) -> str:
    return "" if view.duration is None else template.format(duration=words.duration(view.duration))


_CHECKS = 5


def _unknown_outcome(view: CardView, room: Space) -> tuple[list[Piece], bool]:
    """What is known about a call with an unknown outcome, and what to check. A card says only what is needed to
    answer."""
    row = say(words.UNKNOWN) if view.started_at is None else say(words.UNKNOWN_SINCE, when=When(view.started_at))
    if room.exact:
        row += say(words.UNKNOWN_STAYS)
        row += say(" " + words.APPROVED_BY, people=by(view.decided_by)) if view.decided_by else ()
    if not view.checks:
        return [Line((*row, *say(words.CHECK_ITSELF)))], False
    most = len(view.checks) if room.exact else _CHECKS
    checks = [fit_visible(check, room.hint) for check in view.checks[:most]]
    cut = len(view.checks) > most or not all(check.whole for check in checks)
    return [Line((*row, *say(words.CHECK))), *(Quote(check.text) for check in checks)], cut


# -- the facts around it


def approval_status(view: CardView, most: int = _PEOPLE) -> list[Line]:
    """For an open request: who approved, how many approvals are missing and from whom, and until when. Only some people
    are named."""
    return [Line(row)] if (row := _voting_status(view, most)) else []


def notices(view: CardView) -> list[Line]:
    """What people should know in any state: a grant that continues, and problems."""
    lines = [grant_text(view.grant)] if view.grant else []
    return [*lines, *map(_notice, view.notices)]


def small_facts(view: CardView) -> list[Line]:
    """What was edited, what is hidden, which attempt this is, whether the arguments are known to be the tool's."""
    return [Line(row)] if (row := _revision_notes(view)) else []


def _voting_status(view: CardView, most: int) -> tuple[TextSpan, ...]:
    """`Approved by @ops · Needs 1 more approval from @oncall · expires today at 09:05`."""
    if view.face is Face.UNKNOWN:
        votes = [_run_again_votes(view)] if view.votes else []
        return join([*votes, _deciders(view, words.MAY_DECIDE, most)], words.DOT)
    if view.face is not Face.WAITING:
        return ()
    voted = _users(view, VoteSide.APPROVE)
    parts = [say(words.APPROVED_SO_FAR, people=by(voted))] if voted else []
    needed = (Say(words.needed(len(voted), view.quorum), bold=True),)
    template = words.MAY_ANSWER if view.question else words.NEEDED_FROM
    parts.append(_deciders(view, template, most, needed=needed))
    if view.expires_at:
        parts.append(say(words.UNTIL, when=When(view.expires_at)))
    return join(parts, words.DOT)


def _run_again_votes(view: CardView) -> tuple[TextSpan, ...]:
    users = _users(view, VoteSide.RUN_AGAIN)
    votes = (Say(words.votes_again(len(users), view.quorum), bold=True),)
    return say(words.VOTES_BY, votes=votes, people=by(users))


def _users(view: CardView, verdict: VoteSide) -> list[str]:
    return [vote.user for vote in view.votes if vote.verdict is verdict]


def _deciders(view: CardView, template: str, most: int, **spans: tuple[TextSpan, ...]) -> tuple[TextSpan, ...]:
    """The people who can still decide. Somebody who is named and has approved already is left out."""
    voted = {vote.user for vote in view.votes}
    left = replace(view.approvers, users=tuple(user for user in view.approvers.users if user not in voted))
    named = approvers(left, most) or approvers(view.approvers, most)
    if not named:
        return say(words.NOBODY_MAY_ANSWER if view.question else words.NOBODY_MAY_DECIDE)
    row = say(template, approvers=named, **spans)
    if view.escalated_to and (leads := approvers(view.escalated_to, most)):
        row += (Say(words.DOT), *say(words.ESCALATED_TO, approvers=leads))
    return row


def approvers(who: Approvers, most: int = _PEOPLE) -> tuple[TextSpan, ...]:
    """`@oncall, @lead or whoever my.rota:on_call names`; empty when nobody is named."""
    named: list[Sequence[TextSpan]] = [(Group(group),) for group in who.groups]
    named += [(User(user),) for user in who.users]
    for email in who.emails:
        known = (User(email.user),) if email.user else (code(email.address), Say(words.UNRESOLVED))
        named.append(known)
    named += [say(words.CALLABLE, name=code(function)) for function in who.callables]
    if len(named) > most:
        named = [*named[:most], say(words.more(len(named) - most))]
    return join(named, last=words.OR)


def by(users: Sequence[str]) -> tuple[TextSpan, ...]:
    if not users:
        return say(words.SOMEBODY)
    spans: list[TextSpan] = [User(user) for user in users[:_PEOPLE]]
    if len(users) > _PEOPLE:
        spans.append(Say(words.more(len(users) - _PEOPLE)))
    return join_list(spans)


def _revision_notes(view: CardView) -> tuple[TextSpan, ...]:
    parts: list[Sequence[TextSpan]] = []
    if view.wants_payload:
        pass  # an answer is not an edit
    elif view.edited_by:
        parts.append(say(words.EDITED_BY, who=User(view.edited_by)))
    elif view.diff:
        parts.append(say(words.EDITED))
    if view.attempt > 1:
        parts.append(say(words.ATTEMPT, number=str(view.attempt)))
    if view.hidden:
        parts.append(say(words.hidden(view.hidden)))
    if view.unbound and view.face is Face.WAITING:
        parts.append(say(words.UNBOUND))
    return join(parts, words.DOT)


def grant_text(grant: GrantView, *, listed: bool = False) -> Line:
    """`listed`: among grants of other conversations, so that it says where it holds."""
    calls, uses = calls_like(grant.tool, grant.on), words.uses(grant.uses, grant.used)
    place = Channel(grant.channel) if grant.channel else words.DIRECT_MESSAGES
    template = words.GRANT_LISTED if listed else words.GRANT
    return line(template, who=by(grant.by), calls=calls, when=When(grant.until), uses=uses, place=place)


def calls_like(tool: str, on: Sequence[Argument]) -> tuple[TextSpan, ...]:
    """`Calls of deploy with service checkout`: what a grant covers. The card of its own call shows it in full."""
    named = code(tool)
    bound: list[Sequence[TextSpan]] = [(name(a.name), Say(" "), _value_span(a)) for a in on[:_BOUND]]
    if on[_BOUND:]:
        bound.append(say(words.more(len(on) - _BOUND)))
    return say(words.CALLS_WITH, tool=named, on=join(bound, last=words.AND)) if bound else say(words.CALLS, tool=named)


_BOUND = 5


def _value_span(argument: Argument) -> TextSpan:
    if argument.masked:
        return Say(words.HIDDEN_VALUE)
    return code(spell_on_one_line(argument.value, 200))


def _notice(notice: Notice) -> Line:
    match notice:
        case Paused(None, _):
            return line(words.PAUSED)
        case Paused(by, reason):
            why = (Say(words.BECAUSE), Prose(reason)) if reason else ()
            return line(words.PAUSED_BY, who=User(by or ""), why=why)
        case AgentUnreachable(until):
            return line(words.UNREACHABLE, when=When(until))
        case Parked():
            return line(words.PARKED)
        case AnsweredOutside():
            return line(words.ANSWERED_OUTSIDE)
        case NotSealed():
            return line(words.NOT_SEALED)
        case EndsTurn():
            return line(words.ENDS_TURN)
