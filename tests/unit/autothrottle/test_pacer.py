"""The pacer on a fake cluster: moves of another tool are throttled, and nothing of it stays."""

import pytest

from kafkakit.autothrottle.act.pacer import ControlOverrides, ZnodeOverrides, open_journal, read_saved
from kafkakit.autothrottle.decide.law import Memory, RateDecision
from kafkakit.autothrottle.decide.measurements import TrafficObservation, for_run
from kafkakit.autothrottle.decide.pacer import Override, rates_data
from kafkakit.autothrottle.report import tick_line
from kafkakit.core.cluster_facts import ConfigChange
from kafkakit.core.errors import InputError, LeaseLostError
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.act.leases import lease_path
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from tests.rigs.pacer import CLUSTER, KB, MB, RATE, PacerRig
from tests.rigs.reassign import Killed

SET = {
    "broker 1": {LEADER_RATE: str(RATE)},
    "broker 2": {LEADER_RATE: str(RATE)},
    "broker 3": {FOLLOWER_RATE: str(RATE)},
    "topic t": {LEADER_LIST: "0:2,0:1", FOLLOWER_LIST: "0:3"},
}


@pytest.fixture
def rig() -> PacerRig:
    return PacerRig()


def test_a_move_of_another_tool_is_throttled_exactly_and_all_goes_with_it(rig: PacerRig) -> None:
    rig.begin()
    pacer, _ = rig.pacer()
    tick = pacer.tick()
    assert rig.configs() == SET
    assert (tick.moves, tick.is_quiet) == (1, False)
    again = pacer.tick()
    assert (again.writes, again.is_quiet) == (0, True)
    rig.clock.advance(1000)
    rig.cluster.advance(1000)
    last = pacer.tick()
    assert (last.moves, last.owed, rig.configs()) == (0, (), rig.before)
    assert rig.store.children(f"clusters/{CLUSTER}/autothrottle/journal") == ()
    assert pacer.tick().is_quiet


def test_a_second_move_is_added_and_the_entries_of_one_that_ended_go(rig: PacerRig) -> None:
    rig.begin()
    pacer, _ = rig.pacer()
    pacer.tick()
    rig.begin("u", 1, (4, 1))
    rig.cluster.cancel([next(iter(rig.cluster.replication.partitions()))[0]])
    rig.clock.sleep(1)
    pacer.tick()
    found = rig.configs()
    assert "topic t" not in found
    assert found["topic u"] == {LEADER_LIST: "1:1,1:2", FOLLOWER_LIST: "1:4"}
    assert "broker 3" not in found


def test_what_others_set_is_left_alone_and_named(rig: PacerRig) -> None:
    rig.cluster.brokers[1].configs[LEADER_RATE] = "777"
    rig.begin()
    tick = rig.pacer()[0].tick()
    assert rig.configs()["broker 1"] == {LEADER_RATE: "777"}
    assert rig.configs()["topic t"][LEADER_LIST] == "0:2"
    assert rig.configs()["broker 3"] == {FOLLOWER_RATE: str(RATE)}
    assert any("broker 1" in n and "777" in n for n in tick.notes)


def test_only_rates_that_are_set_are_reported(rig: PacerRig) -> None:
    """The defect: rates of a law were told as set, for brokers that keep another tool's, and for no copy."""
    rig.cluster.brokers[1].configs[LEADER_RATE] = "777"
    rig.begin()
    pacer, _ = rig.pacer()
    shown, tick = pacer.preview(), pacer.tick()
    for found in (shown, tick, pacer.tick()):
        assert found.rates == BrokerRates(into_of={3: RATE}, out_of={2: RATE})
        assert {(r.broker, r.side.value) for r in found.decision.reasons} == {(3, "in")}, "not of 1, which sends"
        assert any(f"broker 1: another process has set {LEADER_RATE}=777" in n for n in found.notes)
    saved = read_saved(rig.store, CLUSTER)
    assert saved is not None
    assert saved.rates == rates_data(tick.rates)
    rig.cluster.brokers[2].configs[LEADER_RATE] = "778"  # somebody changes ours
    assert pacer.tick().rates == BrokerRates(into_of={3: RATE})


def test_where_others_throttle_all_nothing_is_reported_as_set(rig: PacerRig) -> None:
    for broker in rig.cluster.brokers.values():
        broker.configs |= {LEADER_RATE: "777", FOLLOWER_RATE: "777"}
    rig.begin()
    tick = rig.pacer()[0].tick()
    assert (tick.writes, tick.rates, tick.decision.reasons) == (0, BrokerRates(), ())
    assert "no rates set" in tick_line(tick)
    assert "--take-over" in tick_line(tick)


