"""From what brokers or a metrics service answered to sizes and free space, and what is missing or wrong in them."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from kafkakit.core.cluster_facts import FreeStorage, MetricSample, PartitionSizes, StorageReading
from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.core.model import OFFSETS_TOPIC, ClusterSnapshot, TopicPartition
from kafkakit.core.quantities import format_span
from kafkakit.core.storage_documents import MAX_ID
from kafkakit.core.text import few_of, sanitize
from kafkakit.placement.broker_disks import broker_disks

K = TypeVar("K", int, TopicPartition)
MOST_BYTES = 1 << 59
"""More than any disk holds."""
FEWEST_FREE = 1 << 20
"""Where no broker has as much free space, the query does not give bytes."""
BEHIND_S = 1800
"""A value this much older than the newest one comes from a series that has ended, in seconds."""
_RENAMED = {"_consumer_offsets": OFFSETS_TOPIC, "_transaction_state": "__transaction_state"}


class QuerySet(StrEnum):
    """Names of metrics that exporters for Prometheus use; kminion has no size of a partition."""

    JMX = "jmx"
    STRIMZI = "strimzi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The two queries, and the label or tag that holds a broker's id; sizes have `topic` and `partition`.

    `renames_topics`: the service strips an underscore from names that begin with two. `behind_s` is how much older
    than the newest a value may be.
    """

    sizes: str
    free: str
    broker_id_tag: str = "broker_id"
    renames_topics: bool = False
    behind_s: int = BEHIND_S


_SIZES = "max by (topic, partition) (kafka_log_log_size{SELECTOR})"
PROMETHEUS_QUERIES: Mapping[QuerySet, Queries] = {
    # The rules that come with the JMX exporter, and node_exporter with a label of its target for the broker.
    QuerySet.JMX: Queries(
        sizes=_SIZES, free='sum by (broker_id) (node_filesystem_avail_bytes{mountpoint="/data",SELECTOR})'
    ),
    # data-0-CLUSTER-POOL-3: the last number is the broker's id. ZooKeeper's claims are named alike.
    QuerySet.STRIMZI: Queries(
        sizes=_SIZES,
        free='sum by (broker_id) (label_replace(kubelet_volume_stats_available_bytes{persistentvolumeclaim=~"data-.+",'
        'persistentvolumeclaim!~".+-zookeeper-[0-9]+",SELECTOR}, '
        '"broker_id", "$1", "persistentvolumeclaim", ".+-([0-9]+)"))',
    ),
}
# kafka-kit's.
DATADOG_QUERIES = Queries(
    sizes="max:kafka.log.partition.size{service:kafka} by {topic,partition}",
    free="avg:system.disk.free{service:kafka,device:/data}",
    renames_topics=True,
)


def prometheus_queries(names: QuerySet, selector: str) -> Queries:
    """The queries for an exporter's names; `selector` are matchers such as `cluster="prod"`, or empty."""
    known = PROMETHEUS_QUERIES[names]
    return replace(
        known, sizes=known.sizes.replace("SELECTOR", selector), free=known.free.replace("SELECTOR", selector)
    )


def datadog_queries(asked: Queries, span_s: int) -> Queries:
    """The queries as kafka-kit sends them."""
    by = f"{asked.free} by {{{asked.broker_id_tag}}}.fill(last)"
    # A series may get its point of the newest bucket a while after others do.
    late = span_s * 3 // 2
    return replace(asked, sizes=f"{asked.sizes}.rollup(avg, {span_s})", free=by, behind_s=late)


