"""Each partition has one owner, and each owner a greater epoch than the one before."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkakit.streams.client.api import PartitionKey, Subscription
from kafkakit.streams.model.route import Route
from tests.rigs.assigner import World, moved, route, segment, worker


def world(*slots: str) -> World:
    made = World()
    for slot in slots:
        made.add(slot)
    return made


def test_all_partitions_are_shared_out() -> None:
    found = world("a", "b", "c")
    routes = {"orders": route(12)}
    found.settle(routes)
    assert sorted(len(found.reads[slot]) for slot in "abc") == [4, 4, 4]
    assert {key.topic for key in found.assignment.owners} == {"orders.live.1"}


def test_workers_get_shares_by_their_capacity() -> None:
    found = World()
    found.add("a", worker("a", capacity=300))
    found.add("b", worker("b", capacity=100))
    found.settle({"orders": route(40)})
    assert len(found.reads["a"]) == 30
    assert len(found.reads["b"]) == 10


def test_a_partition_is_granted_to_the_next_one_after_the_last_one_let_it_go() -> None:
    found = world("a")
    routes = {"orders": route(4)}
    found.settle(routes)
    found.add("b")
    step = found.step(routes, draining=frozenset({"id-a"}))
    assert step.waiting == 4
    assert dict(found.store["a"].leases()) == {}
    assert dict(found.store["b"].leases()) == {}
    found.apply("b")
    assert found.step(routes, draining=frozenset({"id-a"})).waiting == 4
    found.apply("a")
    step = found.step(routes, draining=frozenset({"id-a"}))
    assert step.waiting == 0
    assert len(dict(found.store["b"].leases())) == 4


def test_a_dead_workers_partitions_are_granted_at_once_with_greater_epochs_and_no_others_move() -> None:
    found = world("a", "b", "c", "d")
    routes = {"orders": route(40)}
    found.settle(routes)
    before = dict(found.assignment.owners)
    epochs = {key: epoch for each in found.reads.values() for key, epoch in each.items()}
    dead = {key for key, slot in before.items() if slot == "b"}
    found.kill("b")
    step = found.step(routes)
    assert step.waiting == 0
    assert step.orphans == len(dead)
    after = found.assignment.owners
    assert {key for key in before if after[key] != before[key]} >= dead
    assert sum(after[key] != before[key] for key in before) <= 1.1 * len(dead)
    for slot in "acd":
        for key, epoch in found.store[slot].leases():
            assert (epoch > epochs[key]) == (key in dead)


def test_another_assigner_grants_nothing_new_before_all_workers_keep_to_what_it_adopted() -> None:
    found = world("a", "b")
    routes = {"orders": route(4)}
    found.settle(routes)
    # The first Assigner took a partition from `a`, which still reads it, and ended before it was granted again.
    step = found.step(routes, draining=frozenset({"id-a"}))
    assert step.waiting
    held = {key for key in found.reads["a"] if key not in dict(found.store["a"].leases())}
    assert held
    found.restart(2)
    assert {document.token for document in found.store.values()} == {2}
    found.apply("b")
    assert found.step(routes).waiting == len(held)
    found.apply("a")
    found.settle(routes)
    assert len(found.assignment.owners) == 4
    assert all(epoch >> 24 == 2 for each in found.reads.values() for k, epoch in each.items() if k in held)


def test_all_segments_are_read_after_a_failover_and_a_retired_one_is_not() -> None:
    found = world("a", "b")
    first = route(4)
    found.settle({"orders": first})
    second = moved(first, "b", 6)
    found.settle({"orders": second})
    assert len(found.assignment.owners) == 10
    lane = second.lanes[0]
    third = replace(second, epoch=3, lanes=(replace(lane, segments=lane.segments[1:]),))
    found.settle({"orders": third})
    assert {key.cluster_id for key in found.assignment.owners} == {"b-id"}
    assert sum(map(len, found.reads.values())) == 6


def test_a_topic_that_was_made_again_is_another_one() -> None:
    found = world("a")
    first = route(2)
    found.settle({"orders": first})
    before = dict(found.reads["a"])
    again = replace(segment(1, 2), topic_id="B" * 22)
    found.settle({"orders": replace(first, epoch=2, lanes=(replace(first.lanes[0], segments=(again,)),))})
    assert found.store["a"].topics[0].topic_id == "B" * 22
    assert all(found.reads["a"][key] > epoch for key, epoch in before.items())


def test_a_group_with_a_member_of_kafkas_protocol_is_left_to_it() -> None:
    found = world("a", "b")
    routes = {"orders": route(4)}
    found.settle(routes)
    found.workers["b"] = replace(
        found.workers["b"], subscriptions=(Subscription(stream="orders", group="g", is_grouped=True),)
    )
    found.settle(routes)
    assert found.assignment.owners == {}
    assert found.reads["a"] == {}


def test_only_workers_that_handle_a_stream_get_it() -> None:
    found = World()
    found.add("a", worker("a", streams=("one", "both")))
    found.add("b", worker("b", streams=("two", "both")))
    found.add("c", worker("c", streams=("alone",)))
    routes = {name: route(4, stream=name) for name in ("one", "two", "both", "alone", "none")}
    found.settle(routes)
    assert {key.stream for key in found.reads["a"]} <= {"one", "both"}
    assert {key.stream for key in found.reads["b"]} <= {"two", "both"}
    assert {key.stream for key in found.reads["c"]} == {"alone"}
    assert len(found.assignment.owners) == 16


def test_a_worker_in_a_slot_of_another_one_gets_a_grant_of_its_own() -> None:
    found = world("a")
    routes = {"orders": route(2)}
    found.settle(routes)
    found.add("a", worker("other"))
    found.settle(routes)
    assert found.store["a"].worker == "id-other"
    assert len(found.reads["a"]) == 2


@pytest.mark.parametrize("may_balance", [False, True])
def test_a_new_worker_gets_its_share_once_balancing_is_allowed(may_balance: bool) -> None:
    found = world("a", "b")
    routes = {"orders": route(30)}
    found.settle(routes)
    found.add("c")
    found.settle(routes, may_balance=may_balance)
    assert len(found.reads["c"]) in (range(7, 12) if may_balance else range(1))


class Owners(RuleBasedStateMachine):
    """Workers come, die, apply late or never, and Assigners take over: no two living workers read one partition."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.routes: dict[str, Route] = {"orders": route(6), "bills": route(3, stream="bills")}
        self.token = 1
        self.made = 0
        self.newest: dict[PartitionKey, tuple[int, str]] = {}

    @initialize()
    def begin(self) -> None:
        self.join(("orders", "bills"))

    @rule(streams=st.sampled_from([("orders",), ("bills",), ("orders", "bills")]))
    def join(self, streams: tuple[str, ...]) -> None:
        if len(self.world.workers) < 5:
            self.made += 1
            self.world.add(f"w{self.made}", worker(f"w{self.made}", streams=streams))

    @rule(number=st.integers(0, 4))
    def die(self, number: int) -> None:
        if self.world.workers:
            self.world.kill(sorted(self.world.workers)[number % len(self.world.workers)])

    @rule(number=st.integers(0, 4))
    def apply(self, number: int) -> None:
        if self.world.workers:
            self.world.apply(sorted(self.world.workers)[number % len(self.world.workers)])

    @rule(draining=st.booleans(), may_balance=st.booleans())
    def step(self, draining: bool, may_balance: bool) -> None:
        ids = frozenset(sorted(each.id for each in self.world.workers.values())[:1]) if draining else frozenset()
        self.world.step(self.routes, draining=ids, may_balance=may_balance)

    @rule()
    def take_over(self) -> None:
        self.token += 1
        self.world.restart(self.token)

    @rule()
    def fail_over(self) -> None:
        found = self.routes["orders"]
        if found.next_segment < 4:
            self.routes["orders"] = moved(found, "bc"[found.next_segment % 2], 4)

    @invariant()
    def one_owner(self) -> None:
        seen: dict[PartitionKey, str] = {}
        for slot, reads in self.world.reads.items():
            for key in reads:
                assert seen.setdefault(key, slot) == slot, f"{key} is read by {seen[key]} and {slot}"

    @invariant()
    def epochs_grow(self) -> None:
        for slot, document in self.world.store.items():
            for key, epoch in document.leases():
                before, owner = self.newest.get(key, (0, slot))
                assert (epoch == before and owner == slot) or epoch > before
                self.newest[key] = (epoch, slot)


TestOwners = Owners.TestCase
TestOwners.settings = settings(max_examples=60, stateful_step_count=30, suppress_health_check=list(HealthCheck))
