"""Reading what is set on a cluster, and by which process."""

from kafkakit.autothrottle.act.journal import open_journal
from kafkakit.autothrottle.act.overrides import OverrideStore
from kafkakit.autothrottle.act.pacer import read_saved
from kafkakit.autothrottle.act.run import lead_path
from kafkakit.autothrottle.decide.status import PacerStatus
from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.execution.act.lease_reader import lease_path, read_lease
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.execution.decide.throttle import LIST_KEYS, RATE_KEYS
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore


def read_status(
    admin: ClusterAdmin, store: ControlStore, clock: Clock, cluster_id: str, overrides: OverrideStore
) -> PacerStatus:
    """One look at the cluster and at the control store; reads the metadata of the whole cluster."""
    snapshot = admin.snapshot(now=clock.now(), sizes=False)
    alive = [str(b.id) for b in snapshot.brokers if b.is_alive]
    brokers = admin.dynamic_configs(ResourceKind.BROKER, alive) if alive else {}
    found = {
        ConfigKey(ResourceKind.BROKER, name, key): values[key]
        for name, values in brokers.items()
        for key in RATE_KEYS
        if key in values
    } | {
        ConfigKey(ResourceKind.TOPIC, topic.name, key): topic.configs[key]
        for topic in snapshot.topics
        for key in LIST_KEYS
        if key in topic.configs
    }
    state = open_journal(store, clock, cluster_id).state
    own = {k: v for k, v in found.items() if k in state.entries or (k in state.rates and v in state.rates[k].ours)}
    leader, run = (read_lease(store, path) for path in (lead_path(cluster_id), lease_path(cluster_id)))
    return PacerStatus(
        cluster_id=cluster_id,
        moves=sum(bool(r.adding) for r in snapshot.reassignments),
        own=dict(sorted(own.items())),
        others=dict(sorted((k, v) for k, v in found.items() if k not in own)),
        overrides=overrides.read(),
        tick=read_saved(store, cluster_id),
        unreached=tuple(sorted(b.id for b in snapshot.brokers if not b.is_alive or str(b.id) not in brokers)),
        leader="" if leader is None or leader.holder is None else str(leader),
        run="" if run is None or run.holder is None else str(run),
    )
