"""What a law of rates is told: traffic and health of brokers, and which brokers copy from which, at one moment.

Copies are measured from two looks at the moves of a cluster. Traffic and latency come from a metrics service: the
queries, and their answers as values. Datadog is asked kafka-kit's queries by host; tags tell which host is which
broker.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kafkakit.autothrottle.decide.requests import TrafficOfHosts
from kafkakit.core.cluster_facts import MetricSample
from kafkakit.core.model import OFFSETS_TOPIC, TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.text import few_of
from kafkakit.execution.decide.journal import ConfigKey
from kafkakit.execution.decide.plan_state import LiveState, MoveGoal
from kafkakit.execution.decide.schedule.forecast import Dirs, intake_of
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.execution.decide.throttle import Configs, wanted_rates


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLoad:
    """Bytes per second through a broker's network in one direction; None where the source does not say.

    `total` is all traffic, `moved` the part of it that copies of moves take, and `capacity` what the network can do.
    `copied` is the same as `moved` between the last two looks at the log dirs, which see a move sooner than averages.
    """

    total: float | None = None
    moved: float | None = None
    copied: float | None = None
    capacity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBroker:
    """One broker; `produce_p99_ms` and `queue_ms` are its request latency and queue time where the source has them.

    `instance_type` is the kind of machine it runs on, empty where unknown.
    """

    broker: int
    into: NetworkLoad = field(default_factory=NetworkLoad)
    out: NetworkLoad = field(default_factory=NetworkLoad)
    produce_p99_ms: float | None = None
    queue_ms: float | None = None
    is_alive: bool = True
    instance_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Copies of moves from one broker (the leader) to another: bytes that are missing, and those written meanwhile."""

    source: int
    destination: int
    partitions: int
    left_bytes: int
    ingest_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficObservation:
    """One look at `at_ms`. The metrics are averages over `window_ms` that end at `measured_ms`, -1 for none.

    Latencies tell of `health_window_ms`, where that is longer.
    `under_replicated` and `under_min_isr` count partitions that do not move, None where unknown. `problems` say in
    words what could not be read.
    """

    at_ms: int
    measured_ms: int = -1
    window_ms: int = 0
    health_window_ms: int = 0
    brokers: Mapping[int, SeenBroker] = field(default_factory=dict)
    flows: tuple[Flow, ...] = ()
    under_replicated: int | None = None
    under_min_isr: int | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenMoves:
    """The moves of a cluster at one time, whichever program began them."""

    at_ms: int
    live: LiveState
    goals: tuple[MoveGoal, ...] = ()
    dirs: Dirs = field(default_factory=dict)

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers that send or receive copies."""
        return tuple(sorted({b for g in self.goals for b in (*g.holders, *g.adding)}))

    @property
    def left_bytes(self) -> int:
        """What is still to be copied, as far as the brokers tell."""
        found = 0
        for goal in self.goals:
            size = max((_bytes(self.dirs, b, goal.key) or 0 for b in goal.holders), default=0)
            found += sum(max(0, size - (_bytes(self.dirs, b, goal.key) or 0)) for b in goal.adding)
        return found


def goals_of(live: LiveState) -> tuple[MoveGoal, ...]:
    """The moves with a copy to make; one whose topic is gone by now is left out."""
    found = []
    for key, move in sorted(live.running.items()):
        state = live.states.get(key)
        if state is not None and move.adding:
            holders = tuple(b for b in state.replicas if b not in move.adding)
            found.append(MoveGoal(key=key, target=move.target, holders=holders, running=True))
    return tuple(found)


def observed_of(before: SeenMoves, after: SeenMoves, measured: TrafficObservation | None = None) -> TrafficObservation:
    """What log dirs tell, with what a metrics source measured beside it.

    The brokers alone tell what copies take; all traffic and what a network can do come from `measured`.
    """
    seconds = (after.at_ms - before.at_ms) / 1000
    into: dict[int, float] = {}
    out: dict[int, float] = {}
    flows: dict[tuple[int, int], Flow] = {}
    ingest = intake_of(after.goals, before.dirs, after.dirs, seconds).of_partition
    for goal in after.goals:
        state = after.live.states[goal.key]
        size = max((_bytes(after.dirs, b, goal.key) or 0 for b in goal.holders), default=0)
        for broker in goal.adding:
            now, was = _bytes(after.dirs, broker, goal.key), _bytes(before.dirs, broker, goal.key)
            if now is not None and seconds > 0 and broker in before.dirs:
                grown = max(0, now - (was or 0)) / seconds
                into[broker] = into.get(broker, 0.0) + grown
                if state.leader is not None:
                    out[state.leader] = out.get(state.leader, 0.0) + grown
            if state.leader is not None and broker not in state.isr:
                flow = flows.get((state.leader, broker)) or Flow(
                    source=state.leader, destination=broker, partitions=0, left_bytes=0
                )
                flows[state.leader, broker] = replace(
                    flow,
                    partitions=flow.partitions + 1,
                    left_bytes=flow.left_bytes + max(0, size - (now or 0)),
                    ingest_per_s=flow.ingest_per_s + ingest.get(goal.key, 0.0),
                )
    base = measured or TrafficObservation(
        at_ms=after.at_ms, measured_ms=after.at_ms, window_ms=max(0, round(seconds * 1000))
    )
    brokers = {
        b: _add_loads(base.brokers.get(b) or SeenBroker(broker=b), into.get(b), out.get(b), after.live.is_alive(b))
        for b in sorted({*base.brokers, *after.brokers, *after.live.brokers})
    }
    return replace(
        base,
        at_ms=after.at_ms,
        brokers=brokers,
        flows=tuple(f for _, f in sorted(flows.items())),
        problems=(*base.problems, *_silent_brokers(after)),
    )


def _add_loads(seen: SeenBroker, into: float | None, out: float | None, is_alive: bool) -> SeenBroker:
    return replace(seen, into=_load(seen.into, into), out=_load(seen.out, out), is_alive=is_alive)


def _load(load: NetworkLoad, moved: float | None) -> NetworkLoad:
    """A source's own figure of copies is an average of the same time as its totals, so it goes first."""
    return load if moved is None else replace(load, moved=moved if load.moved is None else load.moved, copied=moved)


