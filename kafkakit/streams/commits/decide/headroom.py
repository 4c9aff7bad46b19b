"""How much of `offset.metadata.max.bytes` the commits of groups use, and where brokers disagree on it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkakit.streams.model.dialects.dialect import KAFKA_LIMIT, CommitFacts

LIMIT_KEY = "offset.metadata.max.bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limit of each broker that told it, and the strictest: the one to keep, since any broker may coordinate.

    `unknown` are brokers that did not answer. `strictest` is Kafka's default where none did, and `is_known` False.
    """

    of_broker: Mapping[int, int]
    unknown: tuple[int, ...] = ()

    @property
    def is_known(self) -> bool:
        """True when at least one broker told its limit."""
        return bool(self.of_broker)

    @property
    def strictest(self) -> int:
        """The lowest limit, in UTF-16 units."""
        return min(self.of_broker.values(), default=KAFKA_LIMIT)

    @property
    def is_mixed(self) -> bool:
        """True when brokers have different limits, so that a commit's fate depends on the coordinator."""
        return len(set(self.of_broker.values())) > 1


def read_limits(answers: Mapping[int, Mapping[str, str]], brokers: Iterable[int]) -> Limits:
    """The limits out of the brokers' settings; a value that is no number counts as not told."""
    reported: dict[int, int] = {}
    for broker in sorted(answers):
        value = answers[broker].get(LIMIT_KEY, "")
        if value.isascii() and value.isdecimal() and len(value) < 12:
            reported[broker] = int(value)
    return Limits(of_broker=reported, unknown=tuple(sorted(set(brokers) - reported.keys())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """One group's use of the limit: its fullest commit, and how many commits it has that carry metadata."""

    group: str
    partitions: int
    with_metadata: int
    fullest: CommitFacts | None
    limit_chars: int

    @property
    def fill(self) -> float:
        """The share of the limit that the fullest commit uses."""
        return 0.0 if self.fullest is None else self.fullest.fill

    @property
    def free_chars(self) -> int:
        """How many characters the fullest commit could still grow by; below 0 when it is over."""
        return self.limit_chars - (0 if self.fullest is None else self.fullest.chars)


def headroom_of(group: str, commits: Iterable[CommitFacts], limit_chars: int) -> Headroom:
    """Sum one group up."""
    found = list(commits)
    fullest = max(found, key=lambda facts: facts.chars, default=None)
    return Headroom(
        group=group,
        partitions=len(found),
        with_metadata=sum(1 for facts in found if facts.chars),
        fullest=fullest,
        limit_chars=limit_chars,
    )


def by_fullness(groups: Iterable[Headroom]) -> tuple[Headroom, ...]:
    """The fullest group first, equal ones by name."""
    return tuple(sorted(groups, key=lambda headroom: (-headroom.fill, headroom.group)))
