"""Whether a snapshot or a map that came from outside makes sense, before anything is planned from it."""

import re
from collections.abc import Iterator
from itertools import islice

from kafkakit.core.errors import InputError
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, PartitionMap, Reassignment, Topic
from kafkakit.core.tags import TagSet

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
MAX_NAME = 249
MAX_TAGS = 1000
SHOWN_PROBLEMS = 3

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_snapshot(snapshot: ClusterSnapshot, source: str, *, sound_lists: bool = True) -> None:
    """Raise `InputError` with the first problems of a decoded snapshot; `source` names the file.

    Ids are int32 and not negative, sizes int64 and not negative, names are Kafka's, nothing is listed
    twice, every broker in a replica list is among `brokers` (those that are gone have the state
    `missing`), and `taken_at` has a time zone. Without `sound_lists` a replica list may be empty, name a broker
    twice or name an unknown one, for a caller that reports just that. O(replicas), well below a second for
    200,000 partitions.
    """
    _raise(_snapshot_problems(snapshot, sound_lists), source)


def check_partition_map(partition_map: PartitionMap, source: str) -> None:
    """Raise `InputError` with the first problems of a decoded reassignment map; O(replicas)."""
    _raise(_map_problems(partition_map), source)


def _raise(problems: Iterator[str], source: str) -> None:
    found = list(islice(problems, SHOWN_PROBLEMS + 1))
    if found:
        more = "; and more" if len(found) > SHOWN_PROBLEMS else ""
        raise InputError(source, "; ".join(found[:SHOWN_PROBLEMS]) + more)


def _snapshot_problems(snapshot: ClusterSnapshot, sound_lists: bool) -> Iterator[str]:
    if snapshot.taken_at.tzinfo is None:
        yield "taken_at has no time zone"
    yield from _text_problems("cluster_id", snapshot.cluster_id)
    yield from _text_problems("source", snapshot.source, 10_000)
    brokers: set[int] = set()
    for broker in snapshot.brokers:
        if broker.id in brokers:
            yield f"broker {broker.id} is listed twice"
        brokers.add(broker.id)
        yield from _broker_problems(broker)
    for silent in snapshot.unanswered_brokers:
        if silent not in brokers:
            yield f"unanswered_brokers names broker {silent}, which is not among the brokers"
    names: set[str] = set()
    for topic in snapshot.topics:
        yield from _name_problems(topic.name)
        if topic.name in names:
            yield f"topic {topic.name} is listed twice"
        names.add(topic.name)
        yield from _topic_problems(topic, brokers, sound_lists)
    for move in snapshot.reassignments:
        yield from _move_problems(move, brokers)
    tags = snapshot.tags or TagSet()
    for where, tagged in (*tags.brokers.items(), *tags.topics.items()):
        if len(tagged) > MAX_TAGS:
            yield f"{_shown(str(where))} has {len(tagged):,} tags, at most {MAX_TAGS:,} are read"
        for key, value in tagged.items():
            yield from _text_problems(f"{_shown(str(where))}: tag {_shown(key)}", key)
            yield from _text_problems(f"{_shown(str(where))}: tag {_shown(key)}", value, 10_000)


def _broker_problems(broker: Broker) -> Iterator[str]:
    where = f"broker {broker.id}"
    if not 0 <= broker.id <= MAX_INT32:
        yield f"{where}: ids are from 0 to {MAX_INT32}"
    if not 0 <= broker.port <= 65535:
        yield f"{where}: {broker.port} is not a port"
    yield from _text_problems(f"{where}: host", broker.host)
    if broker.rack is not None:
        yield from _text_problems(f"{where}: rack", broker.rack)
    yield from _size_problems(f"{where}: storage_free_bytes", broker.storage_free_bytes)
    paths: set[str] = set()
    for directory in broker.log_dirs:
        if directory.path in paths:
            yield f"{where}: log dir {_shown(directory.path)} is listed twice"
        paths.add(directory.path)
        yield from _text_problems(f"{where}: log dir", directory.path, 4096)
        yield from _size_problems(f"{where}: total_bytes", directory.total_bytes)
        yield from _size_problems(f"{where}: usable_bytes", directory.usable_bytes)


def _topic_problems(topic: Topic, brokers: set[int], sound_lists: bool) -> Iterator[str]:
    numbers: set[int] = set()
    for partition in topic.partitions:
        number = partition.partition
        if number in numbers:
            yield f"{topic.name}-{number} is listed twice"
        numbers.add(number)
        if not _is_sound(partition, brokers):
            yield from _partition_problems(topic.name, partition, brokers, sound_lists)
    if numbers and not 0 <= min(numbers) <= max(numbers) <= MAX_INT32:
        yield f"topic {topic.name}: partition numbers are from 0 to {MAX_INT32}"