def _silent_brokers(look: SeenMoves) -> tuple[str, ...]:
    return tuple(f"broker {b} does not tell its log dirs: {a.error}" for b, a in sorted(look.dirs.items()) if a.error)


def _bytes(dirs: Dirs, broker: int, key: TopicPartition) -> int | None:
    answer = dirs.get(broker)
    if answer is None or answer.error:
        return None
    copy = answer.replicas.get(key)
    return copy.size_bytes if copy else 0


def own_rates(
    goals: Collection[MoveGoal],
    rates: BrokerRates,
    held: Collection[ConfigKey],
    now: Configs,
    *,
    take_over: bool = False,
) -> tuple[BrokerRates, tuple[str, ...]]:
    """The rates without those sides of brokers that another process throttles, and these in words.

    A rate that was there before ours is another process's: it is not replaced, and our lists do not fall under it.
    With `take_over` it is replaced; the journal keeps its value, which comes back when ours goes.
    """
    wanted = wanted_rates(goals, rates)
    theirs = {k: now[k.name][k.key] for k in wanted if k not in held and k.key in now.get(k.name, {})}
    if take_over:
        return rates, tuple(
            f"broker {k.name}: {k.key}={v} of another process is taken over" for k, v in sorted(theirs.items())
        )
    into_of, out_of = dict(rates.into_of), dict(rates.out_of)
    for key in theirs:
        (out_of if key.key.startswith("leader.") else into_of).pop(int(key.name), None)
    words = tuple(
        f"broker {k.name}: another process has set {k.key}={v}; left as it is without --take-over"
        for k, v in sorted(theirs.items())
    )
    return replace(rates, into_of=into_of, out_of=out_of), words


def for_run(rates: BrokerRates, inside: int | None) -> BrokerRates:
    """The rates for a run of kafkakit, which may begin moves on other brokers: there the lowest of them holds.

    `inside` is the run's rate between log dirs, which stays.
    """
    into, out = min(rates.into_of.values(), default=rates.into), min(rates.out_of.values(), default=rates.out)
    return replace(rates, into=into, out=out, inside=inside)


