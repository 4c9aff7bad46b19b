"""Running sandboxes as tests use them: their home, an admin client whose changes have settled, kills and revivals."""

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.adapters.kafka.admin_read import cluster_info, configs_of, states_of
from kafkakit.adapters.kafka.session import UNKNOWN_TOPIC
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import ConfigChange, ItemError, PartitionState, ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import shows
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.services import Machine
from kafkakit.sandbox import lifecycle as run
from kafkakit.sandbox.decide.spec import SandboxState
from kafkakit.sandbox.folders import Store
from tests.rigs.waiting import stop_process

T = TypeVar("T")


class SilentReporter:
    """Shows no progress; pytest keeps what is said, the end of a dead broker's log too, for a test that fails."""

    def say(self, line: str) -> None:
        print(line, file=sys.stderr)

    def warn(self, line: str) -> None:
        del line

    @contextmanager
    def progress(self, label: str) -> Iterator["SilentReporter"]:
        del label
        yield self

    def update(self, done: float, total: float, note: str = "") -> None:
        del done, total, note


@dataclass(frozen=True, kw_only=True)
class Home:
    """Isolated XDG folders; only the cache of jars is shared with the machine."""

    folder: Path
    cache: Path

    @property
    def state_dir(self) -> Path:
        return self.folder / "state" / "kafkakit"

    @property
    def config_dir(self) -> Path:
        return self.folder / "config" / "kafkakit"

    @property
    def env(self) -> dict[str, str]:
        """The environment for `kafkakit` as a subprocess."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKAKIT_", "XDG_"))}
        return kept | {
            "XDG_CONFIG_HOME": str(self.config_dir.parent),
            "XDG_STATE_HOME": str(self.state_dir.parent),
            "XDG_CACHE_HOME": str(self.cache.parent),
            "KAFKAKIT_LOCK_DIR": str(self.folder / "locks"),
            "NO_COLOR": "1",
        }

    def store(self, name: str) -> Store:
        return Store(root=self.state_dir / "sandbox" / name, profiles=self.config_dir / "profiles.d")


class SettledAdmin(KafkaAdmin):
    """An admin client whose changes every broker knows, since any of them may answer the next request.

    A coordinator refuses commits for a topic that is new to it, and forgets those for one whose deletion it hears of
    late, though another topic has the name by then.
    """

    def create_topic(
        self, name: str, assignments: Mapping[int, tuple[int, ...]], configs: Mapping[str, str]
    ) -> ItemError | None:
        deadline = time.monotonic() + 60
        error = super().create_topic(name, assignments, configs)
        # A broker that pauses for more than 4 s is fenced, and back in a moment.
        while error is not None and "are fenced" in error.message and time.monotonic() < deadline:
            time.sleep(0.1)
            error = super().create_topic(name, assignments, configs)
        if error is None:
            self._settle(name, 0)
        return error

    def delete_topic(self, name: str) -> ItemError | None:
        error = super().delete_topic(name)
        if error is None:
            self._settle(name, UNKNOWN_TOPIC)
        return error

    def _settle(self, name: str, code: int) -> None:
        from kafka.protocol.metadata import MetadataRequest

        wanted = [MetadataRequest.MetadataRequestTopic(name=name)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        self._until_all(request, lambda answer: answer.topics[0].error_code == code)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemError | None]:
        from kafka.protocol.admin import DescribeConfigsRequest

        names = sorted({c.name for c in changes if c.kind is ResourceKind.TOPIC})
        before = self.dynamic_configs(ResourceKind.TOPIC, names)
        answers = super().alter_configs(changes)
        made = {(c.name, c.key): c for c in changes if c.name in before and answers[c] is None}

        def is_so(answer: Any) -> bool:
            now = configs_of(ResourceKind.TOPIC, answer.results)
            # A service may have written a value of its own where one was taken away.
            values = {place: now.get(c.name, {}).get(c.key) for place, c in made.items()}
            return all(shows(c, values[p]) or values[p] != before[c.name].get(c.key) for p, c in made.items())

        if made:
            self._until_all(DescribeConfigsRequest(resources=[(2, name, None) for name in names]), is_so)
        return answers

    def alive(self) -> set[int]:
        """The brokers that are alive to all that answer."""
        from kafka.protocol.admin import DescribeClusterRequest

        request = DescribeClusterRequest(include_fenced_brokers=True)
        return self._agreed(request, lambda answer: {b.id for b in cluster_info(answer, None).brokers if b.is_alive})

    def states(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """Partitions as all brokers that answer show them."""
        from kafka.protocol.metadata import MetadataRequest

        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return self._agreed(request, lambda answer: states_of(answer.topics))

    def _agreed(self, request: Any, view: Callable[[Any], T]) -> T:
        """What all brokers that answer show, which may take a moment after a change."""
        deadline = time.monotonic() + 60
        while True:
            views = [view(a) for a in self._ask_living(request).values() if not isinstance(a, Exception)]
            if views and all(one == views[0] for one in views):
                return views[0]
            assert time.monotonic() < deadline, f"brokers do not agree: {views}"
            time.sleep(0.05)

    def _until_all(self, request: Any, is_so: Callable[[Any], bool]) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if not any(isinstance(a, Exception) or not is_so(a) for a in self._ask_living(request).values()):
                break
            time.sleep(0.05)

    def _ask_living(self, request: Any) -> dict[int, Any]:
        ids = [broker.id for broker in self.cluster().brokers if broker.is_alive]
        return self._session.request_brokers(dict.fromkeys(ids, request))


@dataclass(kw_only=True)
class SandboxCluster:
    """A running sandbox, as tests use it."""

    machine: Machine
    store: Store
    home: Home
    state: SandboxState

    @property
    def name(self) -> str:
        return self.state.spec.name

    @property
    def bootstrap_servers(self) -> str:
        return self.state.layout.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        return self.state.cluster_id

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(node.id for node in self.state.layout.brokers)

    @property
    def security(self) -> Security:
        """The administrator's way in."""
        return run.admin_security(self.state, self.store)

    @property
    def env(self) -> dict[str, str]:
        """The environment for `kafkakit --profile NAME` as a subprocess."""
        return self.home.env

    def open_admin(self) -> ClusterAdmin:
        """A new admin client; the caller closes it."""
        return SettledAdmin(self.bootstrap_servers, self.security, request_timeout_s=15)

    def kill(self, broker: int) -> None:
        """SIGKILL a broker."""
        assert run.kill(self.machine, self.store, broker), f"broker {broker} was dead already"

    def restart(self, broker: int) -> None:
        """Start a broker again and wait until it is registered and unfenced."""
        self.state = run.restart(self.machine, self.store, broker, SilentReporter())

    @contextmanager
    def hung(self, *brokers: int) -> Iterator[None]:
        """Brokers, or all, stand still: connections stay up, and nothing answers."""
        records = [run.load_state(self.store).broker(broker) for broker in brokers or self.broker_ids]
        pids = [record.process.pid for record in records if record is not None and record.process is not None]
        assert len(pids) == len(brokers or self.broker_ids)
        try:
            for pid in pids:
                stop_process(pid)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def revive(self) -> None:
        """Start every broker that is dead, for a `finally` after a test that kills some."""
        for record in run.load_state(self.store).nodes[1:]:
            if record.process is None or not self.machine.processes.is_alive(record.process):
                self.restart(record.node.id)
        self.state = run.load_state(self.store)

    def down(self) -> None:
        """Take it down before the session ends."""
        run.stop_sandbox(self.machine, self.store)
