"""Writes kafka-kit's two metrics znodes as its metricsfetcher does."""

import zlib
from collections.abc import Mapping

from kafkakit.core.documents import encode_json
from kafkakit.core.model import TopicPartition

_GZIP_WINDOW = 31  # zlib's word for a gzip member with the largest window


def encode_partition_sizes(sizes: Mapping[TopicPartition, int], *, compress: bool = True) -> bytes:
    """Write a `partitionmeta` znode the way kafka-kit does: compact JSON, keys sorted as text, gzip if asked."""
    topics: dict[str, dict[str, object]] = {}
    for key in sorted(sizes, key=lambda k: (k.topic, str(k.partition))):
        topics.setdefault(key.topic, {})[str(key.partition)] = {"Size": sizes[key]}
    return _packed(topics, compress)


def encode_broker_storage(free: Mapping[int, int], *, compress: bool = True) -> bytes:
    """Write a `brokermetrics` znode the way kafka-kit does."""
    return _packed({str(b): {"StorageFree": free[b]} for b in sorted(free, key=str)}, compress)


def _packed(value: object, compress: bool) -> bytes:
    text = encode_json(value).rstrip(b"\n")
    if not compress:
        return text
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)  # no time stamp in the header: same input, same bytes
    return packer.compress(text) + packer.flush()
