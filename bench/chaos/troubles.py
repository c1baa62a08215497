"""Carrying out what the plan breaks, and putting it right again."""

from __future__ import annotations

import asyncio
import time

from bench.chaos.history import Happened
from bench.chaos.office import Office
from bench.chaos.plan import Break, Plan
from bot.sandbox.faults import Fault

_LIMITED_FOR = (1, 5)


class Troubles:
    def __init__(self, office: Office) -> None:
        self._office = office
        self._database = asyncio.Lock()  # PostgreSQL is stopped by one trouble at a time
        self.happened: list[Happened] = []
        self.met: dict[str, int] = {}
        """How many of Slack's calls ran into each trouble."""

    async def strike(self, plan: Plan) -> None:
        """Every trouble at its time; returns when the last one is over."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for one in plan.breaks:
                await asyncio.sleep(max(0.0, began + one.at - time.monotonic()))
                group.create_task(self._strikes(one))

    async def heal(self) -> None:
        """All is well from here on."""
        self._office.slack.faults.clear()
        for wire in self._office.wires:
            wire.heal()
        for replica in self._office.replicas:
            replica.thaw()
        await self._office.all_ready()

    async def _strikes(self, one: Break) -> None:
        self.happened.append(Happened(time.time(), self._described(one), one.seconds))
        match one.kind:
            case "kill":
                self._office.replicas[one.replica].kill(one.seconds)
            case "freeze":
                await self._freeze(one)
            case "cut off":
                wire = self._office.wires[one.replica]
                wire.cut()
                await asyncio.sleep(one.seconds)
                wire.heal()
            case "stall":
                wire = self._office.wires[one.replica]
                wire.stall()
                await asyncio.sleep(one.seconds)
                wire.heal()
            case "restart PostgreSQL" | "crash PostgreSQL":
                await self._database_away(one)
            case "Slack":
                await self._slack(one)

    async def _freeze(self, one: Break) -> None:
        replica = self._office.replicas[one.replica]
        replica.freeze()
        try:
            await asyncio.sleep(one.seconds)
        finally:
            replica.thaw()

    async def _database_away(self, one: Break) -> None:
        postgres = self._office.postgres
        async with self._database:
            await asyncio.to_thread(postgres.goes_away, crashes=one.kind == "crash PostgreSQL")
            try:
                await asyncio.sleep(one.seconds)
            finally:
                await asyncio.to_thread(postgres.comes_back)

    async def _slack(self, one: Break) -> None:
        fault = self._fault(one)
        await asyncio.sleep(one.seconds)
        fault.left = 0
        fault.release()
        self.met[one.name] = self.met.get(one.name, 0) + fault.met

    def _fault(self, one: Break) -> Fault:
        faults, times = self._office.slack.faults, one.times
        match one.slack:
            case "limit":
                low, high = _LIMITED_FOR
                return faults.limits(one.method, retry_after=max(low, min(high, one.seconds)), times=times)
            case "fail":
                return faults.fails(one.method, status=503, acted=one.acted, times=times)
            case "cut":
                return faults.cuts(one.method, acted=one.acted, times=times)
            case "hang":
                return faults.hangs(one.method, acted=one.acted, times=times)
            case "slow":
                return faults.slows(one.method, min(one.seconds, 3.0), times=times)

    @staticmethod
    def _described(one: Break) -> str:
        match one.kind:
            case "Slack":
                acted = " after acting" if one.acted and one.slack in ("fail", "cut", "hang") else ""
                return f"Slack: {one.slack} {one.method}, {one.times} times at most{acted}"
            case "kill" | "freeze" | "cut off" | "stall":
                return f"{one.kind} replica {one.replica}"
        return one.kind
