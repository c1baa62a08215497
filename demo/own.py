"""Your own agent in the local workspace: whoever its settings name becomes a person, a group or a channel there.

The settings stay as they are, so that what was tried here can be taken to a real Slack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adk_confirm.blocks.call_details import headline
from adk_confirm.bot.config.settings import Settings
from adk_confirm.bot.confirmation.confirmation import State
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.policy.approvers import Approver, ApproverKind
from adk_confirm.demo.tour import Guide, open_card
from adk_confirm.sandbox.page.controls import BotState, Controls, Hint
from adk_confirm.sandbox.page.page import Sandbox
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.workspace.records import Channel, User

_NAMES = ("ben", "chris", "dora", "emil", "finn", "gwen", "hugo", "iris")
_PARTS = {"approvers": "approver", "escalate_to": "lead", "notify": "notified", "barred": "barred"}
"""The keys of a policy that name people, each with the part that they play."""


class Staff:
    """ana asks, olga is named nowhere, and the others stand for the people and groups of the policies."""

    def __init__(self, slack: Sandbox, settings: Settings) -> None:
        self._slack = slack
        self.people: dict[str, Person] = {}
        self.roles: dict[str, str] = {}
        self.named: dict[Approver, list[str]] = {}
        """Whom the policies name, and the names of the people who stand for each."""
        self._hire("ana", "asks", id_="U0ANA")
        quorum = max((policy.quorum for policy in settings.policy), default=1)
        for key, part in _PARTS.items():
            crowd: list[str] = []
            wanted = max(2, quorum) if key == "approvers" else 1
            for entry in dict.fromkeys(each for policy in settings.policy for each in getattr(policy, key)):
                if entry not in self.named:
                    self.named[entry] = self._stand_in(entry, part, crowd, wanted)
        self._hire("olga", "outsider", id_="U0OLGA")
        everybody = self.people.values()
        self.channel: Channel = slack.channel("agents", *everybody, id="C0AGENTS")
        for channel in settings.channels:
            slack.channel(channel.lower(), *everybody, id=channel)

    @property
    def parts(self) -> Iterator[str]:
        """Who is who, a line for each entry of the policies."""
        for entry, names in self.named.items():
            function = entry.kind is ApproverKind.PYTHON
            yield f"{entry} is {'called as it is' if function else ' and '.join(names)}"

    def _stand_in(self, entry: Approver, part: str, crowd: list[str], wanted: int) -> list[str]:
        """Who stands for an entry. `crowd`: the members that all groups of this part share."""
        match entry.kind:
            case ApproverKind.USER:
                known = [name for name, person in self.people.items() if person.id == entry.value]
                return known or [self._hire(self._name(), part, id_=entry.value)]
            case ApproverKind.EMAIL:
                name = entry.value.partition("@")[0]
                return [self._hire(name if name not in self.people else self._name(), part, email=entry.value)]
            case ApproverKind.GROUP:
                crowd += [self._hire(self._name(), part) for _ in range(wanted - len(crowd))]
                members = [self.people[name] for name in crowd]
                self._slack.group(entry.value.lower().removeprefix("s0"), *members, id=entry.value)
                return crowd
            case ApproverKind.PYTHON:
                return []

    def _name(self) -> str:
        spare = (name for name in _NAMES if name not in self.people)
        return next(spare, f"person{len(self.people)}")

    def _hire(self, name: str, part: str, *, id_: str = "", email: str = "") -> str:
        person = self._slack.person(name, id=id_ or f"U0{name.upper()}", email=email or f"{name}@acme.example")
        self.people[name], self.roles[person.id] = person, part
        return name


class OwnGuide(Guide):
    """Leads to the next decision."""

    def __init__(self, staff: Staff, controls: Controls) -> None:
        super().__init__(staff.people, staff.channel.id, controls)
        self._named: Mapping[Approver, list[str]] = staff.named

    def hint(self, person: User) -> Hint | None:
        if self._controls.state is not BotState.RUNNING:
            return self._without_bot()
        me = self._name_of(person)
        waiting = next((row for row in self.rows if row.state is State.WAITING), None)
        if waiting is None:
            asked = "Ask your agent for something: mention @adk-confirm in this channel."
            return None if self.rows else Hint(asked) if me == "ana" else self._switch_hint("ana", "ana can ask.")
        voted, what = {vote.voter.user for vote in waiting.approvals}, headline(shown_of(waiting))
        able = [
            name
            for entry in waiting.policy.approvers
            for name in self._named.get(entry, ())
            if self._people[name].id not in voted
        ]
        if me in able or not able:
            return open_card(waiting, f"“{what}” waits. Open the card, and approve, edit or deny it.")
        return self._switch_hint(able[0], f"“{what}” waits for approval.")
