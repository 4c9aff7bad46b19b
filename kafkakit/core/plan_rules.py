"""Whether a plan, a snapshot or a map that came from outside makes sense: nothing in such a file is believed.

`documents.py` checks a file's shape; here its parts are held against each other, before anything is planned from it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from kafkakit.core.cluster_facts import cluster_id_problem
from kafkakit.core.documents import PLAN_LIMIT_BYTES, decode_plan, is_partition_map
from kafkakit.core.errors import InputError
from kafkakit.core.findings import MAX_MIN_ISR
from kafkakit.core.model import (
    MAX_REASON,
    Broker,
    ClusterSnapshot,
    Partition,
    PartitionAssignment,
    PartitionMap,
    Reassignment,
    TagSet,
    Topic,
    TopicPartition,
)
from kafkakit.core.plan import DirMove, Move, Plan, ScopeEntry, TagConstraint, fingerprint_of

MAX_INT32 = 2**31 - 1
MAX_BYTES = 2**63 - 1
MAX_REPLICAS = 1000
MAX_RACK = 249
MAX_PATH = 4096
MAX_CONSTRAINT = 10_000
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic

Named = ScopeEntry | Move | DirMove | PartitionAssignment | TopicPartition
Scope = Mapping[str, Mapping[int, ScopeEntry]]
"""Scope entries by topic and partition number; two small keys cost less than 200,000 made-up pairs."""


def read_plan(file: str, read: Callable[[str, int], bytes]) -> Plan:
    """The plan in a file, or on stdin for `-`; `read` takes the name and the most bytes to read.

    Raises `InputError` for a file that is not a plan, or not a sound one.
    """
    return sound_plan(read(file, PLAN_LIMIT_BYTES), "stdin" if file == "-" else file)


def sound_plan(data: bytes, source: str) -> Plan:
    """The plan in these bytes; raises `InputError` naming `source` for what is not a plan, or not a sound one."""
    if is_partition_map(data):
        raise InputError(
            source,
            "is a reassignment map, not a plan",
            hint="`kafkakit reassign apply` makes a plan of it and names that",
        )
    plan = decode_plan(data, source)
    check_plan(plan, source)
    return plan


def check_plan(plan: Plan, source: str) -> None:
    """Raise `InputError` naming `source` and the first thing in the plan that makes no sense.

    Checked: names and ids, replica lists, one entry a partition, moves against scope and both maps,
    new copies only on the plan's brokers, log dirs, and the fingerprint computed again. O(partitions), about
    half a second for 200,000 of them.
    """
    scope: dict[str, dict[int, ScopeEntry]] = {}
    problem = _head_problem(plan) or _scope_problem(plan.scope, scope) or _moves_problem(plan, scope)
    problem = problem or _dir_moves_problem(plan, scope) or _dirs_problem(plan)
    if problem is None:
        after: dict[tuple[str, int], tuple[int, ...]] = {(m.topic, m.partition): m.after for m in plan.moves}
        problem = _map_problem("reassignment", plan.reassignment, scope, after) or _map_problem(
            "rollback", plan.rollback, scope, {(m.topic, m.partition): m.before for m in plan.moves}
        )
    if problem:
        raise InputError(source, problem, hint="make a new plan")
    if plan.fingerprint != fingerprint_of(plan.cluster_id, plan.brokers, plan.scope):
        raise InputError(
            source, "the fingerprint does not match the plan's content, the file was changed", hint="make a new plan"
        )


def _head_problem(plan: Plan) -> str | None:
    if problem := cluster_id_problem(plan.cluster_id):
        return problem
    ids = [b.id for b in plan.brokers]
    for broker in ids:
        if not 0 <= broker <= MAX_INT32:
            return f"brokers: id {broker} is out of range"
    if len(set(ids)) != len(ids):
        return "brokers: an id is listed twice"
    for plan_broker in plan.brokers:
        rack = plan_broker.rack or ""
        if len(rack) > MAX_RACK or not rack.isprintable():  # it is shown where it differs from the live one
            return f"brokers: the rack of broker {plan_broker.id} is not a plain name"
    for constraint in plan.constraints:
        if problem := _constraint_problem(constraint):
            return f"constraints: {problem}"
    certificate = plan.certificate
    if certificate.objective < 0 or certificate.lower_bound < 0 or certificate.lower_bound > certificate.objective:
        return "certificate: objective and lower bound contradict each other"
    return None


def _constraint_problem(constraint: TagConstraint) -> str | None:
    if len(constraint.text) > MAX_CONSTRAINT or not constraint.text.isprintable():
        return "a text is not one printable line"
    ids = (*(constraint.only or ()), *constraint.never, *constraint.values)
    return next((f"broker id {b} is out of range" for b in ids if not 0 <= b <= MAX_INT32), None)


def _scope_problem(entries: Iterable[ScopeEntry], scope: dict[str, dict[int, ScopeEntry]]) -> str | None:
    """Fill `scope` and say what is wrong with an entry, or None."""
    for entry in entries:
        known = scope.get(entry.topic)
        if known is None:  # the name is looked at once a topic
            known = {}
            problem = topic_problem(entry.topic)
        else:
            problem = None
        problem = problem or number_problem(entry.partition) or list_problem(entry.replicas)
        if problem:
            return f"scope: {_show_named(entry)}: {problem}"
        if entry.partition in known:
            return f"scope: {_show_named(entry)} is listed twice"
        known[entry.partition] = entry
        scope[entry.topic] = known
    return None


def _moves_problem(plan: Plan, scope: Scope) -> str | None:
    targets = {b.id for b in plan.brokers}
    seen: set[tuple[str, int]] = set()
    for move in plan.moves:
        key = (move.topic, move.partition)
        problem = _move_problem(move, _find_entry(scope, move), targets)
        if problem is None and key in seen:
            problem = "is listed twice"
        if problem:
            return f"moves: {_show_named(move)}: {problem}"
        seen.add(key)
    return None


def _move_problem(move: Move, entry: ScopeEntry | None, targets: set[int]) -> str | None:
    if entry is None:
        return "is not in the plan's scope"
    if move.before != entry.replicas:
        return f"before {_ids(move.before)} differs from the scope's {_ids(entry.replicas)}"
    if move.topic_id != entry.topic_id:
        return "topic id differs from the scope's"
    problem = list_problem(move.after)
    if problem:
        return f"after: {problem}"
    if move.after == move.before:
        return "before and after are the same"
    unexpected = [b for b in move.adding if b not in targets]
    if unexpected:
        return f"adds a copy on broker {unexpected[0]}, which is not among the plan's brokers"
    for broker, path in move.dirs.items():
        if broker not in move.adding:
            return f"dirs: no copy comes to broker {broker}"
        if problem := path_problem(path):
            return f"dirs: {problem}"
    return _bytes_problem(move.size_bytes, move.bytes_moved)


def _bytes_problem(*sizes: int | None) -> str | None:
    bad = [size for size in sizes if size is not None and not 0 <= size <= MAX_BYTES]
    return f"size {bad[0]} is out of range" if bad else None


def _dir_moves_problem(plan: Plan, scope: Scope) -> str | None:
    """A copy may change dirs on a broker that holds it before and after, and only once."""
    after = {(m.topic, m.partition): m.after for m in plan.moves}
    seen: set[tuple[str, int, int]] = set()
    for move in plan.dir_moves:
        entry = _find_entry(scope, move)
        problem = path_problem(move.source_dir) or path_problem(move.target_dir) or _bytes_problem(move.size_bytes)
        if entry is None:
            problem = "is not in the plan's scope"
        elif move.broker not in entry.replicas or move.broker not in after.get(
            (move.topic, move.partition), entry.replicas
        ):
            problem = f"broker {move.broker} does not hold it before and after the plan"
        elif move.source_dir == move.target_dir:
            problem = "source and target dir are the same"
        elif (move.topic, move.partition, move.broker) in seen:
            problem = f"is listed twice for broker {move.broker}"
        if problem:
            return f"dir_moves: {_show_named(move)}: {problem}"
        seen.add((move.topic, move.partition, move.broker))
    return None


def _dirs_problem(plan: Plan) -> str | None:
    seen: set[tuple[int, str]] = set()
    for d in plan.dirs:
        problem = path_problem(d.path) or _bytes_problem(d.capacity_bytes, d.used_before_bytes, d.used_after_bytes)
        if not 0 <= d.broker <= MAX_INT32:
            problem = "broker id out of range"
        elif (d.broker, d.path) in seen:
            problem = "is listed twice"
        if problem:
            return f"dirs: broker {d.broker} {d.path!r:.80}: {problem}"
        seen.add((d.broker, d.path))
    return None


def path_problem(path: str) -> str | None:
    """Say what is wrong with the path of a log dir, or None: it is shown to people and sent to brokers."""
    if not 0 < len(path) <= MAX_PATH or not path.isprintable():
        return f"{path!r:.80} is not the path of a log dir"
    return None


def _map_problem(
    name: str, lists: PartitionMap, scope: Scope, wanted: Mapping[tuple[str, int], tuple[int, ...]]
) -> str | None:
    """The map must hold every moved partition as wanted; others only with their unchanged list."""
    if lists.version != 1:
        return f"{name}: version {lists.version} is not 1"
    seen: set[tuple[str, int]] = set()
    for entry in lists.partitions:
        key = (entry.topic, entry.partition)
        found = _find_entry(scope, entry)
        if found is None:
            return f"{name}: {_show_named(entry)} is not in the plan's scope"
        if key in seen:
            return f"{name}: {_show_named(entry)} is listed twice"
        expected = wanted.get(key, found.replicas)
        if entry.replicas != expected:
            return f"{name}: {_show_named(entry)} has {_ids(entry.replicas)}, the moves say {_ids(expected)}"
        seen.add(key)
    missing = sorted(wanted.keys() - seen)
    if missing:
        return f"{name}: {_show_named(TopicPartition(*missing[0]))} is missing"
    return None


def _find_entry(scope: Scope, named: Named) -> ScopeEntry | None:
    known = scope.get(named.topic)
    return known.get(named.partition) if known else None


def topic_problem(topic: str) -> str | None:
    """Say what is wrong with a topic name, or None."""
    return "not a Kafka topic name" if not _TOPIC_NAME.fullmatch(topic) or topic in {".", ".."} else None


def number_problem(partition: int) -> str | None:
    """Say what is wrong with a partition number, or None."""
    return None if 0 <= partition <= MAX_INT32 else "partition number out of range"


def list_problem(replicas: tuple[int, ...]) -> str | None:
    """Say what is wrong with a replica list, or None: empty, too long, ids out of range or repeated."""
    if not replicas:
        return "the replica list is empty"
    if len(replicas) > MAX_REPLICAS:
        return f"{len(replicas)} replicas are more than {MAX_REPLICAS}"
    if min(replicas) < 0 or max(replicas) > MAX_INT32:
        bad = next(b for b in replicas if not 0 <= b <= MAX_INT32)
        return f"broker id {bad} is out of range"
    if len(set(replicas)) != len(replicas):
        return f"a broker is listed twice in {_ids(replicas)}"
    return None


def _ids(replicas: tuple[int, ...]) -> str:
    shown = ",".join(str(b) for b in replicas[:10])
    return f"[{shown}{',...' if len(replicas) > 10 else ''}]"


def _show_named(named: Named) -> str:
    return f"{named.topic!r:.80} partition {named.partition}"


MAX_INT64 = 2**63 - 1
MAX_NAME = 249
MAX_TAGS = 1000
SHOWN_PROBLEMS = 3

_SNAPSHOT_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
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
    yield from _named_broker_problems(snapshot, brokers)
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
            yield f"{_show_value(str(where))} has {len(tagged):,} tags, at most {MAX_TAGS:,} are read"
        for key, value in tagged.items():
            yield from _text_problems(f"{_show_value(str(where))}: tag {_show_value(key)}", key)
            yield from _text_problems(f"{_show_value(str(where))}: tag {_show_value(key)}", value, 10_000)


def _named_broker_problems(snapshot: ClusterSnapshot, brokers: Collection[int]) -> Iterator[str]:
    lists = ("unanswered_brokers", snapshot.unanswered_brokers), ("min_isr", snapshot.min_isr)
    for what, named in (*lists, ("cordoned", snapshot.cordoned)):
        for number in named:
            if number not in brokers:
                yield f"{what} names broker {number}, which is not among the brokers"
    for number, minimum in snapshot.min_isr.items():
        if not 1 <= minimum <= MAX_MIN_ISR:
            yield f"min_isr of broker {number}: {minimum} is not from 1 to {MAX_MIN_ISR:,}"
    for number, reason in snapshot.cordoned.items():
        yield from _text_problems(f"cordoned: reason of broker {number}", reason, MAX_REASON)


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
            yield f"{where}: log dir {_show_value(directory.path)} is listed twice"
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
    where = f"reassignment of {_show_value(move.topic)}-{move.partition}"
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
        where = f"{_show_value(entry.topic)}-{entry.partition}"
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
    if not _SNAPSHOT_TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        yield f"{_show_value(name)} is not a topic name (letters, digits, '.', '_', '-', at most {MAX_NAME})"


def _text_problems(what: str, text: str, longest: int = MAX_NAME) -> Iterator[str]:
    if len(text) > longest:
        yield f"{what} is longer than {longest} characters"
    elif _UNPRINTABLE.search(text):
        yield f"{what} holds control characters: {_show_value(text)}"


def _size_problems(what: str, size: int | None) -> Iterator[str]:
    if size is not None and not 0 <= size <= MAX_INT64:
        yield (
            f"{what} is {size:.6g}, sizes are from 0 to 2^63 - 1" if abs(size) < 10**300 else f"{what} is out of range"
        )


def _show_value(text: str) -> str:
    return repr(text[:60] + "..." if len(text) > 60 else text)