def _is_sound(p: Partition, brokers: set[int]) -> bool:
    """True where `_partition_problems` finds none; a few set operations, which is all that most partitions cost."""
    listed = p.replicas
    replicas, sizes, isr = set(listed), p.replica_bytes, p.isr
    return (
        len(replicas) == len(listed) > 0
        and replicas <= brokers
        and not (p.adding or p.removing or p.replica_dirs)
        and (not isr or (len(set(isr)) == len(isr) and replicas.issuperset(isr)))
        and (p.leader is None or p.leader in replicas)
        and (p.size_bytes is None or 0 <= p.size_bytes <= MAX_INT64)
        and (
            not sizes or (replicas.issuperset(sizes) and min(sizes.values()) >= 0 and max(sizes.values()) <= MAX_INT64)
        )
    )


def _partition_problems(topic: str, p: Partition, brokers: set[int], sound_lists: bool) -> Iterator[str]:
    replicas = set(p.replicas)
    if not replicas or len(replicas) != len(p.replicas) or not replicas <= brokers:
        if sound_lists:
            yield from _list_problems(f"{topic}-{p.partition}", p.replicas, brokers)
        else:
            yield from _id_problems(f"{topic}-{p.partition}", p.replicas, None)
    for name, listed in (("isr", p.isr), ("adding", p.adding), ("removing", p.removing)):
        if listed and not replicas.issuperset(listed):
            stray = next(b for b in listed if b not in replicas)
            yield f"{topic}-{p.partition}: {name} names broker {stray}, which holds no replica"
        if listed and len(set(listed)) != len(listed):
            yield f"{topic}-{p.partition}: {name} names a broker twice"
    if p.leader is not None and p.leader not in replicas:
        yield f"{topic}-{p.partition}: the leader, broker {p.leader}, holds no replica"
    if p.size_bytes is not None or p.replica_bytes:
        yield from _copy_problems(f"{topic}-{p.partition}", p, replicas)
    if p.replica_dirs and not replicas.issuperset(p.replica_dirs):
        yield f"{topic}-{p.partition}: replica_dirs names a broker that holds no replica"


def _copy_problems(where: str, p: Partition, replicas: set[int]) -> Iterator[str]:
    if not replicas.issuperset(p.replica_bytes):
        yield f"{where}: replica_bytes names a broker that holds no replica"
    yield from _size_problems(f"{where}: size_bytes", p.size_bytes)
    for broker, size in p.replica_bytes.items():
        if not 0 <= size <= MAX_INT64:
            yield from _size_problems(f"{where}: replica_bytes of broker {broker}", size)


def _move_problems(move: Reassignment, brokers: set[int]) -> Iterator[str]:
    where = f"reassignment of {_shown(move.topic)}-{move.partition}"
    yield from _name_problems(move.topic)
    if not 0 <= move.partition <= MAX_INT32:
        yield f"{where}: partition numbers are from 0 to {MAX_INT32}"
    yield from _list_problems(where, move.replicas, brokers)
    if not set(move.replicas).issuperset(move.adding + move.removing):
        yield f"{where}: adding or removing names a broker that is not in the list"


def _map_problems(partition_map: PartitionMap) -> Iterator[str]:
    if partition_map.version != 1:
        yield f"version {partition_map.version} of the map is not known, only 1"
    seen: set[tuple[str, int]] = set()
    for entry in partition_map.partitions:
        yield from _name_problems(entry.topic)
        where = f"{_shown(entry.topic)}-{entry.partition}"
        if not 0 <= entry.partition <= MAX_INT32:
            yield f"{where}: partition numbers are from 0 to {MAX_INT32}"
        if (entry.topic, entry.partition) in seen:
            yield f"{where} is listed twice"
        seen.add((entry.topic, entry.partition))
        yield from _list_problems(where, entry.replicas, None)


def _list_problems(where: str, replicas: tuple[int, ...], brokers: set[int] | None) -> Iterator[str]:
    if not replicas:
        yield f"{where}: the replica list is empty"
    if len(set(replicas)) != len(replicas):
        yield f"{where}: the replica list names a broker twice"
    yield from _id_problems(where, replicas, brokers)


def _id_problems(where: str, replicas: tuple[int, ...], brokers: set[int] | None) -> Iterator[str]:
    for broker in replicas:
        if not 0 <= broker <= MAX_INT32:
            yield f"{where}: {broker} is not a broker id"
        elif brokers is not None and broker not in brokers:
            yield f"{where}: broker {broker} is not among the brokers"


def _name_problems(name: str) -> Iterator[str]:
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        yield f"{_shown(name)} is not a topic name (letters, digits, '.', '_', '-', at most {MAX_NAME})"


def _text_problems(what: str, text: str, longest: int = MAX_NAME) -> Iterator[str]:
    if len(text) > longest:
        yield f"{what} is longer than {longest} characters"
    elif _UNPRINTABLE.search(text):
        yield f"{what} holds control characters: {_shown(text)}"


def _size_problems(what: str, size: int | None) -> Iterator[str]:
    if size is not None and not 0 <= size <= MAX_INT64:
        yield (
            f"{what} is {size:.6g}, sizes are from 0 to 2^63 - 1" if abs(size) < 10**300 else f"{what} is out of range"
        )


def _shown(text: str) -> str:
    return repr(text[:60] + "..." if len(text) > 60 else text)
