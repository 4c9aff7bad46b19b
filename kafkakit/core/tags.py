"""Tags of brokers and topics: words that operators attach, `key` to `value`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

TAGS_ROOT = "registry"
BROKER_TAGS = "broker"
TOPIC_TAGS = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagSet:
    """The tags of a cluster, by broker id and by topic name; objects without any are left out."""

    brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
