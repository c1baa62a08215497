"""The plan of a chaos run: the same seed gives the same plan, and no plan contradicts itself."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from bench.chaos.plan import REPLICAS, make_plan

LEASE = 6.0


def test_the_same_seed_makes_the_same_plan() -> None:
    assert make_plan(7, 120, lease=LEASE) == make_plan(7, 120, lease=LEASE)
    assert make_plan(7, 120, lease=LEASE) != make_plan(8, 120, lease=LEASE)


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