def test_rates_of_others_are_taken_over_and_come_back(rig: PacerRig) -> None:
    theirs = {LEADER_RATE: "777", FOLLOWER_RATE: "777"}
    for broker in rig.cluster.brokers.values():
        broker.configs |= theirs
    rig.cluster.topics["t"].configs |= {LEADER_LIST: "0:1,0:2", FOLLOWER_LIST: "0:3"}
    before = rig.configs()
    rig.begin()
    pacer, lead = rig.pacer(take_over=True)
    tick = pacer.tick()
    assert tick.rates == BrokerRates(into_of={3: RATE}, out_of={1: RATE, 2: RATE})
    assert rig.configs()["broker 3"] == theirs | {FOLLOWER_RATE: str(RATE)}
    assert rig.configs()["broker 4"] == theirs, "it takes no part"
    assert rig.configs()["topic t"] == before["topic t"], "entries that are there are not the pacer's"
    assert any(f"broker 3: {FOLLOWER_RATE}=777 of another process is taken over" in n for n in tick.notes)
    assert pacer.tick().is_quiet
    lead.release()
    rig.clock.advance(1000)
    rig.cluster.advance(1000)
    assert rig.pacer(2)[0].tick().owed == ()
    assert rig.configs() == before


def test_what_was_said_at_the_tick_before_is_no_news(rig: PacerRig) -> None:
    rig.cluster.brokers[1].configs[LEADER_RATE] = "777"
    rig.begin()
    pacer, _ = rig.pacer()
    first, second = pacer.tick(), pacer.tick()
    assert first.news == first.notes == second.notes
    assert (second.news, second.is_quiet) == ((), True)
    rig.cluster.brokers[1].configs[LEADER_RATE] = "778"
    assert not pacer.tick().is_quiet


def test_a_law_that_holds_leaves_the_rates_and_covers_new_moves(rig: PacerRig) -> None:
    decisions = [BrokerRates(into_of={3: RATE, 4: RATE}, out_of={1: RATE, 2: RATE}), None]

    def law(observed: TrafficObservation, memory: Memory) -> RateDecision:
        assert {f.destination for f in observed.flows} <= {3, 4}
        return RateDecision(rates=decisions.pop(0), memory=memory)

    rig.begin()
    pacer, _ = rig.pacer(law=law)
    pacer.tick()
    rig.begin("u", 1, (4, 1))
    pacer.tick()
    assert rig.configs()["broker 4"] == {FOLLOWER_RATE: str(RATE)}
    assert rig.configs()["topic u"][FOLLOWER_LIST] == "1:4"


def test_a_broker_that_dies_keeps_its_rate_and_is_named(rig: PacerRig) -> None:
    rig.begin()
    pacer, _ = rig.pacer()
    pacer.tick()
    rig.cluster.kill(3)
    rig.clock.sleep(30)
    assert any("broker 3 is not alive" in w for w in pacer.tick().owed)
    rig.cluster.cancel([k for k, _ in rig.cluster.replication.partitions()])
    tick = pacer.tick()
    assert rig.configs() == {"broker 3": {FOLLOWER_RATE: str(RATE)}}
    assert any("broker 3" in w for w in tick.owed)
    rig.cluster.revive(3)
    assert pacer.tick().owed == ()
    assert rig.configs() == rig.before


@pytest.mark.parametrize("take_over", [False, True])
@pytest.mark.parametrize("effect", range(12))
def test_a_kill_at_any_effect_is_taken_over_by_the_next_instance(rig: PacerRig, effect: int, take_over: bool) -> None:
    if take_over:
        for broker in rig.cluster.brokers.values():
            broker.configs |= {LEADER_RATE: "777", FOLLOWER_RATE: "777"}
    before = rig.configs()
    rig.begin()
    first, lead = rig.pacer(1, take_over=take_over)
    left = [effect]

    def die(name: str, argument: object) -> None:
        del argument
        if name == "alter_configs":
            if not left[0]:
                raise Killed
            left[0] -= 1

    rig.cluster.before_call.append(die)
    try:
        first.tick()
        rig.cluster.advance(1000)
        first.tick()
    except Killed:
        rig.cluster.before_call.clear()
        rig.clock.advance(60)
        assert not lead.is_held()
        rig.cluster.advance(1000)
        second, _ = rig.pacer(2)
        second.tick()
    assert rig.configs() == before


