"""Topics and brokers as the registry's replies give them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import InputError
from kafkakit.registry.decide.tags import Tags

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaList:
    """The brokers of a partition, the preferred leader first."""

    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """A topic with its tags; `replicas` by partition only where they were asked for."""

    name: str
    partitions: int = 0
    replication: int = 0
    tags: Tags = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[int, ReplicaList] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEntry:
    """A live broker with its tags."""

    id: int
    host: str = ""
    port: int = 0
    rack: str = ""
    interbrokerprotocolversion: str = ""
    logmessageformat: str = ""
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPair:
    """An offset in the upstream cluster and the one that stands for it here; 64-bit numbers are texts in JSON."""

    upstreamOffset: int = 0  # noqa: N815 - the name in the reply
    localOffset: int = 0  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntries:
    """TopicResponse."""

    topics: Mapping[str, TopicEntry] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEntries:
    """BrokerResponse."""

    brokers: Mapping[int, BrokerEntry] = field(default_factory=dict)
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntries:
    """TranslateOffsetResponse."""

    offsets: Mapping[str, OffsetPair] = field(default_factory=dict)


def decoded_reply(data: bytes, shape: type[T]) -> T:
    """A reply as a value; `InputError` for what is none."""
    try:
        return decoded_json(data, shape, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("the registry", f"gives an answer that is none of its own: {str(error)[:200]}") from None
