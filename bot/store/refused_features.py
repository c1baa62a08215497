"""Features that Slack refused lately, for `adk-confirm check`. Transaction functions."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import delete, select

from bot.store.tables import switches
from runtime.jsontypes import canonical
from runtime.store.database import Tx
from runtime.store.upsert import insert_if_absent

REMEMBERED = 3600.0
"""Seconds for which a refused feature is not tried again."""

_NAME = "refused:"


@dataclass(frozen=True)
class RefusedFeature:
    """A feature that Slack refused. `channel` is empty if it is refused in the whole workspace."""

    team: str
    feature: str
    channel: str
    code: str
    at: float


def note_refused_feature(tx: Tx, team: str, feature: str, channel: str, code: str) -> None:
    """Notes a refusal, and deletes old ones."""
    now = tx.now()
    old = [one for one in _read_all(tx) if one.at <= now - REMEMBERED]
    same = RefusedFeature(team, feature, channel, code, now)
    names = [_name(one) for one in (*old, same)]
    tx.execute(delete(switches).where(switches.c.name.in_(names)))
    value = canonical({"team": team, "feature": feature, "channel": channel, "code": code, "at": now})
    tx.execute(insert_if_absent(tx.dialect, switches), {"name": _name(same), "value": value})


def refused_features(tx: Tx) -> list[RefusedFeature]:
    """What was refused within the last hour."""
    return [one for one in _read_all(tx) if one.at > tx.now() - REMEMBERED]


def _read_all(tx: Tx) -> list[RefusedFeature]:
    found = select(switches.c.value).where(switches.c.name.startswith(_NAME)).order_by(switches.c.name)
    return [RefusedFeature(**json.loads(value)) for value in tx.execute(found).scalars()]


def _name(one: RefusedFeature) -> str:
    return f"{_NAME}{one.team}:{one.channel}:{one.feature}"[:64]