def override_goals(
    brokers: Collection[int], replicas: Mapping[TopicPartition, tuple[int, ...]]
) -> tuple[MoveGoal, ...]:
    """Copies on brokers with an override that take part in no move: their catching up is throttled, as kafka-kit does.

    The offsets topic is left out, as there.
    """
    chosen = set(brokers)
    found = []
    for key, copies in sorted(replicas.items()):
        target = tuple(b for b in copies if b in chosen)
        if target and key.topic != OFFSETS_TOPIC:
            found.append(MoveGoal(key=key, target=target, holders=()))
    return tuple(found)


_ID = re.compile(r"(?:^|[^0-9])([0-9]{1,10})$", re.ASCII)
_TRAFFIC = 'sum by (LABEL) (rate(kafka_server_brokertopicmetrics_{}_total{{topic=""SELECTOR}}[WINDOW]))'
_TIME = 'max by (LABEL) (kafka_network_requestmetrics_{}{{request="Produce",quantile="0.99"SELECTOR}})'

PERCENTILE_MS = 300_000
"""How long Kafka's percentiles remember: they are those of a sample that decays over about five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficQueries:
    """PromQL, each with one series a broker; the broker's id is the number at the end of its `label`'s value.

    The usual ones are for the names of Kafka's example rules of the JMX exporter. `selector` are matchers to add, and
    `type_label` is the label of the broker's instance type, empty for none.
    """

    label: str = "broker_id"
    type_label: str = ""
    selector: str = ""
    window_s: int = 120

    def texts(self) -> Mapping[str, str]:
        """The queries by what they measure."""
        received, sent = _TRAFFIC.format("bytesin"), _TRAFFIC.format("bytesout")
        copied, served = _TRAFFIC.format("replicationbytesin"), _TRAFFIC.format("replicationbytesout")
        found = {
            "into": f"{received} + {copied}",
            "out": f"{sent} + {served}",
            "moved_into": _TRAFFIC.format("reassignmentbytesin"),
            "moved_out": _TRAFFIC.format("reassignmentbytesout"),
            "produce_p99_ms": _TIME.format("totaltimems"),
            "queue_ms": _TIME.format("requestqueuetimems"),
        }
        selector = f",{self.selector}" if self.selector else ""
        labels = ", ".join(filter(None, (self.label, self.type_label)))
        return {
            name: text.replace("LABEL", labels).replace("SELECTOR", selector).replace("WINDOW", f"{self.window_s}s")
            for name, text in found.items()
        }


def measured_of(
    answers: Mapping[str, tuple[MetricSample, ...]],
    queries: TrafficQueries,
    at_ms: int,
    window_s: int,
    problems: tuple[str, ...] = (),
) -> TrafficObservation:
    """The answers by broker; series without a broker's id and values that are no numbers are left out.

    `measured_ms` is the oldest time among the samples of all traffic, -1 where there is none.
    """
    values: dict[int, dict[str, float]] = {}
    types: dict[int, str] = {}
    oldest: list[int] = []
    for name, samples in answers.items():
        for sample in samples:
            match = _ID.search(sample.labels.get(queries.label, ""))
            if match is None or not math.isfinite(sample.value) or sample.value < 0:
                continue
            broker = int(match[1])
            values.setdefault(broker, {})[name] = sample.value
            types[broker] = sample.labels.get(queries.type_label, "") or types.get(broker, "")
            if name in ("into", "out"):
                oldest.append(epoch_ms(sample.time))
    brokers = {
        broker: SeenBroker(
            broker=broker,
            into=NetworkLoad(total=found.get("into"), moved=found.get("moved_into")),
            out=NetworkLoad(total=found.get("out"), moved=found.get("moved_out")),
            produce_p99_ms=found.get("produce_p99_ms"),
            queue_ms=found.get("queue_ms"),
            instance_type=types[broker],
        )
        for broker, found in sorted(values.items())
    }
    return TrafficObservation(
        at_ms=at_ms,
        measured_ms=min(oldest, default=-1),
        window_ms=window_s * 1000,
        health_window_ms=PERCENTILE_MS,
        brokers=brokers,
        problems=problems if oldest else (*problems, "the metrics service has no traffic of any broker"),
    )


NET_TX = "avg:system.net.bytes_sent{service:kafka} by {host}"
NET_RX = "avg:system.net.bytes_rcvd{service:kafka} by {host}"
_TOLD = TrafficQueries(label="broker", type_label="type")
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostQueriesAsked:
    """What Datadog is asked, and how its tags name brokers. Points are averages over `window_s`."""

    queries: TrafficOfHosts = TrafficOfHosts()
    broker_tag: str = "broker_id"
    type_tag: str = "instance-type"
    window_s: int = 120

    def texts(self) -> Mapping[str, str]:
        """The queries by what they measure, with kafka-kit's rollup where they have none of their own."""
        asked = {
            "out": self.queries.net_tx or NET_TX,
            "into": self.queries.net_rx or NET_RX,
            "moved_out": self.queries.copies_tx,
            "moved_into": self.queries.copies_rx,
            "produce_p99_ms": self.queries.produce_ms,
        }
        rollup = f".rollup(avg, {self.window_s})"
        return {name: text if ".rollup(" in text else text + rollup for name, text in asked.items() if text}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTags:
    """Which broker runs on a host, None where no tag tells, and the host's instance type, empty where unknown."""

    broker: int | None = None
    instance_type: str = ""

    def is_complete(self, *, with_type: bool) -> bool:
        """True when there is nothing to look up again."""
        return self.broker is not None and bool(self.instance_type or not with_type)


