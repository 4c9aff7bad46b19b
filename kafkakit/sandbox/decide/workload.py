"""What `sandbox load` makes, and the demo's cluster, topics and commands, with what it found, as values.

Topics are of very different sizes, unevenly spread, and equal for equal seeds.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import parse_size
from kafkakit.sandbox.decide.spec import ClientSecurity, MetadataMode

CHUNK_BYTES = 64 * 1024
MAX_TOPICS = 1000
MAX_PARTITIONS = 1000
MAX_DATA = 2**40
_BLOCK_BYTES = 1 << 20

_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """How many topics, partitions a topic, and bytes in all (one copy; replicas come on top)."""

    topics: int
    partitions: int
    data_bytes: int
    seed: int
    replication: int
    prefix: str = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoad:
    """One topic to make: its replica lists and bytes of values by partition number."""

    name: str
    assignments: Mapping[int, tuple[int, ...]]
    partition_bytes: tuple[int, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of values in the topic, one copy."""
        return sum(self.partition_bytes)


def build_request(
    *, topics: int, partitions: int, data: str, seed: int, replication: int | None, brokers: int, prefix: str
) -> LoadRequest:
    """Check a request against the sandbox; the replication factor is 3, or the number of brokers if that is less."""
    factor = min(3, brokers) if replication is None else replication
    for label, value, most in (
        ("--topics", topics, MAX_TOPICS),
        ("--partitions", partitions, MAX_PARTITIONS),
        ("--replication", factor, brokers),
    ):
        if not 1 <= value <= most:
            raise UsageError(f"{label} {value} is out of range", hint=f"use 1 to {most}")
    data_bytes = parse_size(data)
    if data_bytes > MAX_DATA:
        raise UsageError(f"{data.strip()} is more than a sandbox takes", hint="use at most 1TiB")
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f"--prefix {prefix!r:.60} cannot begin a topic's name")
    return LoadRequest(
        topics=topics,
        partitions=partitions,
        data_bytes=data_bytes,
        seed=seed,
        replication=factor,
        prefix=prefix,
    )


class Dice:
    """Reproducible randomness: the SplitMix64 sequence of a seed (Steele, Lea, Flood 2014)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & (2**64 - 1)

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; the bias is below limit / 2**64."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return ((z ^ (z >> 31)) * limit) >> 64

    def shuffled(self, items: Sequence[int]) -> list[int]:
        """The items in random order (Fisher-Yates)."""
        result = list(items)
        for last in range(len(result) - 1, 0, -1):
            other = self.below(last + 1)
            result[last], result[other] = result[other], result[last]
        return result

    def weighted(self, weights: Mapping[int, int]) -> int:
        """A key, with a chance in proportion to its weight."""
        draw = self.below(sum(weights.values()))
        for key, weight in weights.items():
            draw -= weight
            if draw < 0:
                return key
        raise ValueError("weights must be positive")


def split_bytes(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Share `total` in proportion to the weights; the parts add up to it exactly."""
    whole, shared, so_far = sum(weights), 0, 0
    parts = []
    for weight in weights:
        so_far += weight
        edge = total * so_far // whole
        parts.append(edge - shared)
        shared = edge
    return tuple(parts)


