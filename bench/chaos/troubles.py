"""Causes the faults of the plan, and ends them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from adk_confirm.sandbox.server.faults import Fault
from bench.chaos.collecting import effects
from bench.chaos.history import Effect, FaultRecord
from bench.chaos.office import Office
from bench.chaos.plan import Break, Plan
from bench.chaos.replicas import Replica

_LIMITED_FOR = (1, 5)
_WAITS_FOR_A_TOOL, _GLANCE = 4.0, 0.05


class Troubles:
    def __init__(self, office: Office) -> None:
        self._office = office
        self._database = asyncio.Lock()  # only one fault at a time stops PostgreSQL
        self.happened: list[FaultRecord] = []
        self.met: dict[str, int] = {}
        """How many of Slack's calls each fault affected."""

    async def strike(self, plan: Plan) -> None:
        """Causes every fault at its time. Returns when the last one is over."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for one in plan.breaks:
                await asyncio.sleep(max(0.0, began + one.at - time.monotonic()))
                group.create_task(self._cause(one))

    async def heal(self) -> None:
        """Ends all faults."""
        self._office.slack.faults.clear()
        for wire in self._office.wires:
            wire.heal()
        for replica in self._office.replicas:
            replica.thaw()
        await self._office.all_ready()

    async def _cause(self, one: Break) -> None:
        replica = await self._victim(one)
        self.happened.append(FaultRecord(time.time(), self._describe(one, replica.number), one.seconds))
        wire = self._office.wires[replica.number]
        match one.kind:
            case "kill":
                replica.kill(one.seconds)
            case "freeze":
                replica.freeze()
                await asyncio.sleep(one.seconds)
                replica.thaw()
            case "cut off":
                wire.cut()
                await asyncio.sleep(one.seconds)
                wire.heal()
            case "stall":
                wire.stall()
                await asyncio.sleep(one.seconds)
                wire.heal()
            case "restart PostgreSQL" | "crash PostgreSQL":
                await self._database_away(one)
            case "Slack":
                await self._slack(one)

    async def _victim(self, one: Break) -> Replica:
        replicas = self._office.replicas
        until = time.monotonic() + (_WAITS_FOR_A_TOOL if one.busy else 0.0)
        while time.monotonic() < until:
            running = running_in(effects(self._office))
            found = [replica for replica in replicas if replica.pid in running]
            if found:
                return found[0]
            await asyncio.sleep(_GLANCE)
        return replicas[one.replica]

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
    def _describe(one: Break, replica: int) -> str:
        match one.kind:
            case "Slack":
                acted = " after acting" if one.acted and one.slack in ("fail", "cut", "hang") else ""
                return f"Slack: {one.slack} {one.method}, {one.times} times at most{acted}"
            case "kill" | "freeze" | "cut off" | "stall":
                return f"{one.kind} replica {replica}"
        return one.kind


def running_in(log: Sequence[Effect]) -> set[int]:
    """The processes in which a tool has begun and not ended."""
    begun = Counter((effect.pid, effect.ticket) for effect in log if effect.phase == "begins")
    begun.subtract((effect.pid, effect.ticket) for effect in log if effect.phase == "ends")
    return {pid for (pid, _), times in begun.items() if times > 0}
