"""Looking for what runs of a plan left on a cluster, where their journal does not tell all of it."""

from functools import partial

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.plan import Plan
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.decide.journal_state import ConfigKey, RunState
from kafkakit.execution.decide.precheck import Live
from kafkakit.execution.decide.recovery import Recovered, plan_entries, recover, topics_held
from kafkakit.execution.decide.throttle import LIST_KEYS, RATE_KEYS
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock


def unaccounted(admin: ClusterAdmin, retrier: Retrier, plan: Plan, state: RunState) -> tuple[str, ...]:
    """Topics whose throttle lists limit replicas of the plan and are not the journal's; a request for 500 topics."""
    entries = _entries(admin, retrier, plan, state)
    names = sorted({e.partition(":")[2] for held in entries.values() for e in held})
    if not names:
        return ()
    brokers = retrier.call("reading throttles", lambda: admin.dynamic_configs(ResourceKind.BROKER, names))
    return topics_held(entries, brokers)


def read_baseline(
    admin: ClusterAdmin, retrier: Retrier, plan: Plan, live: Live, *, throttled: bool
) -> list[tuple[str, str, str, str]]:
    """The throttles that stand before a run: lists of the plan's topics, and rates where the run is `throttled`."""
    names = sorted({m.topic for m in plan.moves})
    ids = sorted({str(b) for m in plan.moves for b in {*m.before, *m.after} if live.is_alive(b)}) if throttled else []
    found: list[tuple[str, str, str, str]] = []
    for kind, wanted, keys in ((ResourceKind.TOPIC, names, LIST_KEYS), (ResourceKind.BROKER, ids, RATE_KEYS)):
        if wanted:
            configs = retrier.call("reading throttles", partial(admin.dynamic_configs, kind, wanted))
            found += [(kind.value, n, k, v[k]) for n, v in sorted(configs.items()) for k in keys if k in v]
    return found


def _entries(admin: ClusterAdmin, retrier: Retrier, plan: Plan, state: RunState) -> dict[ConfigKey, tuple[str, ...]]:
    names = sorted({m.topic for m in plan.moves})
    if not names:
        return {}
    topics = retrier.call("reading throttles", lambda: admin.dynamic_configs(ResourceKind.TOPIC, names))
    return plan_entries(plan, state, topics)


def find_lost(
    admin: ClusterAdmin, clock: Clock, retrier: Retrier, plan: Plan, live: Live, state: RunState, *, is_lost: bool
) -> Recovered:
    """What a run of the plan left that is not in its journal.

    `is_lost`: lines of the journal are missing for certain; else only throttle entries tell, and nothing more is read
    where there are none. Reads the whole cluster once otherwise.
    """
    if not is_lost and not _entries(admin, retrier, plan, state):
        return Recovered()
    snapshot = retrier.call("reading the cluster", lambda: admin.snapshot(now=clock.now(), sizes=False))
    alive = [str(b.id) for b in snapshot.brokers if b.is_alive]
    brokers = retrier.call("reading throttles", lambda: admin.dynamic_configs(ResourceKind.BROKER, alive))
    topics = {t.name: t.configs for t in snapshot.topics}
    return recover(plan, live, state, brokers, topics, named=is_lost)
