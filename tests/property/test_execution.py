"""Schedules of small, tight clusters.

Many lives of one plan. Whatever a run and other people do in whatever order, and wherever it is cut. Runs, batches,
journals and plan files, whatever comes.
"""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import count
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import decode_plan, encode_plan
from kafkakit.core.errors import InputError, InterruptedRunError, KafkakitError, OperationFailedError, TryLaterError
from kafkakit.core.journal_lines import FIRST_PREV, RecordKind, encode_line, line_hash
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import DirMove, Plan
from kafkakit.core.plan_rules import check_plan
from kafkakit.execution.act.control_requests import ControlRequests, ReceivedRequests
from kafkakit.execution.decide.journal import GRAMMAR, JournalSubject, Record, decode_journal, replay
from kafkakit.execution.decide.plan_state import LIST_LIMIT
from kafkakit.execution.decide.progress import RunPosition, startable_steps
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.scheduler import plan_schedule
from kafkakit.execution.decide.schedule.work import (
    BrokerRates,
    DirTask,
    Disk,
    LogDirPlace,
    PartitionTask,
    ScheduleStep,
    Speeds,
    StepKind,
    rates_from_data,
    rates_to_data,
)
from kafkakit.execution.decide.throttle import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    INSIDE_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LIST_KEYS,
    RATE_KEYS,
    list_capacity_for,
    pieces,
    split_list,
)
from tests.clusters.plans import make_plan
from tests.fakes.admin import MAX_CONFIG_BYTES, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.invariants.journal import verify_effects, verify_journal
from tests.invariants.schedule import verify_schedule
from tests.rigs.reassign import Harness, Killed
from tests.rigs.throttles import Rig, goal, make_cluster, set_by_others

QUICK = settings(
    derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow], database=None
)
SEEDS = st.integers(0, 2**40)
SPEEDS = Speeds(line_bytes_per_s=50.0, disk_bytes_per_s=80.0)
PACES = ((1.0, 100.0), (0.0, float("inf")), (7.0, 100.0), (0.0, 0.3))  # seconds of a step, steps a second
World = tuple[list[PartitionTask], list[DirTask], list[Disk], ScheduleLimits, BrokerRates, dict[int, str | None]]


