"""Tags of brokers and topics: words that operators attach, `key` to `value`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.core.errors import InputError

TAGS_ROOT = "registry"
BROKER_TAGS = "broker"
TOPIC_TAGS = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagSet:
    """The tags of a cluster, by broker id and by topic name; objects without any are left out."""

    brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def cluster_tags_root(cluster_id: str) -> str:
    """The path above a cluster's tags in a control store; in kafka-kit's znodes it is another one."""
    return f"clusters/{cluster_id}/{TAGS_ROOT}"


def decode_tags(data: bytes, source: str) -> dict[str, str]:
    """The tags of one object, sorted by key, from its record; `InputError` where it holds something else."""
    try:
        found = json.loads(data)
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair cannot be written again
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InputError(source, "holds no tags", hint='a JSON object of texts, such as {"team":"a"}')
    return dict(sorted(found.items()))
