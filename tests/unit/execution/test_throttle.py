"""Throttles set, changed and given back; throttle lists to the byte."""

from collections.abc import Collection, Mapping

import pytest

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ItemError, ResourceKind
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.execution.act.retrier import (
    SHOW_TIMEOUT_S,
    ConfigChanges,
    ConfigWriter,
    NoteErrors,
    Retrier,
    WriteOutcome,
    noted_before,
    wait_until_shown,
)
from kafkakit.execution.decide.journal import ConfigKey, RateHold, change_of, key_of
from kafkakit.execution.decide.plan_state import LIST_LIMIT, MoveGoal
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.execution.decide.throttle import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    INSIDE_RATE,
    LEADER_LIST,
    LEADER_RATE,
    empty_list_changes,
    entry_changes,
    list_capacity_for,
    pieces,
    removal_changes,
    wanted_entries,
)
from tests.fakes.admin import MAX_CHANGES, MAX_CONFIG_BYTES
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.reassign import Killed
from tests.rigs.throttles import LaggingCluster, Rig, goal, rate_set, set_by_others

T0 = goal("t", 0, (3, 2))
U1 = goal("u", 1, (4, 2))
BOTH = BrokerRates(into=5, out=5)


def finish(rig: Rig) -> None:
    """Lift all; the journal must tell the same story as the cluster."""
    assert rig.throttles.lift(rig.live()) == ()
    verify_effects(verify_journal(rig.file.data), rig.cluster.calls)


def test_each_broker_and_direction_has_its_own_rate() -> None:
    rig = Rig()
    rates = BrokerRates(into=5, out=6, into_of={4: 40, 2: 20}, out_of={2: 60})
    rig.throttles.impose([T0, U1], rates, rig.live())
    assert rig.configs() == {
        "broker 1": {LEADER_RATE: "6"},
        "broker 2": {LEADER_RATE: "60"},
        "broker 3": {FOLLOWER_RATE: "5"},
        "broker 4": {FOLLOWER_RATE: "40"},
        "topic t": {LEADER_LIST: "0:1,0:2", FOLLOWER_LIST: "0:3"},
        "topic u": {LEADER_LIST: "1:1,1:2", FOLLOWER_LIST: "1:4"},
    }
    finish(rig)
    assert rig.configs() == {}


def test_a_side_without_a_rate_gets_no_entry() -> None:
    rig = Rig()
    rig.cluster.brokers[1].configs[LEADER_RATE] = "777"  # our entries there would fall under it
    rig.throttles.impose([T0, U1], BrokerRates(into_of={3: 5}), rig.live())
    assert rig.configs() == {
        "broker 1": {LEADER_RATE: "777"},
        "broker 3": {FOLLOWER_RATE: "5"},
        "topic t": {FOLLOWER_LIST: "0:3"},
    }
    finish(rig)


def test_rates_change_while_moves_are_under_way_and_the_first_values_come_back() -> None:
    rig = Rig()
    rig.cluster.brokers[1].configs[LEADER_RATE] = "777"
    rig.cluster.topics["t"].configs[FOLLOWER_LIST] = "9:9"
    before = rig.configs()
    rig.throttles.impose([T0], BOTH, rig.live())
    for rates in (
        BrokerRates(into=9, out=9),
        BrokerRates(into=9, out_of={2: 3}),
        BrokerRates(into=1, out=2, into_of={3: 7}),
    ):
        assert rig.throttles.change(rates, rig.live()) == ()
    assert rig.configs()["broker 1"] == {LEADER_RATE: "2"}
    assert rig.configs()["broker 3"] == {FOLLOWER_RATE: "7"}
    assert rig.throttles.change(BrokerRates(into=1), rig.live()) == ()
    assert rig.configs() == {
        "broker 1": {LEADER_RATE: "777"},
        "broker 3": {FOLLOWER_RATE: "1"},
        "topic t": {FOLLOWER_LIST: "9:9,0:3"},
    }
    assert rig.throttles.change(BrokerRates(), rig.live()) == ()
    assert rig.configs() == before
    finish(rig)


