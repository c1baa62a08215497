"""Modals and Home tabs. A person has at most one modal: nothing pushes others on top of it. Each version has a
hash."""

from __future__ import annotations

import secrets
from typing import Literal

from adk_confirm.sandbox.people import state
from adk_confirm.sandbox.reading import JsonObject, as_object, objects
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.workspace.changes import Changes, Kind
from adk_confirm.sandbox.workspace.clock import Clock
from adk_confirm.sandbox.workspace.directory import Directory
from adk_confirm.sandbox.workspace.messages import with_ids
from adk_confirm.sandbox.workspace.records import Install, View, copied


class Views:
    def __init__(self, directory: Directory, clock: Clock, changes: Changes) -> None:
        self._directory = directory
        self._clock = clock
        self._changes = changes
        self._views: dict[str, View] = {}
        self._modals: dict[str, View] = {}
        self._homes: dict[tuple[str, str], View] = {}
        self.opened: list[View] = []
        """Every modal that an app opened, including closed ones."""

    def top(self, user: str) -> View | None:
        """The modal that this person sees."""
        return self._modals.get(user)

    def home(self, team_id: str, user: str) -> View | None:
        return self._homes.get((team_id, user))

    def open(self, team_id: str, user: str, body: JsonObject) -> View:
        """Opens a modal. It replaces the one that was open."""
        if (before := self._modals.get(user)) is not None:
            self.close(before)
        view = self._modals[user] = self._make(team_id, user, "modal", body)
        self.opened.append(view)
        self._tell(view)
        return view

    def update(self, view: View, body: JsonObject, expected_hash: str = "") -> View:
        if expected_hash and expected_hash != view.hash:
            raise ApiRefusal("hash_conflict")
        view.body = _with_block_ids(body)
        view.hash = self._new_hash()
        view.errors = {}
        standing = state.values(objects(view.body.get("blocks")), {})
        view.entered = {
            (block, action): entered
            for (block, action), entered in view.entered.items()
            if as_object(as_object(standing.get(block)).get(action)).get("type") == entered.get("type")
        }
        self._tell(view)
        return view

    def publish(self, team_id: str, user: str, body: JsonObject, expected_hash: str = "") -> View:
        before = self._homes.get((team_id, user))
        if before is not None:
            return self.update(before, body, expected_hash)
        view = self._homes[(team_id, user)] = self._make(team_id, user, "home", body)
        self._tell(view)
        return view

    def find(self, view_id: str) -> View:
        view = self._views.get(view_id)
        if view is None or view.closed:
            raise ApiRefusal("not_found")
        return view

    def close(self, view: View) -> None:
        view.closed = True
        self._views.pop(view.id, None)
        if self._modals.get(view.user) is view:
            del self._modals[view.user]
        self._tell(view)

    def enter(self, view: View, block_id: str, action_id: str, entered: JsonObject) -> None:
        view.entered[block_id, action_id] = entered
        view.errors.pop(block_id, None)
        self._tell(view)

    def show_errors(self, view: View, errors: dict[str, str]) -> None:
        view.errors = dict(errors)
        self._tell(view)

    def to_json(self, view: View, install: Install) -> JsonObject:
        blocks = objects(view.body.get("blocks"))
        view_json: JsonObject = {
            "id": view.id, "team_id": view.team_id, "type": view.kind, "hash": view.hash,
            "state": {"values": state.values(blocks, view.entered)},
            "root_view_id": view.id, "previous_view_id": None,
            "app_id": self._directory.app.id, "bot_id": install.bot_id,
            "app_installed_team_id": install.team_id,
            "title": None, "close": None, "submit": None, "private_metadata": "", "callback_id": "",
            "external_id": "", "clear_on_close": False, "notify_on_close": False,
        }  # fmt: skip
        return view_json | copied(view.body)

    def _make(self, team_id: str, user: str, kind: Literal["modal", "home"], body: JsonObject) -> View:
        view = View(self._directory.new_id("V"), team_id, user, kind, _with_block_ids(body), self._new_hash())
        self._views[view.id] = view
        return view

    def _new_hash(self) -> str:
        return f"{int(self._clock.now())}.{secrets.token_hex(4)}"

    def _tell(self, view: View) -> None:
        kind: Kind = "home" if view.kind == "home" else "view"
        self._changes.tell(kind, team=view.team_id, user=view.user)


def _with_block_ids(body: JsonObject) -> JsonObject:
    return {**copied(body), "blocks": [*with_ids(objects(body.get("blocks")))]}
