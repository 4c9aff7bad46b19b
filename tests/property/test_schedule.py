"""Schedules of small, tight clusters: always safe, whatever the sizes, dirs and cycles.

Worlds are drawn by a seeded generator and not by Hypothesis' own: full disks that wait for each other in a circle
are rare among values that lean towards the simplest.
"""

import random
from dataclasses import replace
from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.progress import Standing, startable
from kafkakit.execution.decide.schedule.scheduler import plan_schedule
from kafkakit.execution.decide.schedule.work import DirTask, Disk, Limits, Place, Rates, Speeds, Step, StepKind, Task
from tests.invariants.schedule import verify_schedule

QUICK = settings(
    derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow], database=None
)
SEEDS = st.integers(0, 2**40)
SPEEDS = Speeds(line_bytes_per_s=50.0, disk_bytes_per_s=80.0)
PACES = ((1.0, 100.0), (0.0, float("inf")), (7.0, 100.0), (0.0, 0.3))  # seconds of a step, steps a second
World = tuple[list[Task], list[DirTask], list[Disk], Limits, Rates, dict[int, str | None]]


def make_world(seed: int) -> World:
    """Up to 6 brokers with 1 to 3 dirs, filled by the copies that are there, with little room besides.

    In most worlds every dir has room for what it is to hold in the end.
    """
    draw = random.Random(seed)
    brokers = list(range(1, draw.randint(2, 6) + 1))
    dirs = {b: ["/a", "/b", "/c"][: draw.choice([1, 1, 2, 3])] for b in brokers}
    held: dict[Place, int] = {Place(b, d): 0 for b in brokers for d in dirs[b]}
    later = dict(held)
    growth: dict[Place, float] = dict.fromkeys(held, 0.0)
    ingests = draw.choice([(0.0,), (0.0,), (0.0, 0.01, 0.3)])
    odd = draw.random() < 0.3  # with copies under way, partitions without a leader, closed and unknown dirs
    copies = draw.choice([1, 2, 3])
    tasks, dir_tasks = [], []
    for number in range(draw.randint(1, 14)):
        holders = tuple(draw.sample(brokers, min(len(brokers), draw.randint(1, copies))))
        target = tuple(draw.sample(brokers, min(len(brokers), draw.randint(1, copies))))
        size, ingest, key = draw.randint(0, 60), draw.choice(ingests), TopicPartition("t", number)
        where = {b: draw.choice(dirs[b]) for b in holders}
        first = holders[0]
        others = [d for d in dirs[first] if d != where[first]]
        ends = dict(where)
        if others and draw.random() < 0.3:
            ends[first] = draw.choice(others)
            dir_tasks.append(
                DirTask(
                    key=key,
                    broker=first,
                    source_dir=where[first],
                    target_dir=ends[first],
                    size_bytes=size,
                    ingest_bytes_per_s=ingest,
                )
            )
            if draw.random() < 0.7:
                target = holders
        wanted = {b: draw.choice(dirs[b]) for b in target if b not in holders}
        for broker in holders:
            held[Place(broker, where[broker])] += size
            growth[Place(broker, where[broker])] += ingest
        for broker in target:
            later[Place(broker, ends[broker] if broker in holders else wanted[broker])] += size
        running = odd and draw.random() < 0.1 and holders != target and ends == where
        if holders == target and dir_tasks and dir_tasks[-1].key == key:
            continue
        tasks.append(
            Task(
                key=key,
                holders=holders,
                target=target,
                leader=None if odd and draw.random() < 0.1 else draw.choice(holders),
                size_bytes=size,
                dirs={} if odd and draw.random() < 0.2 else where,
                wanted_dirs={b: d for b, d in wanted.items() if draw.random() < 0.8},
                ingest_bytes_per_s=ingest,
                urgent=draw.random() < 0.2,
                running=running,
                copied_bytes=draw.randint(0, size) if running else 0,
            )
        )
    limits = Limits(
        into_each=draw.randint(1, 3),
        out_each=draw.randint(1, 3),
        cluster=draw.choice([1, 2, 100]),
        max_use=Fraction(draw.choice([90, 95, 100]), 100),
        headroom_bytes=draw.choice([0, 5]),
        deletion_delay_s=draw.choice([0.0, 3.0]),
        one_replica_at_a_time=draw.random() < 0.3,
    )
    disks = []
    roomy = draw.choice([0, 10, 40, 100])
    for place, used in held.items():
        full = max(used, later[place]) + draw.randint(0, roomy) + (60 if any(ingests) else 0)
        total = int(full / limits.max_use) + limits.headroom_bytes + 1
        known = not odd or draw.random() > 0.1
        disks.append(
            Disk(
                place=place,
                total_bytes=total if known else None,
                usable_bytes=total - used if known else None,
                growth_bytes_per_s=growth[place],
                closed=odd and draw.random() < 0.05,
            )
        )
    rates = Rates(into=draw.choice([None, 10]), out=draw.choice([None, 10, 40]))
    return tasks, dir_tasks, disks, limits, rates, {b: draw.choice(["x", "y", None]) for b in brokers}