def read_tags(tags: Collection[str], asked: HostQueriesAsked) -> HostTags:
    """The tags of one host; a value ends at its second colon, as in kafka-kit."""
    found = {words[0]: words[1] for words in (tag.strip().split(":") for tag in tags) if len(words) > 1}
    number = found.get(asked.broker_tag, "")
    is_id = bool(_NUMBER.fullmatch(number)) and int(number) < 2**31
    return HostTags(broker=int(number) if is_id else None, instance_type=found.get(asked.type_tag, ""))


def hosts_of(answers: Mapping[str, Collection[MetricSample]]) -> tuple[str, ...]:
    """The hosts that the answers name, sorted."""
    return tuple(sorted({s.labels["host"] for samples in answers.values() for s in samples if s.labels.get("host")}))


def measured_by_host(
    answers: Mapping[str, Collection[MetricSample]], tags: Mapping[str, HostTags], asked: HostQueriesAsked, at: datetime
) -> TrafficObservation:
    """The answers by broker; what cannot be used is among `problems`, by host, and left out.

    A point's time is the begin of what it averages over. One that ended more than `window_s` ago is too old. Hosts
    without `tags` are left out silently: what asked for their tags names them.
    """
    window = timedelta(seconds=asked.window_s)
    kept: dict[str, dict[int, tuple[str, MetricSample]]] = defaultdict(dict)
    faults: dict[str, set[str]] = defaultdict(set)
    for name, samples in answers.items():
        for sample in samples:
            host = sample.labels.get("host", "")
            found, end = tags.get(host), min(sample.time + window, at)
            fault = "" if found is None else _fault(found, sample, name, is_old=at - end > window)
            if not host:
                faults[f"{name}: the series has no host, the query must end in: by {{host}}"].add("*")
            elif fault:
                faults[fault].add(host)
            if not host or found is None or found.broker is None or fault:
                continue
            labels = {"broker": str(found.broker), "type": found.instance_type}
            other = kept[name].get(found.broker)
            if other is not None:
                faults[f"two hosts are broker {found.broker}, the later one is used"] |= {host, other[0]}
            if other is None or (other[1].time, other[0]) < (end, host):
                kept[name][found.broker] = host, MetricSample(labels, sample.value, end)
    told = {name: tuple(s for _, s in by_broker.values()) for name, by_broker in kept.items()}
    problems = tuple(f"{fault}: host {few_of(sorted(hosts))}" for fault, hosts in sorted(faults.items()))
    return measured_of(told, _TOLD, epoch_ms(at), asked.window_s, problems)


def _fault(tags: HostTags, sample: MetricSample, name: str, *, is_old: bool) -> str:
    if tags.broker is None:
        return "no tag tells the broker's id"
    if math.isnan(sample.value):
        return f"{name}: no points"
    if not math.isfinite(sample.value) or sample.value < 0:
        return f"{name}: a value that makes no sense"
    return f"{name}: the last point is too old" if is_old else ""