def test_moves_that_began_without_a_throttle_get_one() -> None:
    rig = Rig()
    rig.throttles.impose([T0], BrokerRates(), rig.live())
    assert rig.configs() == {}
    rig.throttles.change(BOTH, rig.live())
    assert rig.configs()["topic t"] == {LEADER_LIST: "0:1,0:2", FOLLOWER_LIST: "0:3"}
    rig.throttles.impose_rates([T0, U1], BOTH, rig.live())
    assert rig.configs()["topic u"] == {LEADER_LIST: "1:1,1:2", FOLLOWER_LIST: "1:4"}
    calls = len(rig.cluster.calls)
    rig.throttles.impose_rates([T0, U1], BOTH, rig.live())
    assert len(rig.cluster.calls) == calls
    finish(rig)
    assert rig.configs() == {}


def test_what_arrived_is_not_throttled_again_by_a_change() -> None:
    rig = Rig()
    rig.throttles.impose([T0, U1], BOTH, rig.live())
    rig.throttles.lift_entries([T0])
    rig.throttles.change(BrokerRates(into=9, out=9), rig.live())
    assert "topic t" not in rig.configs()
    assert rig.configs()["topic u"] == {LEADER_LIST: "1:1,1:2", FOLLOWER_LIST: "1:4"}
    assert "broker 3" not in rig.configs()
    finish(rig)


def test_log_dirs_have_a_rate_of_their_own_that_is_given_back() -> None:
    rig = Rig()
    rig.cluster.brokers[2].configs[INSIDE_RATE] = "777"
    rig.throttles.impose_inside([2, 3], BrokerRates(into=1, out=1, inside=50), rig.live())
    assert rig.configs() == {"broker 2": {INSIDE_RATE: "50"}, "broker 3": {INSIDE_RATE: "50"}}
    rig.throttles.change(BrokerRates(inside=60), rig.live())
    assert rig.configs() == {"broker 2": {INSIDE_RATE: "60"}, "broker 3": {INSIDE_RATE: "60"}}
    rig.throttles.impose_inside([4], BrokerRates(), rig.live())
    assert "broker 4" not in rig.configs()
    rig.cluster.kill(3)
    (owed,) = rig.throttles.lift(rig.live())
    assert owed == "the rate between log dirs on broker 3, which is not alive, can only be removed once it is back"
    assert rig.configs() == {"broker 2": {INSIDE_RATE: "777"}, "broker 3": {INSIDE_RATE: "60"}}
    rig.cluster.revive(3)
    finish(rig)
    assert rig.configs() == {"broker 2": {INSIDE_RATE: "777"}}


def test_dead_brokers_are_skipped_and_get_their_rate_when_they_are_back() -> None:
    rig = Rig()
    rig.cluster.kill(3)
    rig.throttles.impose([T0], BOTH, rig.live())
    assert "broker 3" not in rig.configs()
    assert rig.throttles.change(BrokerRates(into=9, out=9), rig.live()) == (
        "broker 3 is not alive and keeps the rate that it has",
    )
    rig.cluster.revive(3)
    rig.throttles.impose_rates([T0], BrokerRates(into=9, out=9), rig.live())
    assert rig.configs()["broker 3"] == {FOLLOWER_RATE: "9"}
    finish(rig)


def test_a_value_that_others_set_since_is_neither_overwritten_nor_deleted() -> None:
    rig = Rig()
    rig.throttles.impose([T0], BOTH, rig.live())
    set_by_others(rig.cluster, "1", LEADER_RATE, "123")
    assert rig.throttles.change(BrokerRates(into=9, out=9), rig.live()) == (
        f"broker 1: {LEADER_RATE} was changed by another process and stays",
    )
    rig.start()  # the executor died; its successor meets the same value
    rig.throttles.impose([T0], BOTH, rig.live())
    assert rig.configs()["broker 1"] == {LEADER_RATE: "123"}
    assert [w for w in rig.reporter.warned if "another process changed" in w] == [
        f"broker 1: another process changed {LEADER_RATE} meanwhile; left as it is"
    ] * 2
    finish(rig)
    assert rig.configs() == {"broker 1": {LEADER_RATE: "123"}}


