"""Whose KKM1 payload it is: its checksum tried against everything that is known, without trying every combination.

The bind is CRC-32C over cluster, topic id, partition, group, first byte and body, in this order. A checksum runs
backwards as well as forwards: what its state must have been before the group's name is computed once for each group,
what it is behind the partition once for each partition, and equal states are owners. So P partitions and G groups cost
P + G, not P x G. Of `c` combinations about `c / 2**32` fit by chance.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.crc32c import crc32c

MAX_PARTITIONS = 2_000_000
"""Partitions that one search tries; with as many groups as it tries, that takes some three seconds."""
MAX_GROUPS = 200_000
"""Groups that one search tries."""
MAX_OWNERS = 100
"""Owners that one search gives."""
_MASK = 0xFFFFFFFF
_TABLE = tuple(crc32c(bytes([byte]), _MASK) ^ _MASK for byte in range(256))
_BY_TOP = {entry >> 24: index for index, entry in enumerate(_TABLE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A topic that may be the owner's, with the number of its partitions; `topic_id` has 16 bytes."""

    cluster_id: str
    topic: str
    topic_id: bytes
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadOwner:
    """An identity that the checksum fits, and the name of its topic."""

    identity: CommitIdentity
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSearch:
    """Who fits, in the order of the topics and groups given, and how much was tried.

    `is_complete` is False when a limit cut the search short; `by_chance` is how many owners to expect of chance alone.
    """

    owners: tuple[PayloadOwner, ...]
    partitions: int
    groups: int
    is_complete: bool

    @property
    def by_chance(self) -> float:
        """Owners that a payload of an unknown writer would be given by chance."""
        return self.partitions * self.groups / 2**32


def find_owners(bind: int, signed: bytes, topics: Iterable[KnownTopic], groups: Iterable[str]) -> OwnerSearch:
    """Every known identity that a payload is bound to: its checksum is `bind`, which covers `signed` and the identity.

    Cost: linear in groups plus partitions, of which `MAX_GROUPS` and `MAX_PARTITIONS` are tried and no more.
    """
    behind_group = _unwound(bind ^ _MASK, signed)
    wanted: dict[int, list[str]] = {}
    tried_groups = tried_partitions = 0
    is_complete = True
    for group in groups:
        if tried_groups == MAX_GROUPS:
            is_complete = False
            break
        tried_groups += 1
        state = _unwound(behind_group, group.encode("utf-8", "surrogatepass") + b"\0")
        wanted.setdefault(state, []).append(group)
    owners: list[PayloadOwner] = []
    for number, topic in enumerate(topics):
        count = min(topic.partitions, MAX_PARTITIONS - tried_partitions)
        tried_partitions += count
        for partition, state in _states(topic, count):
            owners += (_owner(topic, partition, group) for group in wanted.get(state, ()))
        if count < topic.partitions or number == MAX_PARTITIONS:
            is_complete = False
            break
    return OwnerSearch(
        owners=tuple(owners[:MAX_OWNERS]),
        partitions=tried_partitions,
        groups=tried_groups,
        is_complete=is_complete,
    )


def _states(topic: KnownTopic, count: int) -> Iterator[tuple[int, int]]:
    """Each partition and the checksum's state behind its four bytes; the first three are the same for 256 of them."""
    before = _wound(_MASK, topic.cluster_id.encode("utf-8", "surrogatepass") + b"\0" + topic.topic_id)
    for high in range((count + 255) >> 8):
        state = _wound(before, high.to_bytes(3, "big"))
        rest = state >> 8
        for low in range(min(256, count - (high << 8))):
            yield (high << 8) + low, _TABLE[(state ^ low) & 0xFF] ^ rest


def _owner(topic: KnownTopic, partition: int, group: str) -> PayloadOwner:
    identity = CommitIdentity(cluster_id=topic.cluster_id, topic_id=topic.topic_id, partition=partition, group=group)
    return PayloadOwner(identity=identity, topic=topic.topic)


def _wound(state: int, data: bytes) -> int:
    """The checksum's state after these bytes; the first state is all ones, and a checksum is a state inverted."""
    return crc32c(data, state ^ _MASK) ^ _MASK


def _unwound(state: int, data: bytes) -> int:
    """The state before these bytes. The table's top bytes are all different, so the last step is known from the
    state's top byte alone."""
    for byte in reversed(data):
        index = _BY_TOP[state >> 24]
        state = ((state ^ _TABLE[index]) << 8 | (index ^ byte)) & _MASK
    return state
