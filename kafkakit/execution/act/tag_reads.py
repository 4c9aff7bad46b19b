"""Reading the tags of brokers and topics out of a control store or kafka-kit's znodes."""

from typing import Protocol

from kafkakit.core.tags import BROKER_TAGS, TAGS_ROOT, TOPIC_TAGS, TagSet, decode_tags
from kafkakit.ports.control import ControlStore


class TagPlaces(Protocol):
    """Where the tags of a cluster may lie; each store is opened on first use."""

    @property
    def control(self) -> ControlStore:
        """The control store of the profile."""
        ...

    @property
    def znodes(self) -> ControlStore:
        """All of ZooKeeper's tree."""
        ...

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        ...


def read_tags(store: ControlStore, root: str = TAGS_ROOT) -> TagSet:
    """All tags below `root`: `<root>/broker/<id>` and `<root>/topic/<name>`, each `{"key": "value"}` as in kafka-kit.

    Raises `InputError` for a record that holds something else, `TryLaterError` where the store does not answer.
    """
    brokers = _kind(store, f"{root}/{BROKER_TAGS}")
    return TagSet(
        brokers={int(name): tags for name, tags in brokers.items() if name.isdecimal() and name.isascii()},
        topics=_kind(store, f"{root}/{TOPIC_TAGS}"),
    )


def _kind(store: ControlStore, folder: str) -> dict[str, dict[str, str]]:
    found = {name: decode_tags(record.value, f"{folder}/{name}") for name, record in store.values(folder).items()}
    return {name: tags for name, tags in found.items() if tags}
