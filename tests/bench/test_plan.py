"""The plan of a chaos run: the same seed gives the same plan, and no plan contradicts itself."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from bench.chaos.plan import REPLICAS, make_plan

LEASE = 6.0


def test_the_same_seed_makes_the_same_plan() -> None:
    assert make_plan(7, 120, lease=LEASE) == make_plan(7, 120, lease=LEASE)
    assert make_plan(7, 120, lease=LEASE) != make_plan(8, 120, lease=LEASE)


def test_a_longer_run_has_more_of_everything() -> None:
    short, long = make_plan(7, 60, lease=LEASE), make_plan(7, 600, lease=LEASE)

    assert len(long.errands) == 10 * len(short.errands)
    assert len(long.breaks) > 5 * len(short.breaks)
    assert {one.name for one in long.breaks} > {"kill", "freeze", "cut off", "crash PostgreSQL", "Slack answers 429"}


def test_everything_happens_within_the_run_and_in_order() -> None:
    for seed in range(20):
        plan = make_plan(seed, 60, lease=LEASE)
        times = [one.at for one in plan.breaks]
        assert times == sorted(times)
        assert times[0] >= 0
        assert times[-1] < 60


def test_a_replica_has_one_trouble_at_a_time_and_stands_still_for_longer_than_its_lease() -> None:
    for seed in range(20):
        spans = defaultdict(list)
        for one in make_plan(seed, 300, lease=LEASE).breaks:
            if one.kind in ("kill", "freeze", "cut off", "stall"):
                spans[one.replica].append((one.at, one.at + one.seconds))
            assert one.kind != "freeze" or one.seconds > LEASE
        assert spans.keys() <= set(range(REPLICAS))
        for found in spans.values():
            assert all(ended < began for (_, ended), (began, _) in pairwise(found))


def test_a_ticket_is_one_call_and_a_thread_asks_for_a_tool_once() -> None:
    for seed in range(20):
        plan = make_plan(seed, 120, lease=LEASE)
        assert len(plan.calls) == sum(len(errand.calls) for errand in plan.errands)
        for errand in plan.errands:
            tools = [call.tool for call in errand.calls]
            assert len(tools) == len(set(tools))
