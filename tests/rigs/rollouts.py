"""A bench for rollouts: a cluster in memory, journals in a folder, and a machine that dies where a test says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path

from kafkakit.core.cluster_facts import ConfigChange, ItemError, MetricSample, ResourceKind
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TagSet
from kafkakit.execution.act.journal_files import DiskFile
from kafkakit.execution.act.leases import ClusterAccess
from kafkakit.lint.api import LintChoice, LintRequest, Pieces, RuleSet, lint_request
from kafkakit.lint.decide.lint_config import read_lint_config
from kafkakit.rollout.act.rollouts import NamedState, PlanTask, RolloutPorts, Rollouts, plan_change
from kafkakit.rollout.act.writing import GroupLag, read_configs
from kafkakit.rollout.decide.plan import ConfigPlan
from kafkakit.rollout.decide.rollout import HealthQueries, Signal, WatchSettings
from kafkakit.rollout.decide.settings import ClusterConfigs, NamedPlaces, StepChoice, StepSize
from kafkakit.rules.catalogue import all_rules
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.reassign import Killed, Recorder

WATCH = WatchSettings(window_s=30, every_s=5, baseline_s=60, settle_s=60)
TOPICS = ("a", "b", "c")


def rules(rule_set: RuleSet = RuleSet.CORE) -> LintRequest:
    config = read_lint_config(None, all_rules(), lambda _: ())
    return lint_request(LintChoice(rule_set=rule_set), config, date(2026, 1, 1))


class FakeMetrics:
    """`ports.SampleQueries` whose series have the values that a test sets; away from a moment on."""

    source = "fake metrics"

    def __init__(self, values: Mapping[Signal, float], texts: Mapping[Signal, str]) -> None:
        self.values, self.away_from = dict(values), datetime(3000, 1, 1)  # noqa: DTZ001
        self._signals = {text: signal for signal, text in texts.items()}

    def query(self, expression: str, at: datetime) -> tuple[MetricSample, ...]:
        if at.replace(tzinfo=None) >= self.away_from:
            raise TryLaterError("fake metrics do not answer")
        signal = self._signals[expression]
        return (MetricSample({}, self.values[signal], at),) if signal in self.values else ()


@dataclass
class Dying:
    """Ends the process before or after one of its journal lines or changes, counted together from 0."""

    at: int | None = None
    count: int = 0

    def pass_by(self) -> None:
        if self.at is not None and self.count == self.at:
            raise Killed
        self.count += 1


class DyingFile(DiskFile):
    """A journal's file that dies before and after its lines."""

    dying = Dying()

    def append(self, line: bytes) -> None:
        self.dying.pass_by()
        super().append(line)
        self.dying.pass_by()


class DyingCluster(FakeCluster):
    """A cluster that a process dies before or after changing."""

    dying: Dying = Dying()

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemError | None]:
        self.dying.pass_by()
        answers = super().alter_configs(changes)
        self.dying.pass_by()
        return answers


