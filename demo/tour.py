"""The demo's tour: what to do next. It follows from the confirmations so far; nothing is stored.

Four chapters: two people approve what a deployment would change; an approver corrects an expense; nobody decides
about the next deployment; the bot crashes during a refund.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from adk_confirm.blocks.shown import SAID_BY_PEOPLE
from adk_confirm.bot.confirmation.confirmation import Confirmation, OutcomeKind, State
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.sandbox.page.controls import BotState, Controls, Hint
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.workspace.records import User

FIRST = "@adk-confirm deploy checkout 2.4.1 to prod"
STORIES = 4
SECOND = "@adk-confirm reimburse 1500 for the team dinner"
_LEFT_ALONE = "search"
THIRD = f"@adk-confirm deploy {_LEFT_ALONE} 2.0.0 to prod"
FOURTH = "@adk-confirm refund Ada 20 for the mug"
QUESTION = "@adk-confirm what was refunded?"

_END = Hint(
    "That was the tour. Try your own sentences or the Home tab, or see what was stored.",
    "Behind the scenes",
    {"panel": True},
)
START = "Start the bot"
CARD = "Open the card"


class Guide:
    """Gives hints. `rows` are all confirmations, oldest first; whoever follows the store keeps them up to date."""

    def __init__(self, people: Mapping[str, Person], channel: str, controls: Controls) -> None:
        self._people, self._channel, self._controls = people, channel, controls
        self.rows: Sequence[Confirmation] = ()

    def hint(self, person: User) -> Hint | None:
        raise NotImplementedError

    def _name_of(self, person: User) -> str:
        return next((name for name, each in self._people.items() if each.id == person.id), "")

    def _without_bot(self) -> Hint:
        if self._controls.state is BotState.STARTING:
            return Hint("The bot is starting. Messages wait until it is there.")
        if any(_is_running(row) for row in self.rows):
            return Hint("The bot crashed in the middle of the call. Start it again.", START, {"do": "start"})
        return Hint("The bot is down. Messages wait; clicks fail, as in Slack.", START, {"do": "start"})

    def _switch_hint(self, name: str, why: str) -> Hint:
        return Hint(why, f"Be {name}", {"be": self._people[name].id})


class Tour(Guide):
    def hint(self, person: User) -> Hint | None:
        me = self._name_of(person)
        if self._controls.state is not BotState.RUNNING:
            return self._without_bot()
        refunds = [row for row in self.rows if row.asked.tool == "refund" and _may_crash(row)]
        expenses = [row for row in self.rows if row.asked.tool == "reimburse"]
        big = [row for row in self.rows if row.asked.tool == "deploy" and row.policy.quorum == 2]
        left = [row for row in big if row.asked.arguments.get("service") == _LEFT_ALONE]
        deployments = [row for row in big if row not in left]
        if all(any(map(_is_over, story)) for story in (deployments, expenses, left, refunds)):
            return _END
        if refunds and not _is_over(refunds[-1]):  # what somebody began has its hints, in whatever order
            story, hint = 4, self._crash(me, refunds[-1])
        elif expenses and expenses[-1].state is State.WAITING:
            story, hint = 2, self._correct(me, expenses[-1])
        elif left and left[-1].state is State.WAITING:
            story, hint = 3, self._wait(left[-1])
        elif not deployments:
            story, hint = 1, self._ask(me, FIRST, "As ana, ask for a deployment.")
        elif deployments[-1].state is State.WAITING:
            story, hint = 1, self._decide(me, deployments[-1])
        elif not expenses:
            story, hint = 2, self._ask(me, SECOND, "Approvers can correct a call. As ana, ask for money.")
        elif not left:
            story, hint = 3, self._ask(me, THIRD, "And if nobody decides? As ana, ask for another deployment.")
        elif not refunds:
            story, hint = 4, self._ask(me, FOURTH, "Now a crash in the middle of a call. As ana, ask for a refund.")
        else:
            story, hint = 4, self._crash(me, refunds[-1])
        return hint if hint is _END else replace(hint, step=f"{story} of {STORIES}")

    def _ask(self, me: str, text: str, why: str) -> Hint:
        if me != "ana":
            return self._switch_hint("ana", why)
        return Hint(why, "Write it for me", {"say": text, "channel": self._channel})

    def _decide(self, me: str, row: Confirmation) -> Hint:
        if not row.approvals:
            if me != "ben":
                return self._switch_hint("ben", "Two people on call have to approve. ben is one.")
            return open_card(row, "Look at what would change, then press Approve.")
        if me != "chris":
            return self._switch_hint("chris", "One more approval is needed, from somebody else: chris.")
        return open_card(row, "Press Approve. If the plan is still the same, it runs.")

    def _correct(self, me: str, row: Confirmation) -> Hint:
        if me != "ben":
            return self._switch_hint("ben", "The dinner cost 1200. ben is on call, and can correct that.")
        return open_card(row, "Press Edit… and make the amount 1200. That approves it, too.")

    def _wait(self, row: Confirmation) -> Hint:
        if row.remind_at is not None:
            return _pass_time_hint(10, "Nobody decides: let 10 minutes pass. Those on call are reminded.")
        if not row.escalated:
            return _pass_time_hint(10, "Still nobody: after 20 minutes lee is asked as well.")
        return _pass_time_hint(60, "After an hour the request expires. That means no.")

    def _crash(self, me: str, row: Confirmation) -> Hint:
        if row.state is State.WAITING:
            if not self._controls.crashes_in_call:
                text = "Before lee approves it, let the bot crash in the middle of this call."
                return Hint(text, "Crash during the next call", {"do": "crash_in_call"})
            if me != "lee":
                return self._switch_hint("lee", "lee may approve refunds.")
            return open_card(row, "Press Approve. The bot will not survive it.")
        if _is_running(row):
            return Hint("Wait a moment: the card will say what came of it.")
        if row.outcome is not None and row.outcome.kind is OutcomeKind.UNKNOWN:
            if (answer := self._answer_about(row)) is None:
                who = row.revision.arguments.get("customer", "the customer")
                why = f"Nobody knows whether {who} got the money, so nothing runs again. Ask the agent."
                return Hint(why, "Write the question", {"say": QUESTION, "channel": self._channel})
            if not answer:
                return Hint("Wait a moment: the agent looks.")
            if me != "lee":
                return self._switch_hint("lee", f"It says “{answer}” lee can say on the card whether it took effect.")
            return open_card(row, f"It says “{answer}” Say on the card whether it took effect.")
        return _END

    def _answer_about(self, row: Confirmation) -> str | None:
        """What the agent said when it was asked, after this refund, what was refunded. None: nobody asked it yet."""
        lee, card = self._people["lee"], max((place.ts or "" for place in row.places), default="")
        seen = lee.messages(self._channel)
        asked = [each for each in seen if each.ts > card and QUESTION.partition(" ")[2] in each]
        if not asked:
            return None
        answers = [each.text for each in lee.messages(self._channel, thread=asked[-1]) if each.ts > asked[-1].ts]
        return answers[-1] if answers else ""


def _may_crash(row: Confirmation) -> bool:
    """Whether a refund may still crash, or did: one that simply ended has not."""
    said = row.outcome is not None and row.outcome.kind in SAID_BY_PEOPLE
    return not _is_over(row) or said or row.attempt > 1


def _is_over(row: Confirmation) -> bool:
    unknown = row.outcome is not None and row.outcome.kind is OutcomeKind.UNKNOWN
    return not (row.state is State.WAITING or _is_running(row) or unknown)


def _is_running(row: Confirmation) -> bool:
    """Whether it was approved and has no outcome yet."""
    return row.state is State.APPROVED and (row.outcome is None or row.outcome.kind is OutcomeKind.RUNNING)


def open_card(row: Confirmation, text: str) -> Hint:
    places = [place for place in row.places if place.ts is not None and not place.pointer and place.person is None]
    action: JsonObject = {"channel": places[0].channel, "thread": places[0].thread_ts or places[0].ts} if places else {}
    return Hint(text, CARD if action else "", action or None)


def _pass_time_hint(minutes: int, text: str) -> Hint:
    return Hint(text, f"+{minutes} min" if minutes < 60 else "+1 h", {"do": "pass_time", "minutes": minutes})
