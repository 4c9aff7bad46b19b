"""Several instances share clusters: one carrier each, fair, taken over in seconds, and silent once in doubt."""

from typing import Any

import pytest

from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.lease import Holder, Life
from kafkakit.streams.lag.act.fleet import FORGET_S, INSTANCES, SETTLE_S, TTL_S, ClusterShares, share_path
from kafkakit.streams.lag.decide.monitors import MonitorInstance, fair_share, to_give
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore

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
    world.store.cas(share_path("c2"), b"of a version to come", None)
    only = world.start("a")
    world.run(5, only)
    assert only.carried() == ("c1", "c3", "c4")
    assert sum("c2" in line for line in world.said) == 1


def test_a_lease_that_was_overwritten_is_lost_and_ends_nothing(world: World) -> None:
    only = world.start("a")
    world.run(2, only)
    found = world.store.get(share_path("c2"))
    assert found is not None
    world.store.cas(share_path("c2"), b"of a version to come", found.version)
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
