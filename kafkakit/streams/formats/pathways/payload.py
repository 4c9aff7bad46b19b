"""What an agent of Datadog takes at `POST /v0.1/pipeline_stats`: buckets as a map of msgpack, compressed with gzip.

Its answer to an agent older than 7.34 is 404. The agent hands the body on without reading it.
"""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from kafkakit.streams.formats.pathways.buckets import BUCKET_MS, Bucket
from kafkakit.streams.formats.pathways.checkpoints import PathwayNode

PATH = "/v0.1/pipeline_stats"
_NS_PER_MS = 1_000_000
_LEVEL = 1  # of gzip, as tracers have it


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadSender:
    """Who sends buckets: the service, and the version of kafkakit; what is empty is left out."""

    node: PathwayNode
    tracer_version: str
    version: str = ""
    hostname: str = ""


def payload_headers(sender: PayloadSender) -> dict[str, str]:
    """The headers that go with `encode_payload`."""
    return {
        "Content-Type": "application/msgpack",
        "Content-Encoding": "gzip",
        "Datadog-Meta-Lang": "python",
        "Datadog-Meta-Tracer-Version": sender.tracer_version,
    }


def encode_payload(sender: PayloadSender, buckets: Iterable[Bucket]) -> bytes:
    """The body: the same bytes for the same buckets, whatever the order in which their points came."""
    known = {"Version": sender.version, "Hostname": sender.hostname}
    body = {
        "Service": sender.node.service,
        "Env": sender.node.env,
        **{name: value for name, value in known.items() if value},
        "Lang": "python",
        "TracerVersion": sender.tracer_version,
        "Stats": [_bucket(bucket) for bucket in buckets],
    }
    return gzip.compress(msgspec.msgpack.encode(body), _LEVEL, mtime=0)


def _bucket(bucket: Bucket) -> dict[str, object]:
    return {
        "Start": bucket.start_ms * _NS_PER_MS,
        "Duration": BUCKET_MS * _NS_PER_MS,
        "Stats": [
            {
                "EdgeTags": tags,
                "Hash": hash_,
                "ParentHash": parent,
                "PathwayLatency": sums.pathway_s.encode(),
                "EdgeLatency": sums.edge_s.encode(),
                "PayloadSize": sums.payload_bytes.encode(),
            }
            for (tags, hash_, parent), sums in sorted(bucket.edges.items(), key=lambda item: item[0])
        ],
        "Backlogs": [{"Tags": tags, "Value": offset} for tags, offset in sorted(bucket.offsets.items())],
    }
