"""Whatever a run and other people do in whatever order, and wherever it is cut: others' throttles stay, ours go."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.errors import OperationFailedError
from kafkakit.execution.decide.schedule.work import Rates, rates_from_data, rates_to_data
from kafkakit.execution.decide.throttle import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    INSIDE_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LIST_KEYS,
    RATE_KEYS,
    list_capacity_for,
    split_list,
)
from tests.fakes.admin import MAX_CONFIG_BYTES
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.reassign import Killed
from tests.rigs.throttles import Rig, goal, make_cluster, set_by_others

QUICK = settings(
    derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow], database=None
)
BROKERS = (1, 2, 3, 4, 5)
# Values of ours have one digit, those of others three: nobody can tell equal ones apart.
TOPICS = st.sampled_from(["t", "u"])
OURS = st.none() | st.integers(1, 9)
OF_BROKERS = st.dictionaries(st.sampled_from(BROKERS), st.integers(1, 9), max_size=2)
RATES = st.builds(Rates, into=OURS, out=OURS, inside=OURS, into_of=OF_BROKERS, out_of=OF_BROKERS)
GOALS = st.lists(
    st.builds(
        goal,
        TOPICS,
        st.integers(0, 3),
        st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True),
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
        st.tuples(st.just("inside"), st.sets(st.sampled_from(BROKERS), max_size=2), RATES),
        st.tuples(st.just("change"), GOALS, RATES),
        st.tuples(st.just("lift entries"), st.none() | GOALS, st.none()),
        st.tuples(st.just("lift"), st.none(), st.none()),
        st.tuples(st.just("kill"), st.sampled_from(BROKERS), st.none()),
        st.tuples(st.just("revive"), st.sampled_from(BROKERS), st.none()),
        st.tuples(st.just("their rate"), st.tuples(st.sampled_from(BROKERS), st.sampled_from(RATE_KEYS)), THEIR_RATES),
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
    for broker in BROKERS:
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
def test_what_is_set_is_what_the_rates_say_for_the_brokers_involved_and_no_more(goals: list[Any], rates: Rates) -> None:
    rig = Rig(make_cluster())
    rig.throttles.impose(goals, rates, rig.live())
    for broker in BROKERS:
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
def test_goals_that_fit_keep_every_list_below_the_limit(numbers: list[int], taken: int, rates: Rates) -> None:
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
def test_rates_survive_the_journal(rates: Rates) -> None:
    assert rates_from_data(rates_to_data(rates)) == rates