class StoreKind(StrEnum):
    """Where readings are kept."""

    ZOOKEEPER = "zookeeper"
    TOPIC = "topic"
    FILE = "file"
    STDOUT = "-"


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A kind of store, and the name of its topic or the path of its file."""

    kind: StoreKind
    name: str = ""


def parse_place(text: str, flag: str) -> StorePlace:
    """Read `zookeeper`, `topic:NAME`, `file:PATH` or `-`; `UsageError` for anything else."""
    word, colon, name = text.partition(":")
    with_name = word in (StoreKind.TOPIC, StoreKind.FILE)
    if word not in tuple(StoreKind) or with_name != bool(name) or (colon and not with_name):
        stdout = ", or - for stdout" if flag == "--to" else ""
        what = "a destination" if flag == "--to" else "a source"
        raise UsageError(
            f"{flag}: {text!r:.80} is not {what}", hint=f"write zookeeper, topic:NAME or file:PATH{stdout}"
        )
    return StorePlace(StoreKind(word), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """A reading and what it lacks, one sentence each."""

    reading: StorageReading
    problems: tuple[str, ...]

    def refusal(self, *, allow_partial: bool) -> OperationFailedError | None:
        """Why this must not be written; an empty half never is."""
        sizes, free = self.reading.sizes.bytes_of, self.reading.free.bytes_of
        if not sizes or not free:
            what = "partition sizes" if not sizes else "free storage"
            return OperationFailedError(
                f"{self.reading.source} gave no {what}, so nothing was written", hint="check the query, the label of "
                "the broker's id and the rights"
            )  # fmt: skip
        if self.problems and not allow_partial:
            return OperationFailedError(
                "the answer is incomplete, so nothing was written", hint="--allow-partial writes what there is"
            )
        return None


def from_snapshot(snapshot: ClusterSnapshot) -> FetchResult:
    """Sizes and free space as the brokers gave them; a partition's size is that of its largest copy. O(replicas)."""
    sizes: dict[TopicPartition, int] = {}
    smallest: dict[TopicPartition, int] = {}
    unsized: list[TopicPartition] = []
    for topic in snapshot.topics:
        for p in topic.partitions:
            key, size = TopicPartition(topic.name, p.partition), p.known_bytes
            if size is None:
                unsized.append(key)
                continue
            sizes[key] = size
            # The copies that are being made are smaller by nature.
            least = min((n for b, n in p.replica_bytes.items() if b not in p.adding), default=size)
            if least < size:
                smallest[key] = least
    disks = broker_disks(snapshot)
    free = {b: d.free_bytes for b, d in disks.brokers.items() if d.free_bytes is not None}
    problems = [f"broker {b} gave no answer: {why}" for b, why in sorted(snapshot.unanswered_brokers.items())]
    problems += [line for _, lines in sorted(disks.warnings.items()) for line in lines if " is offline " in line]
    silent = [b.id for b in snapshot.brokers if b.id not in free and b.id not in snapshot.unanswered_brokers]
    if silent:
        problems.append(f"no free storage is known of brokers {few_of(silent)}")
    if unsized:
        problems.append(f"no size is known of {len(unsized)} partitions: {few_of(unsized)}")
    reading = StorageReading(
        source=f"brokers of cluster {snapshot.cluster_id}",
        sizes=PartitionSizes(bytes_of=sizes, taken_at=snapshot.taken_at, smallest_of=smallest),
        free=FreeStorage(bytes_of=free, taken_at=snapshot.taken_at),
    )
    return FetchResult(reading=reading, problems=tuple(problems))