@dataclass
class Harness:
    """Three brokers and three topics; `restarts` are the brokers that were restarted."""

    folder: Path
    cluster: DyingCluster = field(default_factory=lambda: DyingCluster({1: "a", 2: "b", 3: "c"}))
    clock: FakeClock = field(default_factory=FakeClock)
    reporter: Recorder = field(default_factory=Recorder)
    restarts: list[int] = field(default_factory=list)
    restart_fails: str = ""
    service: tuple[FakeMetrics, HealthQueries] | None = None
    control: FakeControlStore | None = None
    lag: tuple[FakeGroups, FakeLogReader] | None = None

    def __post_init__(self) -> None:
        if not self.cluster.topics:
            for name in TOPICS:
                self.cluster.add_topic(name, {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}, size_bytes=1000)
        self.clock.on_sleep.append(self.cluster.advance)

    @property
    def access(self) -> ClusterAccess:
        return ClusterAccess(
            cluster_id=self.cluster.cluster_id,
            admin=self.cluster,
            clock=self.clock,
            token=None if self.control is None else 7,
            control=self.control,
        )

    @property
    def configs(self) -> ClusterConfigs:
        return read_configs(self.cluster, self.clock)

    @property
    def rollouts(self) -> Rollouts:
        ports = RolloutPorts(
            state_dir=self.folder,
            reporter=self.reporter,
            by="me",
            make_restart=lambda _clock, _settings: self.restart,
            service=self.service,
            open_lag=self.open_lag,
        )
        return Rollouts(self.access, ports)

    def open_lag(self, names: Sequence[str]) -> GroupLag:
        groups, log = self.lag or (FakeGroups(), FakeLogReader())
        return GroupLag(groups, log, self.clock, names)

    def restart(self, broker: int, values: Mapping[str, str | None]) -> str:
        self.cluster.dying.pass_by()
        if self.restart_fails:
            return self.restart_fails
        static = self.cluster.own_static.setdefault(broker, {})
        for key, value in values.items():
            static.pop(key, None)
            static |= {} if value is None else {key: value}
        self.cluster.kill(broker)
        self.cluster.revive(broker)
        self.cluster.advance(1)
        self.restarts.append(broker)
        self.cluster.dying.pass_by()
        return ""

    def plan(
        self,
        *words: str,
        topics: str | None = None,
        brokers: tuple[int | str, ...] = (),
        all_brokers: bool = False,
        cluster_default: bool = False,
        size: StepChoice = StepSize.GROW,
        files: tuple[Pieces, ...] = (),
        deleted: tuple[str, ...] = (),
        findings: tuple[str, ...] = (),
        findings_file: tuple[str, bytes] | None = None,
        lint_with: LintRequest | None = None,
    ) -> ConfigPlan:
        places = NamedPlaces(
            topics=() if topics is None else (topics,),
            brokers=tuple(map(str, brokers)),
            all_brokers=all_brokers,
            cluster_default=cluster_default,
        )
        task = PlanTask(
            words=words,
            deleted=deleted,
            places=places,
            files=files,
            findings=findings,
            findings_file=findings_file,
            size=size,
            request={"steps": size.value},
            core=rules() if lint_with is None else lint_with,
            every=rules(RuleSet.STRICT) if lint_with is None else lint_with,
        )
        return plan_change(task, self.cluster, self.clock, self.read_tags)

    def read_tags(self) -> TagSet:
        """No tags: the control store is away."""
        raise TryLaterError("tags are away")

    def apply(self, plan: ConfigPlan, watch: WatchSettings = WATCH) -> NamedState:
        done = self.rollouts.apply(plan, watch, lambda: True)
        assert done is not None
        return done

    def settings(self) -> dict[str, dict[str, str]]:
        """Everything that is set, by resource."""
        found = {f"topic {name}": dict(t.configs) for name, t in self.cluster.topics.items()}
        found |= {f"broker {b}": dict(broker.configs) for b, broker in self.cluster.brokers.items()}
        found |= {f"file of {b}": dict(v) for b, v in self.cluster.own_static.items() if v}
        return found | {"default": dict(self.cluster.dynamic_default)}

    def after_seconds(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something once, when the clock has moved on by that."""
        end = self.clock.elapsed + seconds

        def check(_: float) -> None:
            if self.clock.elapsed >= end:
                self.clock.on_sleep.remove(check)
                action()

        self.clock.on_sleep.append(check)

    def after_first_write(self, seconds: float, action: Callable[[], object]) -> None:
        """The same, so long after the first change of a setting."""

        def begin(name: str, _: object) -> None:
            if name == "alter_configs":
                self.cluster.before_call.remove(begin)
                self.after_seconds(seconds, action)

        self.cluster.before_call.append(begin)

    def set_by_another(self, topic: str, key: str, value: str) -> None:
        """Another process changes a topic."""
        self.cluster.topics[topic].configs[key] = value

    def refuse(self, kind: ResourceKind, name: str, key: str, value: str, call: str = "alter_configs") -> None:
        """Have a broker refuse a change once, when it is made or when it is asked about."""
        from kafkakit.core.cluster_facts import ConfigOp

        change = ConfigChange(kind=kind, name=name, key=key, op=ConfigOp.SET, value=value)
        self.cluster.fail_item(call, change, ItemError(name="InvalidRequestError", message="no"))
