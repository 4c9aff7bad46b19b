"""Edges between streams that the hashes of pathways prove: which service read the one and wrote the other.

A hash cannot be taken apart. But a hash that was seen in one stream, with a service and a group, gives the hash that
this service's records have in any other stream; where it was seen there, the edge is certain (FNV-1 of 64 bits). So
services must be named, and those whose tracers hash other tags (Java, Go) are not found.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from kafkakit.streams.model.pathways import consume_tags, node_hash, pathway_hash, produce_tags

MOST_HASHES = 200
"""Of a stream, those with the most records, from which edges are followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStream:
    """A stream: its topics by cluster id, the groups that read it, and how many records have which hash."""

    name: str
    topics: tuple[tuple[str, str], ...]
    groups: tuple[str, ...]
    hashes: Mapping[int, int]

    @property
    def tag_names(self) -> Iterator[tuple[str, str]]:
        """Topic and cluster id as tracers may name them: the stream alone, or a topic with its cluster or without."""
        yield self.name, ""
        for cluster_id, topic in self.topics:
            yield from ((topic, ""), (topic, cluster_id))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SeenEdge:
    """Records of stream `target` that a service made: out of `source`, read by `group`; both "" where they begin."""

    source: str
    group: str
    service: str
    target: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEdges:
    """The edges, sorted, and how many records of each stream have a pathway that none of them leads to."""

    edges: tuple[SeenEdge, ...]
    unexplained: Mapping[str, int]


def seen_edges(streams: Collection[SeenStream], services: Collection[str], env: str) -> SeenEdges:
    """The edges that are certain; groups count as names of services too.

    Cost: 4 us for each hash, group, service and stream that it may lead to.
    """
    found: dict[tuple[str, str, str, str], set[int]] = {}
    for stream in streams:
        for service in services:
            for hash_, target in _outs(0, service, env, streams):
                found.setdefault(("", "", service, target.name), set()).add(hash_)
        most = islice(sorted(stream.hashes, key=lambda hash_: (-stream.hashes[hash_], hash_)), MOST_HASHES)
        for hash_ in most:
            for group in stream.groups:
                for service in dict.fromkeys((*services, group)):
                    for out, target in _ways(stream, group, service, env, hash_, streams):
                        found.setdefault((stream.name, group, service, target.name), set()).add(out)
    by_name = {stream.name: stream for stream in streams}
    edges = [
        SeenEdge(source=s, group=g, service=v, target=t, records=sum(by_name[t].hashes[hash_] for hash_ in hashes))
        for (s, g, v, t), hashes in found.items()
    ]
    known: dict[str, set[int]] = {}
    for (*_, target_name), hashes in found.items():
        known.setdefault(target_name, set()).update(hashes)
    left = {
        stream.name: sum(count for hash_, count in stream.hashes.items() if hash_ not in known.get(stream.name, ()))
        for stream in streams
    }
    return SeenEdges(edges=tuple(sorted(edges)), unexplained=left)


def _ways(
    stream: SeenStream, group: str, service: str, env: str, hash_: int, streams: Collection[SeenStream]
) -> Iterator[tuple[int, SeenStream]]:
    for topic, cluster_id in stream.tag_names:
        read = pathway_hash(node_hash(service, env, consume_tags(topic, group, cluster_id)), hash_)
        yield from _outs(read, service, env, streams)


def _outs(parent: int, service: str, env: str, streams: Collection[SeenStream]) -> Iterator[tuple[int, SeenStream]]:
    """Hashes that were seen, and where, of records that a service makes after `parent`."""
    for target in streams:
        for topic, cluster_id in target.tag_names:
            made = pathway_hash(node_hash(service, env, produce_tags(topic, cluster_id)), parent)
            if made in target.hashes:
                yield made, target