def test_a_broker_that_refuses_stops_a_start_and_is_told_of_in_a_change() -> None:
    rig = Rig()
    denied = ItemError(name="ClusterAuthorizationFailedError")
    rig.cluster.fail_item("alter_configs", rate_set(3, FOLLOWER_RATE, "5"), denied)
    with pytest.raises(OperationFailedError, match="broker 3 does not take the throttle: ClusterAuthorization"):
        rig.throttles.impose([T0], BOTH, rig.live())
    rig.throttles.impose([T0], BOTH, rig.live())
    rig.cluster.fail_item("alter_configs", rate_set(3, FOLLOWER_RATE, "9"), denied)
    assert rig.throttles.change(BrokerRates(into=9, out=9), rig.live()) == (
        "broker 3 does not take the throttle: ClusterAuthorizationFailedError",
    )
    assert rig.configs()["broker 3"] == {FOLLOWER_RATE: "5"}
    assert rig.configs()["broker 1"] == {LEADER_RATE: "9"}
    finish(rig)
    assert rig.configs() == {}


def test_what_cannot_be_lifted_is_owed_with_the_reason() -> None:
    rig = Rig()
    rig.throttles.impose([T0], BOTH, rig.live())
    change = ConfigChange(kind=ResourceKind.TOPIC, name="t", key=LEADER_LIST, op=ConfigOp.SUBTRACT, value="0:1,0:2")
    rig.cluster.fail_item("alter_configs", change, ItemError(name="TopicAuthorizationFailedError"))
    assert rig.throttles.lift(rig.live()) == ("throttle lists of topics t (TopicAuthorizationFailedError)",)
    # One resource is changed as a whole or not at all.
    assert rig.configs() == {"topic t": {LEADER_LIST: "0:1,0:2", FOLLOWER_LIST: "0:3"}}
    finish(rig)
    assert rig.configs() == {}


@pytest.mark.parametrize("lag", [1, 3, 7])
def test_reads_that_lag_are_waited_for(lag: int) -> None:
    cluster = LaggingCluster(dict.fromkeys((1, 2, 3, 4), "a"), lag)
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=1000)
    rig = Rig(cluster)
    rig.throttles.impose([T0], BOTH, rig.live())
    rig.throttles.change(BrokerRates(into=9), rig.live())
    assert rig.configs() == {"broker 3": {FOLLOWER_RATE: "9"}, "topic t": {FOLLOWER_LIST: "0:3"}}
    finish(rig)
    assert rig.configs() == {}


def test_a_change_that_never_shows_is_an_error_and_stays_owed() -> None:
    cluster = LaggingCluster(dict.fromkeys((1, 2, 3, 4), "a"), 10**6)
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=1000)
    rig = Rig(cluster)
    with pytest.raises(OperationFailedError, match="accepted but does not show"):
        rig.throttles.impose([T0], BOTH, rig.live())
    cluster.lag = 0
    rig.start()
    finish(rig)
    assert rig.configs() == {}