def from_samples(
    source: str,
    sizes: Iterable[MetricSample],
    free: Iterable[MetricSample],
    queries: Queries,
    now: datetime,
    cluster: ClusterSnapshot | None = None,
) -> FetchResult:
    """Sizes and free space from the samples of two queries; a partition's largest sample counts. O(samples).

    With a `cluster` series of what it does not have are left out, a topic that was deleted say, and what it has must
    be there.
    """
    faults: dict[str, list[str]] = defaultdict(list)
    partitions, members = _members(cluster)
    found: dict[TopicPartition, list[MetricSample]] = defaultdict(list)
    for sample in sizes:
        topic = sample.labels.get("topic", "")
        topic = _RENAMED.get(topic, topic) if queries.renames_topics else topic
        number = _id(sample.labels.get("partition", ""))
        if not topic or number is None:
            faults["series of sizes have no topic or no number of a partition"].append(_labels(sample))
            continue
        key = TopicPartition(topic, number)
        if (cluster is None or key in partitions) and _is_sound(sample, f"partition {key}", faults):
            found[key].append(sample)
    brokers: dict[int, list[MetricSample]] = defaultdict(list)
    for sample in free:
        broker = _id(sample.labels.get(queries.broker_id_tag, ""))
        if broker is None:
            faults[f"series of free storage have no broker's number in {queries.broker_id_tag}"].append(_labels(sample))
        elif (cluster is None or broker in members) and _is_sound(sample, f"broker {broker}", faults):
            brokers[broker].append(sample)
    faults["brokers have several series of free storage, of which the lowest was taken"] += [
        str(b) for b, several in brokers.items() if len(several) > 1
    ]
    largest = {key: max(int(s.value) for s in several) for key, several in found.items()}
    lowest = {key: min(int(s.value) for s in several) for key, several in found.items()}
    left = {b: min(int(s.value) for s in several) for b, several in brokers.items()}
    size_times = {key: min(s.time for s in several) for key, several in found.items()}
    free_times = {b: min(s.time for s in several) for b, several in brokers.items()}
    faults["partitions of the cluster have no size"] += map(str, partitions - largest.keys())
    faults["brokers of the cluster have no free storage"] += map(str, members - left.keys())
    faults["partitions are missing between others of their topic"] += _gaps(largest) if cluster is None else []
    late = timedelta(seconds=queries.behind_s)
    faults[f"series ended {format_span(queries.behind_s)} or more before the others"] += [
        *_keys_behind(size_times, late), *(f"broker {text}" for text in _keys_behind(free_times, late)),
    ]  # fmt: skip
    problems = [f"{len(items)} {what}: {few_of(sorted(items))}" for what, items in faults.items() if items]
    if left and max(left.values()) < FEWEST_FREE:
        problems.append(f"no broker has more than {max(left.values()):,} bytes free: the query may give another unit")
    reading = StorageReading(
        source=source,
        sizes=PartitionSizes(
            bytes_of=largest,
            taken_at=now,
            smallest_of={key: size for key, size in lowest.items() if size < largest[key]},
            times={key: at for key, at in size_times.items() if at < now},
        ),
        free=FreeStorage(bytes_of=left, taken_at=now, times={b: at for b, at in free_times.items() if at < now}),
    )
    return FetchResult(reading=reading, problems=tuple(problems))


def _members(cluster: ClusterSnapshot | None) -> tuple[frozenset[TopicPartition], frozenset[int]]:
    if cluster is None:
        return frozenset(), frozenset()
    partitions = frozenset(TopicPartition(t.name, p.partition) for t in cluster.topics for p in t.partitions)
    return partitions, frozenset(broker.id for broker in cluster.brokers)


def _id(text: str) -> int | None:
    ok = text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_ID
    return int(text) if ok else None


def _is_sound(sample: MetricSample, what: str, faults: Mapping[str, list[str]]) -> bool:
    if math.isnan(sample.value):
        faults["series have no value"].append(what)
        return False
    if not 0 <= sample.value < MOST_BYTES:
        faults["values are not numbers of bytes"].append(f"{what} {sample.value:g}")
        return False
    return True


def _labels(sample: MetricSample) -> str:
    return sanitize(",".join(f"{k}:{v}" for k, v in sorted(sample.labels.items())) or "no labels")[:80]


def _gaps(sizes: Collection[TopicPartition]) -> list[str]:
    highest: dict[str, int] = defaultdict(int)
    count: dict[str, int] = defaultdict(int)
    for topic, number in sizes:
        highest[topic] = max(highest[topic], number)
        count[topic] += 1
    gaps = {topic: top + 1 - count[topic] for topic, top in highest.items() if top >= count[topic]}
    return [f"{topic} ({missing} of {highest[topic] + 1})" for topic, missing in gaps.items()]


def _keys_behind(times: Mapping[K, datetime], late: timedelta) -> list[str]:
    newest = max(times.values(), default=None)
    return [] if newest is None else [str(key) for key, at in times.items() if newest - at >= late]
