"""Throttles on a fake cluster, without a run around them: as many lives as a test wants, one journal."""

from collections.abc import Collection, Mapping, Sequence

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.retrier import Retrier, RetryingReader
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.journal import JournalSubject
from kafkakit.execution.decide.plan_state import LiveState, MoveGoal
from tests.fakes.admin import FakeClock, FakeCluster
from tests.rigs.reassign import MemoryFile, Recorder


class Rig:
    """A cluster of 5 brokers with topics `t` and `u`, and the throttles of the process that lives now."""

    def __init__(self, cluster: FakeCluster | None = None) -> None:
        self.cluster = cluster or make_cluster()
        self.clock = FakeClock()
        self.file = MemoryFile()
        self.reporter = Recorder()
        self.start()

    def start(self) -> None:
        """A new process takes over; nothing but the journal is left of the one before."""
        self.file.die_at = None
        self.cluster.before_call.clear()
        self.journal = RunJournal(self.file, self.clock, cluster_id="fake-cluster", fingerprint="f")
        self.journal.check(JournalSubject.START, {"direction": "apply", "plan_path": "p.json", "rate": None})
        retrier = Retrier(self.clock, self.reporter, 10.0)
        self.reader = RetryingReader(self.cluster, self.clock, retrier)
        self.throttles = Throttles(self.cluster, self.clock, self.journal, self.reporter, retrier)

    def live(self) -> LiveState:
        return self.reader.live(self.cluster.topics)

    def configs(self) -> dict[str, dict[str, str]]:
        """Everything that is set, by broker or topic; what has nothing set is left out."""
        return {name: values for name, values in self.cluster.configs().items() if values}


def make_cluster() -> FakeCluster:
    cluster = FakeCluster(dict.fromkeys((1, 2, 3, 4, 5), "a"))
    for name in ("t", "u"):
        cluster.add_topic(name, dict.fromkeys(range(4), (1, 2)), size_bytes=1000)
    return cluster


def goal(topic: str, partition: int, target: Sequence[int], holders: Sequence[int] = (1, 2)) -> MoveGoal:
    return MoveGoal(key=TopicPartition(topic, partition), target=tuple(target), holders=tuple(holders))


def set_by_others(cluster: FakeCluster, name: str, key: str, value: str | None) -> None:
    """Another process changes a configuration of a broker (its number) or a topic."""
    configs = cluster.brokers[int(name)].configs if name.isdigit() else cluster.topics[name].configs
    if value is None:
        configs.pop(key, None)
    else:
        configs[key] = value


class LaggingCluster(FakeCluster):
    """Shows configurations as they were a few reads ago: reads lag behind writes on real clusters."""

    def __init__(self, racks: Mapping[int, str | None], lag: int) -> None:
        super().__init__(racks)
        self.lag = lag
        self._shown: dict[ResourceKind, list[Mapping[str, Mapping[str, str]]]] = {}

    def dynamic_configs(self, kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        everything = [str(b) for b in self.brokers] if kind is ResourceKind.BROKER else list(self.topics)
        past = self._shown.setdefault(kind, [])
        past.append(super().dynamic_configs(kind, everything))
        shown = past[max(0, len(past) - 1 - self.lag)]
        return {n: v for n, v in shown.items() if n in set(names)}


def rate_set(broker: int, key: str, value: str) -> ConfigChange:
    return ConfigChange(kind=ResourceKind.BROKER, name=str(broker), key=key, op=ConfigOp.SET, value=value)
