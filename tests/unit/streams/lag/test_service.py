"""Several instances share clusters; watchers in threads and the service over them."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import (
    ConnectRefusedError,
    KafkakitError,
    OperationFailedError,
    ServiceStoppedError,
    TerminationRequested,
    TryLaterError,
)
from kafkakit.core.lease import Holder, Life, monitor_lease
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import LogReader
from kafkakit.streams.lag.act.fleet import (
    FORGET_S,
    INSTANCES,
    SETTLE_S,
    TTL_S,
    UNREACHABLE_S,
    ClusterShares,
    Fleet,
    LagService,
    look_once,
    run_service,
)
from kafkakit.streams.lag.act.monitor import MonitorContext, MonitoredCluster, MonitorPace, StateFiles
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.monitors import MonitorCondition, MonitorInstance, MonitorPhase, fair_share, to_give
from kafkakit.streams.lag.service_report import all_families, exposition, health_page, json_page
from kafkakit.wiring import read_input, write_file
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.fakes.groups import FakeGroups
from tests.invariants.exposition import parse
from tests.rigs.lag import Rig
from tests.rigs.sandbox_cluster import SilentReporter
from tests.rigs.waiting import until

FOUR = ("c1", "c2", "c3", "c4")


class World:
    """One store, one time, and instances on hosts of their own (or on one, where a death is known at once)."""

    def __init__(self) -> None:
        self.store = FakeControlStore()
        self.clock = FakeClock()
        self.said: list[str] = []
        self.dead: set[int] = set()
        self.instances: dict[str, ClusterShares] = {}

    def start(self, name: str, host: str | None = None) -> ClusterShares:
        holder = Holder(
            host=host or name, user="ops", command="kafkakit streams lag serve", pid=len(name) + ord(name[0])
        )

        def life(other: Holder) -> Life:
            if other.host != holder.host:
                return Life.UNKNOWN
            return Life.GONE if other.pid in self.dead else Life.ALIVE

        shares = ClusterShares(self.store, self.clock, holder, name, life_of=life, warn=self.said.append)
        self.instances[name] = shares
        return shares

    def run(self, seconds: float, *alive: ClusterShares, reached: tuple[str, ...] = FOUR) -> None:
        """Everybody named ticks once a second; nobody ever carries what another one carries."""
        for _ in range(round(seconds)):
            for shares in alive:
                shares.tick(reached)
                self.check()
            self.clock.advance(1)
            self.check()

    def check(self) -> None:
        carried = [c for shares in self.instances.values() for c in shares.carried()]
        assert len(carried) == len(set(carried)), "two instances carry one cluster"


@pytest.fixture
def world() -> World:
    return World()


def test_one_instance_takes_everything_at_once(world: World) -> None:
    only = world.start("a")
    assert only.tick(FOUR).taken == FOUR
    assert only.carried() == FOUR
    assert only.instances == 1


def test_two_that_start_together_take_half_each(world: World) -> None:
    one, two = world.start("a"), world.start("b")
    one.tick(()), two.tick(())
    world.run(3, one, two)
    assert len(one.carried()) == len(two.carried()) == 2


def test_a_newcomer_is_given_its_share_after_things_settled(world: World) -> None:
    one, two = world.start("a"), world.start("b")
    world.run(3, one)
    world.run(SETTLE_S - 2, one, two)
    assert one.carried() == FOUR
    world.run(2 * SETTLE_S + 6, one, two)
    assert len(one.carried()) == len(two.carried()) == 2
    before = one.carried()
    world.run(5 * SETTLE_S, one, two)
    assert one.carried() == before, "what is even is left alone"


def test_a_dead_one_elsewhere_is_taken_over_within_seconds(world: World) -> None:
    one, two = world.start("a"), world.start("b")
    one.tick(()), two.tick(())
    world.run(3, one, two)
    world.run(TTL_S + 2, two)
    assert two.carried() == FOUR
    assert one.carried() == ()


def test_a_dead_one_on_this_host_is_taken_over_at_once(world: World) -> None:
    one, two = world.start("a", "h"), world.start("bb", "h")
    one.tick(()), two.tick(())
    world.run(3, one, two)
    world.dead.add(len("a") + ord("a"))
    del world.instances["a"]
    two.tick(FOUR)
    assert two.carried() == FOUR


def test_a_clean_end_lets_the_others_in_at_once(world: World) -> None:
    one, two = world.start("a"), world.start("b")
    one.tick(()), two.tick(())
    world.run(3, one, two)
    one.close()
    assert world.store.children(INSTANCES) == ("b",)
    two.tick(FOUR)
    assert two.carried() == FOUR


def test_whoever_cannot_renew_stops_before_another_may_take(world: World) -> None:
    one = world.start("a")
    one.tick(FOUR)
    world.store.away = True
    for _ in range(5):
        world.clock.advance(1)
        changes = one.tick(FOUR)
    assert one.carried() == ()
    assert [c for c, _ in changes.lost] == list(FOUR)
    assert sum("control store" in line for line in world.said) == 1
    world.store.away = False
    world.run(2, one)
    assert one.carried() == FOUR


def test_a_paused_instance_holds_nothing_when_it_wakes(world: World) -> None:
    one, two = world.start("a"), world.start("b")
    one.tick(()), two.tick(())
    world.run(3, one, two)
    kept = one.carried()
    world.run(TTL_S + 2, two)
    assert not any(one.holds(c) for c in kept)
    assert {c for c, _ in one.tick(FOUR).lost} == set(kept)
    world.check()


def test_a_cluster_that_cannot_be_reached_from_here_is_let_go_of(world: World) -> None:
    one, two = world.start("a"), world.start("b")
    one.tick(FOUR)
    assert one.tick(FOUR[1:]).lost == (("c1", "it cannot be reached from this host"),)
    two.tick(("c1",))
    assert two.carried() == ("c1",)


def test_a_lost_answer_does_not_lose_the_own_note(world: World) -> None:
    one = world.start("a")
    one.tick(FOUR)
    world.store.lose_answers = 1
    world.clock.advance(1)
    one.tick(FOUR)
    world.run(3, one)
    assert one.carried() == FOUR


def test_notes_of_the_long_dead_are_removed(world: World) -> None:
    one, two = world.start("a"), world.start("b")
    one.tick(()), two.tick(())
    world.run(FORGET_S + 5, two)
    assert world.store.children(INSTANCES) == ("b",)


def test_a_note_that_nobody_can_read_counts_for_nobody(world: World) -> None:
    world.store.cas(f"{INSTANCES}/x", b"{}", None)
    one = world.start("a")
    world.run(2, one)
    assert one.carried() == FOUR
    assert one.instances == 1


def test_shares_are_rounded_up() -> None:
    assert [fair_share(n, 3) for n in (0, 1, 3, 4, 6)] == [0, 1, 1, 2, 2]


def test_only_what_the_other_reaches_is_given() -> None:
    def other(carries: tuple[str, ...], reaches: tuple[str, ...]) -> MonitorInstance:
        return MonitorInstance(
            holder=Holder(host="h", user="u", command="c", pid=1), beats=1, carries=carries, reaches=reaches
        )

    assert to_give(FOUR, {"b": other((), ("c3", "c4"))}) == "c3"
    assert to_give(FOUR, {"b": other((), ("c9",))}) is None
    assert to_give(FOUR[:2], {"b": other(("c4",), FOUR)}) is None
    assert to_give(FOUR, {}) is None


def test_a_lease_that_cannot_be_read_costs_its_own_cluster_only(world: World) -> None:
    world.store.cas(monitor_lease("c2"), b"of a version to come", None)
    only = world.start("a")
    world.run(5, only)
    assert only.carried() == ("c1", "c3", "c4")
    assert sum("c2" in line for line in world.said) == 1


def test_a_lease_that_was_overwritten_is_lost_and_ends_nothing(world: World) -> None:
    only = world.start("a")
    world.run(2, only)
    found = world.store.get(monitor_lease("c2"))
    assert found is not None
    world.store.cas(monitor_lease("c2"), b"of a version to come", found.version)
    world.run(TTL_S + 2, only)
    assert only.carried() == ("c1", "c3", "c4")


def test_a_store_that_refuses_costs_the_leases_and_not_the_service(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = world.start("a")
    world.run(2, only)

    def refused(*_: object) -> None:
        raise OperationFailedError("the control store refuses")

    for name in ("get", "cas", "children"):
        monkeypatch.setattr(world.store, name, refused)
    world.run(TTL_S + 2, only)
    assert only.carried() == ()
    monkeypatch.undo()
    world.run(3, only)
    assert only.carried() == FOUR


def test_what_was_taken_before_the_store_went_away_is_carried(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    only = world.start("a")
    real, left = world.store.cas, [1, 1, 1]

    def failing(*args: Any) -> int:
        if not left:
            raise TryLaterError("the store is away")
        left.pop()
        return real(*args)

    monkeypatch.setattr(world.store, "cas", failing)
    taken = only.tick(FOUR).taken
    assert taken == only.carried()
    assert len(taken) == 2


PACE = MonitorPace(wait_ms=5, ends_s=0.02, records_s=0.01, locate_s=0.05)


def until_ticked(service: LagService, is_so: Callable[[], object], what: str) -> None:
    def ticked() -> object:
        service.tick()
        return is_so()

    until(ticked, what)


class Harness:
    """Two clusters in memory with a group each, and what a service needs."""

    def __init__(self, folder: Path) -> None:
        self.rigs = {"a": Rig(), "b": Rig()}
        for number, (name, rig) in enumerate(self.rigs.items()):
            rig.reader.id = f"id-{name}"
            rig.clock.shift = SystemClock().now() - rig.clock.start
            rig.produce(10)
            rig.commit("g", 4 + number)
        self.said: list[str] = []
        self.groups = FakeGroups()
        self.store = FakeControlStore()
        self.states = StateFiles(folder / "lag", read_input, write_file)
        self.fleets: list[Fleet] = []

    def source(self, name: str, *, pinned_id: str | None = None) -> MonitoredCluster:
        def open_reader() -> LogReader:
            return self.rigs[name].reader

        return MonitoredCluster(
            name=name,
            open_reader=open_reader,
            facts_of=lambda _: {},
            open_groups=lambda: self.groups,
            pinned_id=pinned_id,
        )

    def fleet(self, *sources: MonitoredCluster) -> Fleet:
        means = MonitorContext(clock=SystemClock(), warn=self.said.append, states=self.states, pace=PACE)
        fleet = Fleet(sources or (self.source("a"), self.source("b")), means)
        self.fleets.append(fleet)
        return fleet

    def service(self, pid: int, ttl_s: float = 600) -> LagService:
        holder = Holder(host=f"h{pid}", user="ops", command="serve", pid=pid)
        shares = ClusterShares(
            self.store,
            SystemClock(),
            holder,
            f"i{pid}",
            life_of=lambda _: Life.UNKNOWN,
            warn=self.said.append,
            ttl_s=ttl_s,
        )
        return LagService(self.fleet(), shares, SystemClock(), self.said.append)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    yield made
    for fleet in made.fleets:
        fleet.close()


def lags(fleet: Fleet) -> dict[str, list[int]]:
    return {table.cluster: table.lag.tolist() for table in fleet.look().tables}


def test_all_clusters_are_watched_and_their_states_are_saved(bench: Harness) -> None:
    fleet = bench.fleet()
    fleet.start(carrying=True)
    until(lambda: lags(fleet) == {"a": [6], "b": [5]}, "the figures do not come")
    assert fleet.close() == ()
    assert bench.states.path_of("id-a").exists()
    again = bench.fleet()
    again.start(carrying=True)
    until(lambda: lags(again) == {"a": [6], "b": [5]}, "the figures do not come again")
    monitor = again.watchers[0].monitor
    assert monitor is not None
    assert monitor.condition().warm_since_ms > 0
    assert monitor.condition().totals.records == 0, "what is known was read again"


def test_a_cluster_that_is_away_or_wrong_is_its_own_trouble(bench: Harness) -> None:
    bench.rigs["a"].reader.unreachable = True
    fleet = bench.fleet(bench.source("a"), bench.source("b", pinned_id="another"))
    fleet.start(carrying=True)
    until(lambda: all(w.error is not None for w in fleet.watchers), "nothing is told")
    away, wrong = fleet.look().conditions
    assert (away.phase, away.reason) == (MonitorPhase.CONNECTING, "cannot connect to the fake cluster")
    assert wrong.phase is MonitorPhase.REFUSED
    assert "pins cluster another" in wrong.reason
    bench.rigs["a"].reader.unreachable = False
    until(lambda: lags(fleet).get("a") == [6], "it does not come back")
    assert bench.said.count("a: cannot connect to the fake cluster") == 1
    assert "a: brokers answer again" in bench.said


def test_a_fault_of_ours_is_told_and_ends_nothing(bench: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.streams.lag.act.monitor.AFTER_FAULT_S", 0.05)
    fleet = bench.fleet(bench.source("a"))
    real = bench.rigs["a"].reader.places
    monkeypatch.setattr(bench.rigs["a"].reader, "places", lambda _=None: 1 / 0)
    fleet.start(carrying=True)
    until(lambda: any("unexpected ZeroDivisionError" in line for line in bench.said), "it is not told")
    assert fleet.look().conditions[0].phase is MonitorPhase.REFUSED
    monkeypatch.setattr(bench.rigs["a"].reader, "places", real)
    until(lambda: lags(fleet) == {"a": [6]}, "it does not continue")


def test_what_members_own_without_a_commit_is_published(bench: Harness) -> None:
    """From when its members are read, and until the group commits."""
    bench.groups.join("new", TopicPartition("orders", 0))
    service = bench.service(1)
    service.start()

    def status_of(cluster: str) -> set[tuple[str, int]]:
        return {
            (table.groups[group], status)
            for table in service.published().tables
            if table.cluster == cluster
            for group, status in zip(table.group.tolist(), table.status.tolist(), strict=True)
        }

    until_ticked(service, lambda: ("new", LagStatus.NO_COMMIT) in status_of("a"), "it is not published")
    bench.rigs["a"].commit("new", 10)
    until_ticked(service, lambda: ("new", LagStatus.OK) in status_of("a"), "its commit is not taken")
    assert ("new", LagStatus.NO_COMMIT) not in status_of("a")


def test_owned_partitions_that_cannot_be_read_end_nothing(bench: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.streams.lag.act.monitor.OWNED_EVERY_S", 0.05)
    bench.groups.join("new", TopicPartition("orders", 0))
    real = bench.groups.describe
    monkeypatch.setattr(bench.groups, "describe", lambda _: 1 / 0)
    fleet = bench.fleet(bench.source("a"))
    fleet.start(carrying=True)
    told = "partitions that members own without a commit are not all known: unexpected ZeroDivisionError"
    until(lambda: any(note.startswith(told) for note in fleet.look().conditions[0].notes), "it is not told")
    monkeypatch.setattr(bench.groups, "describe", real)
    until(lambda: lags(fleet) == {"a": [6, -1]}, "it does not continue")
    until(lambda: not fleet.look().conditions[0].notes, "the note stays")


def test_a_damaged_state_is_told_and_not_used(bench: Harness) -> None:
    path = bench.states.path_of("id-a")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"nonsense\n")
    fleet = bench.fleet(bench.source("a"))
    fleet.start(carrying=True)
    until(lambda: lags(fleet) == {"a": [6]}, "it does not start")
    assert any("the saved state is not used" in line for line in bench.said)


def test_a_service_publishes_what_it_carries_and_nothing_else(bench: Harness) -> None:
    first, second = bench.service(1), bench.service(2)
    first.start()
    until_ticked(first, lambda: first.published().carried == ("a", "b"), "the first does not take both")
    second.start()
    for _ in range(20):
        first.tick()
        second.tick()
        assert set(first.published().carried).isdisjoint(second.published().carried)
        time.sleep(0.01)
    until_ticked(first, lambda: len(first.published().tables) == 2, "no figures")
    text = exposition(all_families(first.published(), 100))
    found = parse(text)
    assert found["kafkakit_lag_carried", (("cluster", "a"),)] == 1
    assert parse(exposition(all_families(second.published(), 100)))["kafkakit_lag_carried", (("cluster", "a"),)] == 0
    assert {line["lag"] for line in _lines(first)} == {6, 5}
    assert _page(second)["lines"] is None, "not known is no empty list"
    assert (_page(first)["known"], _page(second)["known"]) == (True, False)
    assert b'"healthy":true' in health_page(first.is_healthy(), first.published().conditions, {})
    second.close()
    first.close()


def test_a_service_without_its_control_store_falls_silent(bench: Harness) -> None:
    service = bench.service(1, ttl_s=1.0)
    service.start()
    until_ticked(service, lambda: len(service.published().tables) == 2, "no figures")
    bench.store.away = True
    until(lambda: service.published().carried == (), "it continues without a lease")
    assert service.published().tables == ()
    assert service.published().others == ("a", "b")
    bench.store.away = False
    until_ticked(service, lambda: service.published().carried == ("a", "b"), "it does not come back")
    service.close()


def test_a_cluster_that_cannot_be_reached_is_let_go_of(bench: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.streams.lag.act.fleet.REACHED_S", 0.2)
    service = bench.service(1)
    service.start()
    until_ticked(service, lambda: service.published().carried == ("a", "b"), "it does not take both")
    bench.rigs["b"].reader.unreachable = True
    until_ticked(service, lambda: service.published().carried == ("a",), "it keeps what it cannot reach")
    assert not any("id-b" in path for path in bench.store.children("lag/instances"))
    service.close()


def test_a_stop_puts_everything_away(bench: Harness) -> None:
    service = bench.service(1)
    notes: list[str] = []
    clock = SystemClock()
    began = threading.Event()

    class Stopping(SystemClock):
        def sleep(self, seconds: float) -> None:
            clock.sleep(0.01)
            if service.published().tables and len(service.published().tables[0]):
                began.set()
                raise TerminationRequested

    def notify(*lines: str) -> bool:
        notes.extend(lines)
        return True

    with pytest.raises(ServiceStoppedError, match=r"stopped \(SIGTERM\); the state is saved"):
        run_service(
            service, Stopping(), report=bench.said.append, notify=notify, memory_bytes=lambda: 1 << 20,
            require_listening=lambda: None,
        )  # fmt: skip
    assert began.is_set()
    assert (notes[0], notes[-1]) == ("READY=1", "STOPPING=1")
    assert "WATCHDOG=1" in notes
    assert bench.store.children("lag/instances") == ()
    assert "monitors 0 of 2 clusters" in service.summary(0)


def test_a_page_refuses_what_it_does_not_know() -> None:
    for query in ({"by": "moon"}, {"top": "-1"}, {"top": "x"}, {"colour": "red"}):
        with pytest.raises(Exception, match=r"is not a level|number from 1|unknown key"):
            json_page(query, (), (), 0, {})


def _page(service: LagService) -> dict[str, Any]:
    seen = service.published()
    found: dict[str, Any] = json.loads(json_page({"by": "group_topic"}, seen.tables, seen.conditions, seen.at_ms, {}))
    return found


def _lines(service: LagService) -> list[dict[str, int]]:
    return list(_page(service)["lines"])


@pytest.mark.parametrize(
    ("error", "waited_s"),
    [(ConnectRefusedError("login refused"), 0.0), (TryLaterError("no answer"), UNREACHABLE_S)],
)
def test_no_wait_is_for_settings_that_are_refused(error: KafkakitError, waited_s: float) -> None:
    clock = FakeClock()
    began_s = clock.monotonic()
    watcher = SimpleNamespace(
        error=error,
        monitor=None,
        name="a",
        condition=lambda: MonitorCondition(cluster="a", at_ms=0, phase=MonitorPhase.CONNECTING),
    )
    look: Any = object()
    stub: Any = SimpleNamespace(clock=clock, watchers=[watcher], look=lambda: look)
    assert look_once(stub, SilentReporter(), wait_s=60.0) is look
    assert waited_s <= clock.monotonic() - began_s < waited_s + 1