def test_a_writer_tells_what_is_refused_what_shows_another_value_and_what_is_gone() -> None:
    rig = Rig()
    changes = [rate_set(broker, FOLLOWER_RATE, "5") for broker in (1, 2, 3, 4)]
    rig.cluster.fail_item("alter_configs", changes[0], ItemError(name="PolicyViolationError"))
    rig.cluster.fail_next("alter_configs", TryLaterError("away"))
    notes: list[object] = []

    def intend(call: ConfigChanges) -> NoteErrors:
        notes.append((tuple(call), len(rig.cluster.calls)))
        return notes.append

    outcome = ConfigWriter(rig.cluster, rig.clock, Retrier(rig.clock, rig.reporter, 10), "rates").write(
        dict.fromkeys(changes), intend
    )
    assert outcome == WriteOutcome(refused={changes[0]: ItemError(name="PolicyViolationError")})
    assert notes == [(tuple(changes), 0), outcome.refused]
    assert len(rig.reporter.warned) == 1
    lagging: dict[ConfigKey, str | None] = dict(zip(map(key_of, changes[1:]), ("4", "4", "5.0"), strict=True))
    shown = wait_until_shown(
        rig.clock, changes, lambda _: lagging, lambda one, other: float(one or 0) == float(other or 0),
        waits_for_gone=True,
    )  # fmt: skip
    assert shown == WriteOutcome(unshown={changes[1]: "4", changes[2]: "4"}, gone=(changes[0],))


@pytest.mark.parametrize("is_made", [True, False])
def test_a_second_try_leaves_what_another_process_set_since_the_first(is_made: bool) -> None:
    rig = Rig()
    kind, entries = ResourceKind.TOPIC, ConfigOp.APPEND
    changes = {
        rate_set(1, FOLLOWER_RATE, "5"): None,
        rate_set(2, FOLLOWER_RATE, "5"): "4",
        change_of(ConfigKey(ResourceKind.BROKER, "3", FOLLOWER_RATE), None): "6",
        ConfigChange(kind=kind, name="t", key=FOLLOWER_LIST, op=entries, value="0:1"): None,
    }
    taken, *others = changes
    for broker, value in (("2", "4"), ("3", "6")):
        set_by_others(rig.cluster, broker, FOLLOWER_RATE, value)
    rig.cluster.fail_next("alter_configs", TryLaterError("away"), after_effect=is_made)

    def act(_: float) -> None:
        set_by_others(rig.cluster, "1", FOLLOWER_RATE, "9")
        if "0:1" not in rig.cluster.topics["t"].configs.get(FOLLOWER_LIST, ""):
            set_by_others(rig.cluster, "t", FOLLOWER_LIST, "7:7")

    rig.clock.on_sleep.append(act)
    writer = ConfigWriter(rig.cluster, rig.clock, Retrier(rig.clock, rig.reporter, 10), "rates")
    assert writer.write(changes, noted_before) == WriteOutcome(unshown={taken: "9"})
    assert [made for _, made in rig.cluster.calls] == [tuple(changes) if is_made else tuple(others)]


def test_a_second_try_knows_what_a_throttle_replaces() -> None:
    """Neither the value before all of ours nor that before a pacer's is the one that is there."""
    rig = Rig()
    key = ConfigKey(ResourceKind.BROKER, "3", FOLLOWER_RATE)
    set_by_others(rig.cluster, "3", FOLLOWER_RATE, "3")
    rig.throttles.set_over({key: RateHold(earlier=None, ours=frozenset({"3"}))})
    for rates in (BOTH, BrokerRates(into=9, out=9)):
        rig.cluster.fail_next("alter_configs", TryLaterError("away"))
        rig.throttles.change(rates, rig.live(), [T0])
        assert rig.configs()["broker 3"] == {FOLLOWER_RATE: str(rates.into)}
    rig.throttles.lift_entries()
    rig.cluster.fail_next("alter_configs", TryLaterError("away"))
    finish(rig)
    assert rig.configs() == {}