@QUICK
@given(seed=SEEDS)
def test_no_schedule_breaks_a_limit(seed: int) -> None:
    tasks, dir_tasks, disks, limits, rates, racks = make_world(seed)
    step_s, steps_per_s = PACES[seed % len(PACES)]
    speeds = replace(SPEEDS, step_s=step_s, steps_per_s=steps_per_s)
    found = plan_schedule(tasks, dir_tasks, disks, limits, rates, speeds, racks=racks)
    verify_schedule(found, tasks, dir_tasks, disks, limits, rates, speeds, racks=racks)
    shuffled = plan_schedule(tasks[::-1], dir_tasks[::-1], disks[::-1], limits, rates, speeds, racks=racks)
    assert shuffled == found


@QUICK
@given(seed=SEEDS)
def test_a_run_with_other_speeds_fills_no_disk_and_never_hangs(seed: int) -> None:
    """What the executor does: at each tick it sends what `startable` says, and copies end in any order."""
    tasks, dir_tasks, disks, limits, rates, racks = make_world(seed)
    # What logs take in is foreseen by the schedule's own times only.
    tasks = [replace(t, ingest_bytes_per_s=0.0) for t in tasks]
    dir_tasks = [replace(d, ingest_bytes_per_s=0.0) for d in dir_tasks]
    disks = [replace(d, growth_bytes_per_s=0.0) for d in disks]
    found = plan_schedule(tasks, dir_tasks, disks, limits, rates, SPEEDS, racks=racks)
    draw = random.Random(seed)
    steps = found.steps
    totals = {d.place: d.total_bytes for d in disks}
    used = {d.place: (d.total_bytes or 0) - (d.usable_bytes or 0) for d in disks if d.usable_bytes is not None}
    started_full = dict(used)
    arriving = {n: s.size_bytes for n, s in enumerate(steps) if s.running}
    copied = {t.key: t.copied_bytes // max(1, len(t.adding)) for t in tasks}
    arriving = {n: left - copied.get(steps[n].key, 0) for n, left in arriving.items()}
    running_into = [p for n in arriving for p in steps[n].adding]
    finished: set[int] = set()
    deleting: list[int] = []
    for _ in range(20 * len(steps) + 20):
        left: dict[Place, int] = {}
        for n, count in arriving.items():
            for place in steps[n].adding:
                left[place] = left.get(place, 0) + count
        standing = Standing(
            finished=frozenset(finished),
            in_flight=frozenset(arriving),
            usable={p: (totals[p] or 0) - u for p, u in used.items()},
            arriving_bytes_left=left,
        )
        sent = startable(found, standing, limits, totals)
        check_sent(steps, sent, arriving, limits)
        arriving |= {n: steps[n].size_bytes for n in sent}
        if len(finished) == len(steps):
            break
        assert arriving or deleting, "it hangs"
        if deleting and (not arriving or draw.random() < 0.5):
            n = deleting.pop(draw.randrange(len(deleting)))
            for place in steps[n].removing:
                if place in used:
                    used[place] -= steps[n].size_bytes
            continue
        n = draw.choice(sorted(arriving))
        portion = arriving[n] if draw.random() < 0.5 else draw.randint(0, arriving[n])
        arriving[n] -= portion
        for place in steps[n].adding:
            if place in used:
                used[place] += portion
                most = limits.limit_of(totals[place] or 0)
                assert used[place] <= max(most, started_full[place]) or place in running_into, f"{place} is too full"
        if not arriving[n]:
            del arriving[n]
            finished.add(n)
            deleting.append(n)
    assert len(finished) == len(steps)


def check_sent(steps: tuple[Step, ...], sent: tuple[int, ...], arriving: dict[int, int], limits: Limits) -> None:
    """No partition twice, and no more at a time than allowed, unless a broker has but one request."""
    together = [steps[n] for n in (*sent, *arriving)]
    assert len({s.key for s in together}) == len(together)
    assert not sent or len(together) <= limits.cluster
    for n in sent:
        for place in steps[n].adding:
            inside = steps[n].kind is StepKind.INSIDE
            others = [s for s in together if (s.kind is StepKind.INSIDE) == inside]
            copies = sum(p.broker == place.broker for s in others for p in s.adding)
            assert copies <= (limits.inside_each if inside else limits.into_each)
        if steps[n].kind is not StepKind.INSIDE and steps[n].adding:
            served = [s for s in together if s.kind is not StepKind.INSIDE and s.leader == steps[n].leader and s.adding]
            assert sum(len(s.adding) for s in served) <= limits.out_each or len(served) == 1