def make_world(seed: int) -> World:
    """Up to 6 brokers with 1 to 3 dirs, filled by the copies that are there, with little room besides.

    In most worlds every dir has room for what it is to hold in the end.
    """
    draw = random.Random(seed)
    brokers = list(range(1, draw.randint(2, 6) + 1))
    dirs = {b: ["/a", "/b", "/c"][: draw.choice([1, 1, 2, 3])] for b in brokers}
    held: dict[LogDirPlace, int] = {LogDirPlace(b, d): 0 for b in brokers for d in dirs[b]}
    later = dict(held)
    growth: dict[LogDirPlace, float] = dict.fromkeys(held, 0.0)
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
            held[LogDirPlace(broker, where[broker])] += size
            growth[LogDirPlace(broker, where[broker])] += ingest
        for broker in target:
            later[LogDirPlace(broker, ends[broker] if broker in holders else wanted[broker])] += size
        running = odd and draw.random() < 0.1 and holders != target and ends == where
        if holders == target and dir_tasks and dir_tasks[-1].key == key:
            continue
        tasks.append(
            PartitionTask(
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
    limits = ScheduleLimits(
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
    rates = BrokerRates(into=draw.choice([None, 10]), out=draw.choice([None, 10, 40]))
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
    """What the executor does: at each tick it sends what `startable_steps` says, and copies end in any order."""
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
        left: dict[LogDirPlace, int] = {}
        for n, bytes_left in arriving.items():
            for place in steps[n].adding:
                left[place] = left.get(place, 0) + bytes_left
        standing = RunPosition(
            finished=frozenset(finished),
            in_flight=frozenset(arriving),
            usable={p: (totals[p] or 0) - u for p, u in used.items()},
            arriving_bytes_left=left,
        )
        sent = startable_steps(found, standing, limits, totals)
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


def check_sent(
    steps: tuple[ScheduleStep, ...], sent: tuple[int, ...], arriving: dict[int, int], limits: ScheduleLimits
) -> None:
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


MB = 1_000_000
BROKERS = range(1, 7)
SLOW_DISK = 3 * MB  # bytes a second between log dirs
OPTIONS: tuple[dict[str, Any], ...] = (
    {"limits": ScheduleLimits(into_each=1, out_each=1)},
    {"limits": ScheduleLimits(into_each=1, out_each=1, one_replica_at_a_time=True)},
    {"limits": ScheduleLimits(into_each=2, out_each=2), "rate": 3 * MB},
    {"rate": 4 * MB},
)


def a_cluster(dice: Random) -> FakeCluster:
    """Three topics, and perhaps throttles of another process."""
    cluster = FakeCluster(
        {b: f"r{b % 3}" for b in BROKERS},
        line_rate=10 * MB,
        dirs_per_broker=dice.choice((1, 2)),
        fenced_visible=dice.random() < 0.5,
    )
    for name in "tuv":
        lists = {n: tuple(dice.sample(BROKERS, 3)) for n in range(3)}
        cluster.add_topic(name, lists, size_bytes=dice.choice((5, 20, 40)) * MB)
    if dice.random() < 0.5:
        cluster.brokers[3].configs[LEADER_RATE] = "777777"
        cluster.topics["t"].configs[FOLLOWER_LIST] = "0:9,7:5"
    return cluster


def a_plan(cluster: FakeCluster, dice: Random) -> Plan:
    """Other lists for most partitions, and other log dirs for some copies that stay."""
    keys = [(n, p) for n in "tuv" for p in range(3)]
    targets = {k: tuple(dice.sample(BROKERS, dice.choice((2, 3, 3)))) for k in keys if dice.random() < 0.8}
    plan = make_plan(cluster, targets, topics=list("tuv"))
    inside = []
    for name, number in keys if cluster.dirs_per_broker > 1 else ():
        partition = cluster.topics[name].partitions[number]
        for broker in sorted(set(partition.replicas).intersection(targets.get((name, number), partition.replicas))):
            if dice.random() < 0.4:
                here = partition.dirs[broker]
                there = next(d for d in cluster.brokers[broker].dirs if d != here)
                size = partition.size
                inside.append(
                    DirMove(
                        topic=name,
                        partition=number,
                        broker=broker,
                        source_dir=here,
                        target_dir=there,
                        size_bytes=size,
                    )
                )
    return replace(plan, dir_moves=tuple(inside))


class ReassignLivesWorld:
    """One plan on one cluster, whose log dirs are slow, and whose copies are counted at every moment."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        cluster = a_cluster(dice)
        self.bench = Harness(cluster, a_plan(cluster, dice))
        self.before, self.configs = self.bench.lists(), self.bench.configs()
        self.after = {**self.before, **{(m.topic, m.partition): m.after for m in self.bench.plan.moves}}
        self._left: dict[object, float] = {}
        self._tokens = count(1)
        self.bench.clock.on_sleep[:] = [self._pass_time, self._count_copies]
        cluster.before_call.append(lambda *_: self._count_copies(0))

    def _pass_time(self, seconds: float) -> None:
        replication = self.bench.cluster.replication
        replication.advance(seconds)
        for key, partition in replication.partitions():
            for broker, path in list(partition.future_dirs.items()):
                left = self._left.get((key, broker, path), partition.size) - seconds * SLOW_DISK
                self._left[key, broker, path] = left
                if left <= 0:
                    partition.dirs[broker] = partition.future_dirs.pop(broker)
                    del self._left[key, broker, path]

    def _count_copies(self, _: float) -> None:
        for key, partition in self.bench.cluster.replication.partitions():
            name = (key.topic, key.partition)
            full = [b for b in partition.replicas if partition.copied.get(b, 0) >= partition.size]
            assert len(full) >= min(len(self.before[name]), len(self.after[name])), f"{key} has full copies on {full}"

    def live_once(self) -> None:
        """One command, which something may happen to."""
        bench, dice = self.bench, self.dice
        token = next(self._tokens)
        requests = ControlRequests(FakeControlStore(), bench.clock, bench.plan.cluster_id)
        hooks, calls = list(bench.clock.on_sleep), list(bench.cluster.before_call)
        self._threaten(lambda **request: requests.request(token, "ann", **request))
        run = bench.run(orders=ReceivedRequests(requests, token, bench.reporter), **dice.choice(OPTIONS))
        with suppress(Killed, KafkakitError):
            dice.choice((run.apply, run.apply, run.rollback, run.abort, run.resume))()
        bench.clock.on_sleep[:], bench.cluster.before_call[:] = hooks, calls
        bench.cluster._failures.clear()
        bench.clock.sleep(dice.choice((0.0, 0.0, 10.0)))

    def _threaten(self, ask: Callable[..., object]) -> None:
        """Something that will happen to the run, or nothing."""
        when = self.dice.uniform(0.1, 25)
        faults: tuple[BaseException, ...] = (Killed(), KeyboardInterrupt(), TryLaterError("the cluster is away"))
        fault = self.dice.choice(faults)
        match self.dice.randrange(6):
            case 0:
                self._at(when, fault)
            case 1:
                self._at(when, lambda: ask(abort=True))
            case 2:
                self._at(when, lambda: ask(paused=True))
                self._at(when + 5, fault)
            case 3:
                self._at(when, lambda: ask(rates=BrokerRates(into=6 * MB, out=6 * MB)))
                self._at(when + 4, fault)
            case 4:
                self._cut_call(self.dice.randint(0, 12), lost_answer=self.dice.random() < 0.5)

    def _at(self, seconds: float, what: BaseException | Callable[[], object]) -> None:
        due = self.bench.clock.elapsed + seconds

        def check(_: float) -> None:
            if self.bench.clock.elapsed > due:
                self.bench.clock.on_sleep.remove(check)
                if isinstance(what, BaseException):
                    raise what
                what()

        self.bench.clock.on_sleep.append(check)

    def _cut_call(self, number: int, *, lost_answer: bool) -> None:
        seen = count()

        def hook(name: str, _: object) -> None:
            if next(seen) == number:
                if not lost_answer:
                    raise Killed
                self.bench.cluster.fail_next(name, Killed(), after_effect=True)

        self.bench.cluster.before_call.append(hook)

    def finish(self) -> None:
        """Bring the plan to one of its ends, and hold everything against what has to be there."""
        bench = self.bench
        state = bench.journal().state
        if state.paused and state.unsettled:
            bench.journal().check(JournalSubject.CONTINUE, {"by": "nobody"})
        onward = self.dice.random() < 0.5
        outcome = bench.apply() if onward else bench.rollback()
        assert outcome.ok, outcome.problems
        assert bench.lists() == (self.after if onward else self.before)
        assert bench.configs() == self.configs
        assert not bench.cluster.reassignments()
        for move in bench.plan.dir_moves:
            partition = bench.cluster.topics[move.topic].partitions[move.partition]
            assert not partition.future_dirs
            assert partition.dirs[move.broker] == (move.target_dir if onward else move.source_dir)
        verify_journal(bench.file.data)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_however_often_a_plan_is_cut_and_turned_round_it_ends_well_and_leaves_nothing(seed: int) -> None:
    dice = Random(seed)
    world = ReassignLivesWorld(dice)
    for _ in range(dice.randint(2, 6)):
        world.live_once()
    world.finish()


BROKERS_THROTTLES = (1, 2, 3, 4, 5)
# Values of ours have one digit, those of others three: nobody can tell equal ones apart.
TOPICS = st.sampled_from(["t", "u"])
OURS = st.none() | st.integers(1, 9)
OF_BROKERS = st.dictionaries(st.sampled_from(BROKERS_THROTTLES), st.integers(1, 9), max_size=2)
RATES = st.builds(BrokerRates, into=OURS, out=OURS, inside=OURS, into_of=OF_BROKERS, out_of=OF_BROKERS)
GOALS = st.lists(
    st.builds(
        goal,
        TOPICS,
        st.integers(0, 3),
        st.lists(st.sampled_from(BROKERS_THROTTLES), min_size=1, max_size=3, unique=True),
        st.sampled_from([(1, 2), (2, 3), (1,)]),
    ),
    max_size=4,
    unique_by=lambda g: g.key,
)
THEIR_LISTS = st.sampled_from([None, "*", "0:91", "1:92,2:93"])
THEIR_RATES = st.sampled_from([None, "111", "222"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("impose"), GOALS, RATES),
        st.tuples(st.just("keep"), GOALS, RATES),
        st.tuples(st.just("inside"), st.sets(st.sampled_from(BROKERS_THROTTLES), max_size=2), RATES),
        st.tuples(st.just("change"), GOALS, RATES),
        st.tuples(st.just("lift entries"), st.none() | GOALS, st.none()),
        st.tuples(st.just("lift"), st.none(), st.none()),
        st.tuples(st.just("kill"), st.sampled_from(BROKERS_THROTTLES), st.none()),
        st.tuples(st.just("revive"), st.sampled_from(BROKERS_THROTTLES), st.none()),
        st.tuples(
            st.just("their rate"),
            st.tuples(st.sampled_from(BROKERS_THROTTLES), st.sampled_from(RATE_KEYS)),
            THEIR_RATES,
        ),
        st.tuples(st.just("their list"), st.tuples(TOPICS, st.sampled_from(LIST_KEYS)), THEIR_LISTS),
        st.tuples(st.just("die at line"), st.integers(0, 6), st.booleans()),
        st.tuples(st.just("die at call"), st.integers(0, 3), st.booleans()),
    ),
    max_size=12,
)


def act(rig: Rig, name: str, what: Any, more: Any) -> None:
    throttles, live = rig.throttles, rig.live()
    match name:
        case "impose":
            throttles.impose(what, more, live)
        case "keep":
            throttles.impose_rates(what, more, live)
        case "inside":
            throttles.impose_inside(what, more, live)
        case "change":
            throttles.change(more, live, what)
        case "lift entries":
            throttles.lift_entries(what)
        case "lift":
            throttles.lift(live)
        case "kill":
            rig.cluster.kill(what)
        case "revive":
            rig.cluster.revive(what)
        case "die at line":
            rig.file.die_at, rig.file.torn = rig.file.writes + what, more
        case "die at call":
            arm(rig, what, after=more)
        case _:
            set_by_others(rig.cluster, str(what[0]), what[1], more)


def arm(rig: Rig, number: int, *, after: bool) -> None:
    seen = iter(range(10_000))

    def hook(call: str, _: Any) -> None:
        if next(seen) == number:
            if not after:
                raise Killed
            rig.cluster.fail_next(call, Killed(), after_effect=True)

    rig.cluster.before_call.append(hook)


@QUICK
@given(steps=STEPS)
def test_others_throttles_stay_and_ours_go_whatever_happens(steps: list[tuple[str, Any, Any]]) -> None:
    rig = Rig(make_cluster())
    theirs: dict[tuple[str, str], str | None] = {}
    for name, what, more in steps:
        if name.startswith("their"):
            theirs[str(what[0]), what[1]] = more
        try:
            act(rig, name, what, more)
        except Killed:
            rig.cluster._failures.clear()
            rig.start()
        except OperationFailedError:  # no appending to a wildcard that somebody put there in between, say
            pass
    rig.cluster._failures.clear()
    rig.start()
    for broker in BROKERS_THROTTLES:
        rig.cluster.revive(broker)
    assert rig.throttles.lift(rig.live()) == ()
    kept: dict[str, dict[str, str]] = {}
    for (name, key), value in theirs.items():
        if value is not None:
            kept.setdefault(f"broker {name}" if name.isdigit() else f"topic {name}", {})[key] = value
    assert rig.configs() == kept
    verify_effects(verify_journal(rig.file.data), rig.cluster.calls)


@QUICK
@given(goals=GOALS, rates=RATES)
def test_what_is_set_is_what_the_rates_say_for_the_brokers_involved_and_no_more(
    goals: list[Any], rates: BrokerRates
) -> None:
    rig = Rig(make_cluster())
    rig.throttles.impose(goals, rates, rig.live())
    for broker in BROKERS_THROTTLES:
        leads = any(broker in g.holders for g in goals if g.adding)
        follows = any(broker in g.adding for g in goals)
        wanted = {
            LEADER_RATE: rates.out_of_broker(broker) if leads else None,
            FOLLOWER_RATE: rates.into_broker(broker) if follows else None,
            INSIDE_RATE: None,
        }
        assert rig.cluster.brokers[broker].configs == {k: str(v) for k, v in wanted.items() if v is not None}
    for name, topic in rig.cluster.topics.items():
        for key, rate_key in ((LEADER_LIST, LEADER_RATE), (FOLLOWER_LIST, FOLLOWER_RATE)):
            for entry in split_list(topic.configs.get(key)):
                partition, broker = (int(x) for x in entry.split(":"))
                (found,) = [g for g in goals if (g.key.topic, g.key.partition) == (name, partition)]
                assert broker in (found.holders if key == LEADER_LIST else found.adding)
                assert rate_key in rig.cluster.brokers[broker].configs


@QUICK
@given(
    numbers=st.lists(st.integers(0, 10**6), max_size=40, unique=True),
    taken=st.integers(0, 4100),
    rates=RATES,
)
def test_goals_that_fit_keep_every_list_below_the_limit(numbers: list[int], taken: int, rates: BrokerRates) -> None:
    others = ",".join(f"{n}:7" for n in range(2_000_000, 2_000_000 + taken))[:31_999].rpartition(",")[0]
    goals = [goal("t", n, (3, 4)) for n in numbers]
    topics = {"t": {FOLLOWER_LIST: others}} if others else {}
    capacity = list_capacity_for(goals, rates, topics, {})
    assert list(capacity.fits) == [g for g in goals if g in capacity.fits]
    added = [f"{g.key.partition}:{b}" for g in capacity.fits for b in g.adding if rates.into_broker(b) is not None]
    assert len(",".join([others, *added])) <= MAX_CONFIG_BYTES
    assert not set(capacity.blocked) & {g.key for g in capacity.fits}


@QUICK
@given(rates=RATES)
def test_rates_survive_the_journal(rates: BrokerRates) -> None:
    assert rates_from_data(rates_to_data(rates)) == rates


QUICK_REASSIGN = settings(
    derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow], database=None
)
BROKERS_REASSIGN = (1, 2, 3, 4, 5)
LISTS = st.lists(st.sampled_from(BROKERS_REASSIGN), min_size=1, max_size=4, unique=True)


def check_refusal(error: InputError, source: str) -> None:
    assert error.message.startswith(f"{source}: ")
    assert "\n" not in error.message
    assert len(error.message) < 1000


@st.composite
def benches(draw: st.DrawFn) -> Harness:
    """A cluster of 5 brokers, and a plan that gives some of its partitions any other list."""
    cluster = FakeCluster(dict.fromkeys(BROKERS_REASSIGN, "a"), line_rate=10e6)
    targets: dict[tuple[str, int], list[int]] = {}
    for name in ("t", "u"):
        rows = draw(st.lists(st.tuples(LISTS, LISTS), min_size=1, max_size=4))
        cluster.add_topic(name, {n: row for n, (row, _) in enumerate(rows)}, size_bytes=draw(st.integers(0, 10**7)))
        targets |= {(name, n): target for n, (_, target) in enumerate(rows)}
    return Harness(cluster, make_plan(cluster, targets))


@QUICK_REASSIGN
@given(bench=benches(), batch=st.integers(1, 5), rate=st.sampled_from([None, 10**6, 10**9]), data=st.data())
def test_a_run_stopped_anywhere_ends_at_the_plan_or_where_it_began(
    bench: Harness, batch: int, rate: int | None, data: st.DataObject
) -> None:
    lists, configs = bench.lists(), bench.configs()
    stop_at = data.draw(st.floats(0, 20))

    def press(_: float) -> None:
        if bench.clock.elapsed > stop_at:
            bench.clock.on_sleep.remove(press)
            raise KeyboardInterrupt

    bench.clock.on_sleep.append(press)
    with suppress(InterruptedRunError):
        bench.apply(rate=rate, batch_size=batch)
    bench.clock.on_sleep[:] = [bench.cluster.advance]
    if data.draw(st.booleans()):
        assert bench.apply(batch_size=batch).ok
        wanted = lists | {(m.topic, m.partition): m.after for m in bench.plan.moves}
    else:
        assert bench.rollback().ok
        wanted = lists
    assert bench.lists() == wanted
    assert bench.configs() == configs
    if bench.file.data:
        verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


@QUICK_REASSIGN
@given(
    entries=st.lists(st.from_regex(r"[0-9]{1,8}:[0-9]{1,8}", fullmatch=True), max_size=30), times=st.integers(1, 400)
)
def test_pieces_lose_nothing_and_fit(entries: list[str], times: int) -> None:
    found = pieces(entries * times)
    assert [e for piece in found for e in piece.split(",")] == entries * times
    assert all(len(piece) <= LIST_LIMIT for piece in found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@QUICK_REASSIGN
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(RecordKind), st.sampled_from(JournalSubject), st.integers(-1, 5), JSON), max_size=6
    )
)
def test_any_journal_of_well_formed_lines_is_read_or_refused(
    rows: list[tuple[RecordKind, JournalSubject, int, Any]],
) -> None:
    prev, text = FIRST_PREV, b""
    for seq, (kind, what, of, value) in enumerate(rows):
        body = value if isinstance(value, dict) else {"changes": value, "targets": value, "keys": value}
        line = encode_line(
            Record(seq=seq, time=datetime(2026, 1, 1, tzinfo=UTC), prev=prev, kind=kind, what=what, of=of, data=body),
            GRAMMAR,
        )
        prev, text = line_hash(line), text + line
    decoded = decode_journal(text, "j")
    assert len(decoded.records) == len(rows)
    try:
        replay(decoded.records, "j")
    except InputError as error:
        check_refusal(error, "j")


@QUICK_REASSIGN
@given(noise=st.binary(max_size=200))
def test_any_bytes_as_a_journal_are_read_or_refused(noise: bytes) -> None:
    try:
        decode_journal(noise, "j")
    except InputError as error:
        check_refusal(error, "j")


@QUICK_REASSIGN
@given(data=st.data())
def test_a_journal_with_one_changed_byte_is_refused_or_cut_at_its_last_line(data: st.DataObject) -> None:
    cluster = FakeCluster({1: "a", 2: "b"})
    cluster.add_topic("t", {0: (1,)}, size_bytes=1000)
    bench = Harness(cluster, make_plan(cluster, {("t", 0): (2,)}))
    bench.apply(rate=10**6)
    text = bytearray(bench.file.data)
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    last_line = bytes(bench.file.data[:-1]).rindex(b"\n") + 1
    try:
        decoded = decode_journal(bytes(text), "j")
    except InputError:
        return
    # Only the last line has no other line that vouches for it.
    assert place >= last_line - 1
    assert len(decoded.records) >= bench.file.data.count(b"\n") - 2


@QUICK_REASSIGN
@given(bench=benches(), data=st.data())
def test_a_mutated_plan_file_is_refused_in_one_line_or_still_makes_sense(bench: Harness, data: st.DataObject) -> None:
    body = json.loads(encode_plan(bench.plan))
    holder, key = data.draw(st.sampled_from(list(places(body))))
    holder[key] = data.draw(JSON)
    text = json.dumps(body).encode()
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(text))))
    try:
        plan = decode_plan(text[:cut], "p.json")
        check_plan(plan, "p.json")
    except InputError as error:
        check_refusal(error, "p.json")
    else:
        lists = {(entry.topic, entry.partition): entry.replicas for entry in plan.reassignment.partitions}
        assert {m.key: m.after for m in plan.moves}.items() <= lists.items()


def places(value: Any) -> Any:
    """Every (container, key) of a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield value, key
        yield from places(inner)
