"""Sizes of copies as looks found them one after another, and how fast each grew."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.model import TopicPartition, TopicPartitionReplica

MAX_SAMPLES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one look found, at `at_s` of a monotonic clock: bytes of each copy that a broker told of.

    `landed_bytes` are all that came since the first look, in copies that arrived and were finished meanwhile, too.
    """

    at_s: float
    bytes_of: Mapping[TopicPartitionReplica, int]
    landed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a copy did: from `first_bytes` to `last_bytes` in `seconds`; it has not grown for `quiet_s`, maybe longer."""

    first_bytes: int
    last_bytes: int
    seconds: float
    quiet_s: float

    @property
    def bytes_per_s(self) -> float:
        """The mean rate."""
        return (self.last_bytes - self.first_bytes) / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The samples kept, oldest first, and since when each copy has the size that it has now."""

    samples: tuple[Sample, ...] = ()
    still_since_s: Mapping[TopicPartitionReplica, float] = field(default_factory=dict)


def sizes_in(dirs: Mapping[int, BrokerLogDirs], keys: Iterable[TopicPartition]) -> dict[TopicPartitionReplica, int]:
    """The bytes of every copy of the partitions that the brokers show."""
    wanted = sorted(set(keys))
    return {
        TopicPartitionReplica(k.topic, k.partition, broker): answer.replicas[k].size_bytes
        for broker, answer in sorted(dirs.items())
        for k in wanted
        if k in answer.replicas
    }


def remember(history: History, sample: Sample, window_s: float) -> History:
    """Add a sample; those are kept that the last `window_s` seconds need, one older one included, 64 at most.

    Copies arrive in lumps under a throttle, so a rate is taken over the whole window and never over two looks.
    """
    kept = [*history.samples, sample]
    while len(kept) > 2 and sample.at_s - kept[1].at_s >= window_s:
        kept.pop(0)
    if len(kept) > MAX_SAMPLES:
        del kept[1]  # the oldest one says how long, the newest ones how lately
    before = history.samples[-1].bytes_of if history.samples else {}
    still = {
        copy: history.still_since_s[copy] if before.get(copy) == size else sample.at_s
        for copy, size in sample.bytes_of.items()
    }
    return History(samples=tuple(kept), still_since_s=still)


def window_of(history: History) -> float:
    """The seconds that the samples span."""
    samples = history.samples
    return samples[-1].at_s - samples[0].at_s if samples else 0.0


def landing_rate(history: History) -> float | None:
    """Bytes/s that came into new copies over the window, finished ones too; None before there are two looks."""
    seconds = window_of(history)
    return (history.samples[-1].landed_bytes - history.samples[0].landed_bytes) / seconds if seconds > 0 else None


def growth_of(history: History, copy: TopicPartitionReplica) -> Growth | None:
    """How a copy grew over the samples; None where fewer than two in a row have it.

    A copy that shrank was begun again (a truncation, another log dir): what was before does not count.
    """
    run: list[tuple[float, int]] = []
    for sample in reversed(history.samples):
        size = sample.bytes_of.get(copy)
        if size is None or (run and size > run[-1][1]):
            break
        run.append((sample.at_s, size))
    if len(run) < 2:
        return None
    (last_s, last), (first_s, first) = run[0], run[-1]
    if last_s <= first_s:
        return None
    quiet_s = last_s - history.still_since_s[copy]
    return Growth(first_bytes=first, last_bytes=last, seconds=last_s - first_s, quiet_s=quiet_s)
