"""Copies that change their log dir inside a broker: what is left to do, and where each stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.execution.decide.precheck import Live, listed

Dirs = Mapping[int, BrokerLogDirs]
Sent = Mapping[TopicPartitionReplica, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirWork:
    """One copy that belongs into `target` and came from `source`; `sent` are dirs that a run of ours took it to."""

    replica: TopicPartitionReplica
    source: str
    target: str
    size_bytes: int = 0
    sent: tuple[str, ...] = ()

    @property
    def key(self) -> TopicPartition:
        """The partition's name."""
        return TopicPartition(self.replica.topic, self.replica.partition)

    def __str__(self) -> str:
        return f"{self.key} on broker {self.replica.broker} to {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirLook:
    """One observation: work that is done, on its way, not begun, or cannot be done (with the reason).

    Bytes are those copied and to copy in all, of what can be done.
    """

    done: tuple[DirWork, ...] = ()
    moving: tuple[DirWork, ...] = ()
    idle: tuple[DirWork, ...] = ()
    lost: Mapping[DirWork, str] = field(default_factory=dict)
    copied_bytes: int = 0
    total_bytes: int = 0


def dir_work(plan: Plan, live: Live, *, undone: bool = False, sent: Sent | None = None) -> tuple[DirWork, ...]:
    """The plan's moves inside brokers, or the way back; copies of topics that are gone have no share.

    `sent` are the dirs that a run of ours took copies to on their way, as its journal has them.
    """
    ids = {e.topic: e.topic_id for e in plan.scope}
    found = []
    for m in plan.dir_moves:
        state = live.states.get(TopicPartition(m.topic, m.partition))
        planned_id = ids.get(m.topic)
        if state is None or (planned_id and state.topic_id and planned_id != state.topic_id):
            continue
        source, target = (m.target_dir, m.source_dir) if undone else (m.source_dir, m.target_dir)
        replica = TopicPartitionReplica(m.topic, m.partition, m.broker)
        ours = sent.get(replica, ()) if sent else ()
        found.append(DirWork(replica=replica, source=source, target=target, size_bytes=m.size_bytes or 0, sent=ours))
    return tuple(found)


def look_at_dirs(work: Sequence[DirWork], dirs: Dirs) -> DirLook:
    """Say where each copy stands; one that another process took to a third dir is left alone."""
    done: list[DirWork] = []
    moving: list[DirWork] = []
    idle: list[DirWork] = []
    lost: dict[DirWork, str] = {}
    copied = total = 0
    for item in work:
        reason = _obstacle(item, dirs)
        if reason is not None:
            lost[item] = reason
            continue
        answer = dirs[item.replica.broker]
        size = answer.replicas[item.key].size_bytes
        future = answer.futures.get(item.key)
        total += size
        if answer.replicas[item.key].log_dir == item.target and future is None:
            done.append(item)
            copied += size
        elif future is not None and future.log_dir == item.target:
            moving.append(item)
            copied += min(size, future.size_bytes)
        else:
            idle.append(item)
    return DirLook(
        done=tuple(done),
        moving=tuple(moving),
        idle=tuple(idle),
        lost=lost,
        copied_bytes=copied,
        total_bytes=total,
    )


def _obstacle(item: DirWork, dirs: Dirs) -> str | None:
    answer = dirs.get(item.replica.broker)
    if answer is None or answer.error:
        return f"broker {item.replica.broker} does not report its log dirs"
    target = next((d for d in answer.log_dirs if d.path == item.target), None)
    if target is None:
        return f"broker {item.replica.broker} has no log dir {item.target}"
    copy = answer.replicas.get(item.key)
    if target.error is not None:
        return f"log dir {item.target} of broker {item.replica.broker} is offline"
    if copy is None:
        return f"broker {item.replica.broker} shows no copy"
    future = answer.futures.get(item.key)
    if target.cordoned and copy.log_dir != item.target and (future is None or future.log_dir != item.target):
        return f"log dir {item.target} of broker {item.replica.broker} is cordoned"
    if copy.log_dir not in (item.source, item.target, *item.sent):
        return f"the copy is in {copy.log_dir}, moved by another process"
    return None


def on_the_way(sent: Sent, dirs: Dirs) -> dict[TopicPartitionReplica, str]:
    """Copies on their way to a dir that a run of ours named, each with the dir that it is in until it arrives."""
    found: dict[TopicPartitionReplica, str] = {}
    for replica in sorted(sent):
        key = TopicPartition(replica.topic, replica.partition)
        answer = dirs.get(replica.broker)
        future, copy = (answer.futures.get(key), answer.replicas.get(key)) if answer else (None, None)
        if future is not None and copy is not None and future.log_dir in sent[replica]:
            found[replica] = copy.log_dir
    return found


def halfway(work: Sequence[DirWork], dirs: Dirs) -> tuple[DirWork, ...]:
    """Work whose copy is in neither of its two dirs, but in one that a run of ours took it to on its way."""
    found = []
    for item in work:
        answer = dirs.get(item.replica.broker)
        copy = answer.replicas.get(item.key) if answer else None
        if copy is not None and copy.log_dir in item.sent and copy.log_dir not in (item.source, item.target):
            found.append(item)
    return tuple(found)


def usable_bytes_of(dirs: Dirs, broker: int, path: str) -> int | None:
    """The usable bytes of a log dir; None when they are not told."""
    answer = dirs.get(broker)
    found = next((d for d in answer.log_dirs if d.path == path), None) if answer else None
    return found.usable_bytes if found else None


def is_cordoned(dirs: Dirs, broker: int, path: str) -> bool:
    """True when the broker says that the log dir takes no new copies."""
    answer = dirs.get(broker)
    return answer is not None and any(d.path == path and d.cordoned for d in answer.log_dirs)


def dir_problems(seen: DirLook) -> list[str]:
    """What keeps copies from their dirs, one sentence a kind."""
    groups: dict[str, list[str]] = {}
    for item, reason in seen.lost.items():
        groups.setdefault(reason, []).append(str(item))
    lines = [f"not moved between log dirs: {listed(names)}: {reason}" for reason, names in sorted(groups.items())]
    waiting = [str(w) for w in (*seen.moving, *seen.idle)]
    if waiting:
        lines.append(f"{counted(len(waiting), 'copy', 'copies')} not in the planned log dir yet: {listed(waiting)}")
    return lines


def dir_words(work: Sequence[DirWork]) -> str:
    """What is to be done inside brokers, in one line."""
    total = sum(w.size_bytes for w in work)
    return f"inside brokers: {counted(len(work), 'copy', 'copies')} to move between log dirs, {format_bytes(total)}"