@pytest.mark.parametrize("write", range(14))
def test_a_kill_at_any_write_of_the_store_is_taken_over(
    rig: PacerRig, write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.begin()
    first, _ = rig.pacer(1)
    replaced, left = rig.store._replace, [write]

    def replace(path: str, value: bytes, expected: int | None) -> int:
        if "journal" in path:
            if not left[0]:
                raise Killed
            left[0] -= 1
        return replaced(path, value, expected)

    monkeypatch.setattr(rig.store, "_replace", replace)
    try:
        first.tick()
        rig.cluster.advance(1000)
        first.tick()
    except Killed:
        monkeypatch.undo()
        rig.clock.advance(60)
        rig.cluster.advance(1000)
        rig.pacer(2)[0].tick()
    assert rig.configs() == rig.before


def test_after_the_lead_is_lost_nothing_is_written(rig: PacerRig) -> None:
    rig.begin()
    pacer, lead = rig.pacer(1)
    pacer.tick()
    rig.clock.advance(60)
    other, _ = rig.pacer(2)
    before = (rig.configs(), len(rig.cluster.calls))
    with pytest.raises(LeaseLostError):
        pacer.tick()
    assert (rig.configs(), len(rig.cluster.calls)) == before
    assert not lead.is_held()
    other.tick()


def test_the_lead_lost_between_two_effects_stops_the_second(rig: PacerRig) -> None:
    rig.begin()
    pacer, _ = rig.pacer(1)
    seen: list[object] = []

    def steal(name: str, argument: object) -> None:
        if name == "alter_configs":
            seen.append(argument)
            if len(seen) == 1:
                rig.clock.advance(60)
                rig.pacer(2)

    rig.cluster.before_call.append(steal)
    with pytest.raises(LeaseLostError):
        pacer.tick()
    assert len(seen) == 1


def test_a_run_that_changes_the_cluster_gets_the_rates_as_a_request(rig: PacerRig) -> None:
    rig.begin()
    lease = rig.lease(lease_path(CLUSTER), 9, "reassign apply")
    token = lease.acquire()
    requests = ControlRequests(rig.store, rig.clock, CLUSTER)
    taken: list[BrokerRates | None] = []

    def executor(_: float) -> None:
        lease.require_held()
        if (found := requests.read(token)) is not None:
            taken.append(found.request.rates)
            requests.answer(token, found.version)

    rig.clock.on_sleep.append(executor)
    tick = rig.pacer()[0].tick()
    each = dict.fromkeys((1, 2, 3), RATE)
    assert taken[-1] == BrokerRates(into=RATE, out=RATE, into_of=each, out_of=each)
    assert "reassign apply" in tick.requested_from
    assert rig.configs() == rig.before
    assert rig.pacer(1)[0].tick().writes == 0


def test_the_rate_between_log_dirs_of_a_run_stays_as_it_was_asked_for() -> None:
    asked = for_run(BrokerRates(into_of={3: 5, 4: 2}, out_of={1: 7}), 9)
    assert asked == BrokerRates(into=2, out=7, inside=9, into_of={3: 5, 4: 2}, out_of={1: 7})


def test_an_override_goes_before_the_law_and_one_for_all_ends_with_the_moves(rig: PacerRig) -> None:
    overrides = ControlOverrides(rig.store, CLUSTER)
    overrides.put(None, Override(into=2 * MB, out=3 * MB, autoremove=True))
    overrides.put(3, Override(into=KB))
    rig.begin()
    pacer, _ = rig.pacer()
    pacer.tick()
    assert rig.configs()["broker 1"] == {LEADER_RATE: str(3 * MB)}
    assert rig.configs()["broker 3"] == {FOLLOWER_RATE: str(KB)}
    overrides.put(3, None)
    rig.cluster.advance(100_000)
    pacer.tick()
    assert (rig.configs(), overrides.read().every) == (rig.before, None)


def test_overrides_of_single_brokers_end_with_the_moves_where_that_was_asked_for(rig: PacerRig) -> None:
    overrides = ControlOverrides(rig.store, CLUSTER)
    overrides.put(3, Override(into=KB, autoremove=True))
    overrides.put(1, Override(out=KB))
    pacer, _ = rig.pacer()
    pacer.tick()
    assert overrides.read().of.keys() == {1, 3}  # there were no moves that could end
    rig.begin()
    pacer.tick()
    rig.cluster.advance(100_000)
    assert "the override for broker 3 is removed, as the moves have ended" in pacer.tick().notes
    assert overrides.read().of.keys() == {1}
    overrides.put(1, None)
    pacer.tick()
    assert rig.configs() == rig.before


@pytest.mark.parametrize("kind", ["document", "znode"])
def test_overrides_that_cannot_be_read_change_nothing_and_keep_no_throttle(rig: PacerRig, kind: str) -> None:
    path = f"clusters/{CLUSTER}/autothrottle/overrides" if kind == "document" else "autothrottle/override_rate/3"
    pacer, _ = rig.pacer(overrides=None if kind == "document" else ZnodeOverrides(rig.store, "autothrottle"))
    rig.begin()
    pacer.tick()
    during = rig.configs()
    rig.store.cas(path, b"{broken", None)
    with pytest.raises(InputError, match="not valid JSON"):
        pacer.tick()
    assert rig.configs() == during
    rig.cluster.advance(100_000)
    assert "count as none" in pacer.tick().notes[0]
    assert rig.configs() == rig.before


def test_a_store_that_is_away_for_a_minute_leaves_throttles_and_the_service_goes_on(rig: PacerRig) -> None:
    rig.begin()
    service, said = rig.service(1)
    service.step()
    during = rig.configs()
    rig.store.away = True
    for _ in range(60):
        service.step()
        rig.clock.sleep(1)
    assert rig.configs() == during
    assert not service.is_leader
    rig.store.away = False
    rig.cluster.advance(100_000)
    for _ in range(20):
        service.step()
        rig.clock.sleep(1)
    assert (service.is_leader, rig.configs()) == (True, rig.before)
    assert any("the control store is away" in line for line in said)


def test_moves_that_come_and_go_between_two_ticks_leave_nothing(rig: PacerRig) -> None:
    pacer, _ = rig.pacer()
    pacer.tick()
    rig.begin()
    rig.cluster.advance(100_000)
    assert (pacer.tick().moves, rig.configs()) == (0, rig.before)


def test_an_override_on_a_broker_without_moves_throttles_its_catching_up(rig: PacerRig) -> None:
    ControlOverrides(rig.store, CLUSTER).put(2, Override(into=MB, out=MB))
    pacer, _ = rig.pacer()
    pacer.tick()
    assert rig.configs() == {
        "broker 2": {FOLLOWER_RATE: str(MB)},
        "topic t": {FOLLOWER_LIST: "0:2,1:2"},
        "topic u": {FOLLOWER_LIST: "0:2,1:2"},
    }
    ControlOverrides(rig.store, CLUSTER).put(2, None)
    pacer.tick()
    assert rig.configs() == rig.before


def test_a_journal_that_grew_is_kept_short(rig: PacerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.autothrottle.act.pacer.COMPACT_BYTES", 500)
    rates = iter(range(RATE, RATE + 40))

    def law(observed: TrafficObservation, memory: Memory) -> RateDecision:
        rate = next(rates)
        return RateDecision(rates=BrokerRates(into_of={3: rate}, out_of={1: rate}), memory=memory)

    rig.begin()
    pacer, _ = rig.pacer(law=law)
    for _ in range(20):
        pacer.tick()
    state = open_journal(rig.store, rig.clock, CLUSTER).state
    assert len(rig.store.children(f"clusters/{CLUSTER}/autothrottle/journal")) == 1
    assert state.throttled
    rig.cluster.advance(1000)
    pacer.tick()
    assert rig.configs() == rig.before


def test_the_second_instance_waits_and_takes_over_within_15_s(rig: PacerRig) -> None:
    rig.begin()
    one, said = rig.service(1)
    two, waited = rig.service(2)
    for _ in range(5):
        one.step()
        two.step()
        rig.clock.sleep(1)
    assert said[0] == "became leader"
    assert waited == ["waiting: another instance is the leader"]
    began = rig.clock.monotonic()
    while not two.is_leader:
        two.step()
        rig.clock.sleep(1)
    assert rig.clock.monotonic() - began < 15
    one.step()
    assert not one.is_leader


def test_changed_overrides_are_taken_up_before_the_interval_ends(rig: PacerRig) -> None:
    rig.begin()
    service, said = rig.service(1)
    service.step()
    ControlOverrides(rig.store, CLUSTER).put(None, Override(into=KB, out=KB))
    for _ in range(8):
        rig.clock.sleep(1)
        service.step()
    assert rig.configs()["broker 3"] == {FOLLOWER_RATE: str(KB)}
    assert len(said) == 3


def test_removal_on_request_leaves_nothing_while_moves_run(rig: PacerRig) -> None:
    rig.begin()
    pacer, _ = rig.pacer()
    pacer.tick()
    assert pacer.remove_all() == ()
    assert rig.configs() == rig.before


def test_every_change_stands_in_the_journal_before_it_is_made(rig: PacerRig) -> None:
    rig.begin()
    pacer, _ = rig.pacer()

    def check(name: str, argument: object) -> None:
        if name == "alter_configs":
            state = open_journal(rig.store, rig.clock, CLUSTER).state
            assert isinstance(argument, list | tuple)
            for change in argument:
                assert isinstance(change, ConfigChange)
                assert any(k.name == change.name and k.key == change.key for k in (*state.rates, *state.entries))

    rig.cluster.before_call.append(check)
    pacer.tick()
    assert rig.configs() == SET