def test_a_throttle_is_not_waited_for_where_its_broker_is_gone() -> None:
    rig = Rig()
    read = rig.cluster.dynamic_configs

    def hidden(kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        return {n: v for n, v in read(kind, names).items() if n != "3" or not rig.cluster.calls}

    rig.cluster.dynamic_configs = hidden  # type: ignore[method-assign]
    rig.throttles.impose([T0], BOTH, rig.live())
    assert rig.clock.elapsed == 0
    writer = ConfigWriter(rig.cluster, rig.clock, Retrier(rig.clock, rig.reporter, 10), "rates", waits_for_gone=True)
    change = rate_set(3, FOLLOWER_RATE, "5")
    assert writer.write({change: "5"}, noted_before) == WriteOutcome(gone=(change,))
    assert rig.clock.elapsed >= SHOW_TIMEOUT_S


def test_a_call_has_each_key_once_and_stands_in_the_journal_before_it_is_made() -> None:
    rig = Rig()
    changes = [rate_set(1, FOLLOWER_RATE, str(n)) for n in (4, 5)]
    changes += [rate_set(1, f"{LEADER_RATE}.{n}", "7") for n in range(250)]
    made: list[int] = []

    def intend(call: ConfigChanges) -> NoteErrors:
        made.append(len(rig.cluster.calls))
        assert len({key_of(c) for c in call}) == len(call)
        return lambda errors: made.append(len(call))

    outcome = ConfigWriter(rig.cluster, rig.clock, Retrier(rig.clock, rig.reporter, 10), "rates").write(
        dict.fromkeys(changes), intend
    )
    assert outcome.unshown == {changes[0]: "5"}
    assert made == [0, 1, 1, 200, 2, 51]


def test_a_topic_that_goes_meanwhile_is_no_trouble() -> None:
    rig = Rig()
    rig.throttles.impose([T0, U1], BOTH, rig.live())
    rig.cluster.topics.pop("t")
    assert rig.throttles.change(BrokerRates(into=9, out=9), rig.live()) == ()
    rig.throttles.impose([T0], BrokerRates(into=9, out=9), rig.live())
    finish(rig)
    assert rig.configs() == {}


def test_a_cluster_that_is_away_ends_with_try_later_and_the_journal_knows_all() -> None:
    rig = Rig()
    rig.cluster.fail_next("alter_configs", TryLaterError("away"), after_effect=True)
    rig.cluster.before_call.append(lambda *_: rig.cluster.fail_next("dynamic_configs", TryLaterError("away"), times=50))
    with pytest.raises(TryLaterError):
        rig.throttles.impose([T0], BOTH, rig.live())
    assert rig.configs() != {}
    rig.cluster._failures.clear()
    rig.start()
    finish(rig)
    assert rig.configs() == {}


def many(count: int, first: int = 100_000) -> tuple[MoveGoal, ...]:
    """Moves of partitions with six digits: 18 bytes of sources, 9 of destinations each."""
    return tuple(goal("t", first + n, (3, 2)) for n in range(count))


def test_long_lists_go_in_pieces_and_requests_stay_small() -> None:
    rig = Rig()
    wide = tuple(goal(f"w{n}", 0, (3, 2)) for n in range(600))
    for g in wide:
        rig.cluster.add_topic(g.key.topic, {0: (1, 2)})
    rig.throttles.impose([*many(1700), *wide], BOTH, rig.live())
    for name, changes in rig.cluster.calls:
        assert name == "alter_configs"
        assert len(changes) <= MAX_CHANGES
        assert all(len(c.value or "") <= LIST_LIMIT for c in changes)
    finish(rig)
    assert rig.configs() == {}


def test_a_window_is_cut_to_the_room_in_the_lists() -> None:
    rig = Rig()
    goals = many(5000)
    capacity = rig.throttles.list_capacity(goals, BOTH)
    assert capacity.blocked == {}
    assert capacity.fits == goals[: len(capacity.fits)]
    assert 1700 <= len(capacity.fits) < 1800
    rig.throttles.impose(capacity.fits, BOTH, rig.live())
    assert all(len(v) <= MAX_CONFIG_BYTES for v in rig.cluster.topics["t"].configs.values())
    rest = goals[len(capacity.fits) :]
    assert rig.throttles.list_capacity(rest, BOTH).fits == ()
    assert rig.throttles.list_capacity([*rest[:5], U1], BOTH).fits == (U1,)
    # A side without a rate needs no space, entries that are there need none again.
    assert rig.throttles.list_capacity(rest[:9], BrokerRates(into=5)).fits == rest[:9]
    assert rig.throttles.list_capacity(capacity.fits[:9], BOTH).fits == capacity.fits[:9]
    assert rig.throttles.list_capacity(rest, BrokerRates()).fits == rest
    rig.throttles.lift_entries(capacity.fits[:1000])
    assert len(rig.throttles.list_capacity(rest, BOTH).fits) in (1000, 1001)
    finish(rig)


def test_a_list_that_others_filled_blocks_by_name() -> None:
    full = ",".join(f"{n}:7" for n in range(100_000, 104_000))[:LIST_LIMIT].rpartition(",")[0]
    key = ConfigKey(ResourceKind.TOPIC, "t", LEADER_LIST)
    capacity = list_capacity_for([T0, U1], BOTH, {"t": {LEADER_LIST: full}}, {})
    assert capacity.fits == (U1,)
    assert capacity.blocked == {T0.key: f"{LEADER_LIST} of topic t is full with entries of another process"}
    assert list_capacity_for([T0], BOTH, {"t": {LEADER_LIST: full}}, {key: ["9:9"]}).blocked == {}
    assert list_capacity_for([T0], BOTH, {"t": {LEADER_LIST: "*"}}, {}).fits == (T0,)


def test_moves_in_flight_that_do_not_fit_go_on_and_are_told_of() -> None:
    rig = Rig()
    rig.throttles.impose(many(3000), BrokerRates(), rig.live())
    (words,) = rig.throttles.change(BOTH, rig.live())
    assert words.startswith("without a throttle, as the lists of their topics are full: t-10")
    assert all(len(v) <= MAX_CONFIG_BYTES for v in rig.cluster.topics["t"].configs.values())
    finish(rig)
    assert rig.configs() == {}


def test_a_list_grown_by_others_meanwhile_is_an_error_that_names_the_topic() -> None:
    rig = Rig()
    # As Kafka 4 answers, and as the adapter answers for Kafka 3.9, which would take it and then not read it any more.
    rig.cluster.topics["t"].configs[FOLLOWER_LIST] = ",".join(f"{n}:7" for n in range(100_000, 104_095))[:32_766]
    with pytest.raises(OperationFailedError, match="topic t does not take the throttle: InvalidConfigurationError"):
        rig.throttles.impose([T0], BOTH, rig.live())
    finish(rig)
    assert set(rig.configs()) == {"topic t"}


def test_a_wildcard_is_left_alone() -> None:
    rig = Rig()
    set_by_others(rig.cluster, "t", LEADER_LIST, "*")
    rig.throttles.impose([T0], BOTH, rig.live())
    rig.throttles.change(BrokerRates(into=9), rig.live())
    rig.throttles.impose_rates([T0], BrokerRates(into=9), rig.live())
    finish(rig)
    assert rig.configs() == {"topic t": {LEADER_LIST: "*"}}


def test_cut_at_any_line_of_a_change_the_next_life_restores_everything() -> None:
    def life(rig: Rig) -> None:
        rig.throttles.impose([T0, U1], BOTH, rig.live())
        rig.throttles.change(BrokerRates(into=9, out_of={2: 3}), rig.live())
        rig.throttles.change(BrokerRates(), rig.live())

    whole = Rig()
    first = whole.file.writes
    life(whole)
    assert whole.file.writes > first + 10
    for line in range(first, whole.file.writes):
        rig = Rig()
        rig.cluster.brokers[1].configs[LEADER_RATE] = "777"
        rig.cluster.topics["t"].configs[FOLLOWER_LIST] = "0:3,9:9"
        before = rig.configs()
        rig.file.die_at, rig.file.torn = line, bool(line % 2)
        with pytest.raises(Killed):
            life(rig)
        rig.start()
        finish(rig)
        assert rig.configs() == before


def test_entries_are_those_of_limited_sides() -> None:
    found = wanted_entries([T0, goal("t", 5, (2, 1))], BrokerRates(out_of={2: 5}))
    assert found == {ConfigKey(ResourceKind.TOPIC, "t", LEADER_LIST): ("0:2",)}


def test_a_partition_that_moves_on_in_a_second_step_gets_its_entries_again() -> None:
    rig = Rig()
    rig.throttles.impose([T0], BOTH, rig.live())
    rig.throttles.lift_entries([T0])
    rig.throttles.impose_rates([goal("t", 0, (4, 3), holders=(3, 2))], BOTH, rig.live())
    assert rig.configs()["topic t"] == {LEADER_LIST: "0:3,0:2", FOLLOWER_LIST: "0:4"}
    finish(rig)
    assert rig.configs() == {}


def test_a_broker_that_hangs_is_no_broker_without_a_rate() -> None:
    rig = Rig()
    rig.cluster.brokers[3].configs[FOLLOWER_RATE] = "777"
    rig.cluster.hang(3)
    rig.throttles.impose_rates([T0], BOTH, rig.live())
    assert rig.throttles.change(BrokerRates(into=9, out=9), rig.live()) == (
        "broker 3 does not answer and keeps the rate that it has",
    )
    with pytest.raises(OperationFailedError, match="broker 3 does not answer, its throttle cannot be set"):
        rig.throttles.impose([T0], BOTH, rig.live())
    rig.cluster.revive(3)
    rig.throttles.impose([T0], BOTH, rig.live())
    assert rig.configs()["broker 3"] == {FOLLOWER_RATE: "5"}
    finish(rig)
    assert rig.configs() == {"broker 3": {FOLLOWER_RATE: "777"}}


def test_entries_without_room_are_reported_once() -> None:
    rig = Rig()
    set_by_others(rig.cluster, "t", LEADER_LIST, ",".join(f"{n}:7" for n in range(100_000, 104_000))[:LIST_LIMIT])
    words = rig.throttles.change(BOTH, rig.live(), goals=[T0])
    assert [w for w in words if w.startswith("without a throttle")] == [words[0]]
    rig.throttles.impose_rates([T0], BOTH, rig.live())
    assert rig.reporter.warned == []
    rig.throttles.impose_rates([T0, goal("t", 1, (3, 2))], BOTH, rig.live())
    assert len(rig.reporter.warned) == 1


KEY = ConfigKey(ResourceKind.TOPIC, "t", FOLLOWER_LIST)
# Each entry takes its length and one byte for the comma.
ENTRY = "1000:1001"
FULL = LIST_LIMIT // (len(ENTRY) + 1)


def entries(count: int, *, length: int = len(ENTRY)) -> list[str]:
    found = [f"{n:0{length - 2}}:1" for n in range(count)]
    assert {len(entry) for entry in found} <= {length}
    return found


@pytest.mark.parametrize("length", [3, 5, 8, 9, 10, 13, 24])
def test_a_piece_holds_as_many_entries_as_fit_and_not_one_more(length: int) -> None:
    fit = LIST_LIMIT // (length + 1)
    many = entries(min(10 ** (length - 2), 2 * fit + 1), length=length)
    found = pieces(many)
    assert ",".join(found).split(",") == many
    assert all(len(piece) + 1 <= LIST_LIMIT for piece in found)
    counts = [piece.count(",") + 1 for piece in found]
    assert counts == [fit] * (len(many) // fit) + ([len(many) % fit] if len(many) % fit else [])


def test_the_comma_counts_to_the_last_byte() -> None:
    rest = LIST_LIMIT - (FULL - 1) * (len(ENTRY) + 1) - 1  # what the last entry may take
    most, first = "9" * rest, entries(FULL - 1)
    assert [len(piece) + 1 for piece in pieces([*first, most])] == [LIST_LIMIT]
    assert [piece.count(",") + 1 for piece in pieces([*first, most + "9"])] == [FULL - 1, 1]
    alone = "9" * LIST_LIMIT  # the second piece is counted from nothing, like the first
    assert [piece.count(",") + 1 for piece in pieces([alone, *first, most])] == [1, FULL]
    assert [piece.count(",") + 1 for piece in pieces([alone, *first, most + "9"])] == [1, FULL - 1, 1]


def test_an_entry_longer_than_a_value_stands_alone_and_nothing_makes_nothing() -> None:
    long = "9" * (LIST_LIMIT + 5)
    assert pieces(["0:1", long, "0:2"]) == ["0:1", long, "0:2"]
    assert pieces([]) == []


def test_missing_entries_alone_are_appended_in_pieces() -> None:
    many = entries(FULL + 2)
    changes = entry_changes({KEY: many}, {"t": {FOLLOWER_LIST: f"{many[0]},other:9"}})
    assert [(c.op, (c.value or "").count(",") + 1) for c in changes] == [(ConfigOp.APPEND, FULL), (ConfigOp.APPEND, 1)]
    assert ",".join(c.value or "" for c in changes) == ",".join(many[1:])
    assert entry_changes({KEY: many}, {"t": {FOLLOWER_LIST: "*"}}) == []


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_a_goal_fits_up_to_the_last_byte_of_a_list(spare: int, fits: bool) -> None:
    """Two entries of 3 characters for the leaders, one for the follower; the leaders' list decides."""
    there = "9" * (LIST_LIMIT - 2 * len("0:1,") - 1 - spare)
    moved = goal("t", 0, (3, 2))
    capacity = list_capacity_for([moved], BrokerRates(into=5, out=5), {"t": {LEADER_LIST: there}}, {})
    assert capacity.fits == ((moved,) if fits else ())
    assert list(capacity.blocked) == ([] if fits else [moved.key])


def test_goals_fill_a_list_one_after_another_and_the_rest_waits() -> None:
    rates = BrokerRates(into=5)
    goals = [goal("t", n, (3, 2)) for n in range(3)]
    there = "9" * (LIST_LIMIT - 2 * len("0:3,") - 1)
    capacity = list_capacity_for(goals, rates, {"t": {FOLLOWER_LIST: there}}, {})
    assert (capacity.fits, dict(capacity.blocked)) == (tuple(goals[:2]), {}), (
        "the third waits until the others' entries go"
    )


def test_a_goal_waits_where_our_own_entries_fill_the_list_and_is_blocked_where_others_do() -> None:
    full, moved = {"t": {FOLLOWER_LIST: "9" * LIST_LIMIT}}, goal("t", 0, (3, 2))
    assert not list_capacity_for([moved], BrokerRates(into=5), full, {KEY: ["1:3"]}).blocked
    assert list_capacity_for([moved], BrokerRates(into=5), full, {KEY: []}).blocked


def test_entries_are_taken_out_where_one_is_seen_or_the_list_stands_empty() -> None:
    held = {KEY: ("0:1", "0:2")}
    for value in ("0:2,7:7", "0:1", ""):
        (change,) = removal_changes(held, {"t": {FOLLOWER_LIST: value}})
        assert (change.op, change.value, change.name, change.key) == (ConfigOp.SUBTRACT, "0:1,0:2", "t", FOLLOWER_LIST)
    for value in ("7:7", "0:3"):
        assert removal_changes(held, {"t": {FOLLOWER_LIST: value}}) == []
    assert removal_changes(held, {"t": {}}) == removal_changes(held, {}) == []


def test_a_list_is_deleted_only_where_it_stands_empty() -> None:
    keys = [KEY, KEY._replace(key=LEADER_LIST), KEY._replace(name="u")]
    changes = empty_list_changes(keys, {"t": {FOLLOWER_LIST: "", LEADER_LIST: "0:1"}})
    assert [(c.op, c.name, c.key, c.value) for c in changes] == [(ConfigOp.DELETE, "t", FOLLOWER_LIST, None)]