def plan_load(request: LoadRequest, racks: Mapping[int, str]) -> tuple[TopicLoad, ...]:
    """Decide names, sizes and replica lists; `racks` gives the rack of each broker.

    Topic sizes follow Zipf's law in random order; inside a topic a partition has half to one and a half
    times the mean. Replicas of a partition are in different racks while racks last, and some brokers
    get up to three times as much as others, so that there is something to rebalance.
    """
    dice = Dice(request.seed)
    ranks = dice.shuffled(range(1, request.topics + 1))
    sizes = split_bytes(request.data_bytes, [10**6 // rank for rank in ranks])
    liking = {broker: 2 + dice.below(5) for broker in sorted(racks)}
    width = max(3, len(str(request.topics - 1)))
    loads = []
    for number, size in enumerate(sizes):
        shares = [50 + dice.below(101) for _ in range(request.partitions)]
        loads.append(
            TopicLoad(
                name=f"{request.prefix}-{number:0{width}d}",
                assignments={p: _replicas(dice, racks, liking, request.replication) for p in range(request.partitions)},
                partition_bytes=split_bytes(size, shares),
            )
        )
    return tuple(loads)


def _replicas(dice: Dice, racks: Mapping[int, str], liking: Mapping[int, int], factor: int) -> tuple[int, ...]:
    chosen: list[int] = []
    while len(chosen) < factor:
        used = {racks[broker] for broker in chosen} if len(chosen) < len(set(racks.values())) else set()
        open_to = {b: weight for b, weight in liking.items() if b not in chosen and racks[b] not in used}
        chosen.append(dice.weighted(open_to))
    return tuple(chosen)


def chunk_sizes(total: int) -> Iterator[int]:
    """The sizes of the values that make up `total` bytes: full chunks, then the rest."""
    for _ in range(total // CHUNK_BYTES):
        yield CHUNK_BYTES
    if total % CHUNK_BYTES:
        yield total % CHUNK_BYTES


def filler(seed: int) -> bytes:
    """A block of bytes that does not compress; values are slices of it."""
    return hashlib.shake_256(f"kafkakit {seed}".encode()).digest(_BLOCK_BYTES + CHUNK_BYTES)


def chunk(block: bytes, number: int, size: int) -> bytes:
    """Value number `number`: neighbours differ, so that nothing can be packed by repetition within a batch."""
    start = number * 7919 % (len(block) - CHUNK_BYTES)
    return block[start : start + size]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTally:
    """Records by sequence number: `repeated` were read more than once, `lost` acknowledged but never read."""

    acknowledged: int
    read: int
    repeated: int
    lost: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """True when nothing acknowledged was lost."""
        return not self.lost


def tally(acknowledged: Iterable[int], read: Iterable[int]) -> RecordTally:
    """Compare what producers were told with what consumers saw; O(records)."""
    confirmed = set(acknowledged)
    seen: set[int] = set()
    repeated = count = 0
    for number in read:
        count += 1
        repeated += number in seen
        seen.add(number)
    return RecordTally(acknowledged=len(confirmed), read=count, repeated=repeated, lost=tuple(sorted(confirmed - seen)))


DEAD, NEW = 1004, 1007
SURVIVORS = (1001, 1002, 1003, 1005, 1006)
PARTITIONS = 12
_RACKS = ((1001, 1004), (1002, 1005), (1003, 1006))
_TOPICS, _TOPIC_PARTITIONS = 6, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRequest:
    """What to show: the sandbox's name and shape, the bytes to load and the throttle of the moves."""

    name: str
    mode: MetadataMode
    secure: ClientSecurity
    data: str
    throttle: str

    def up(self, brokers: int) -> list[str]:
        """The command that starts the sandbox, or grows it."""
        shape = ["--racks", "3", "--log-dirs", "2", "--mode", self.mode, "--secure", self.secure, "--name", self.name]
        return ["sandbox", "up", "--brokers", str(brokers), *shape]

    def load(self) -> list[str]:
        """The command that makes topics and fills them."""
        size = ["--topics", str(_TOPICS), "--partitions", str(_TOPIC_PARTITIONS), "--data", self.data, "--seed", "7"]
        return ["sandbox", "load", *size, "--name", self.name]

    def plan(self, folder: str, plan_file: str) -> list[str]:
        """The command that plans the dead broker's replacement."""
        brokers = ",".join(map(str, (*SURVIVORS, NEW)))
        words = ["topicmappr", "rebuild", "--topics", ".*", "--brokers", brokers, "--skip-no-ops"]
        return ["--profile", self.name, *words, "--out-path", folder, "--plan", plan_file]

    def apply(self, plan_file: str) -> list[str]:
        """The command that carries the plan out."""
        return ["--profile", self.name, "reassign", "apply", plan_file, "--yes", "--throttle", self.throttle]

    def verify(self, plan_file: str) -> list[str]:
        """The command that compares the cluster with the plan."""
        return ["--profile", self.name, "reassign", "verify", plan_file]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """The traffic's records, how many records the loaded topics held before and after, and how long it took."""

    traffic: RecordTally
    loaded_before: int
    loaded_after: int
    seconds: float


def loaded_partitions() -> list[TopicPartition]:
    """The partitions that `sandbox load` fills."""
    return [TopicPartition(f"load-{t:03d}", p) for t in range(_TOPICS) for p in range(_TOPIC_PARTITIONS)]


def traffic_replicas() -> dict[int, tuple[int, ...]]:
    """Replica lists of the traffic's topic: one replica in each rack; every broker leads two partitions."""
    return {n: tuple(_RACKS[(n + k) % 3][(n // 3) % 2] for k in range(3)) for n in range(PARTITIONS)}


def demo_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without addresses and options meant for other clusters, which would win over the profile."""
    kept = "KAFKAKIT_STATE_DIR"
    return {k: v for k, v in environment.items() if k == kept or not k.startswith(("KAFKAKIT_", "TOPICMAPPR_"))}
