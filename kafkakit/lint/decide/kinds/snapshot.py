"""The kit's own `cluster-snapshot`: a live cluster at one time, with partitions, sizes and running moves.

It is decoded with its schema and not as a located tree, for it may hold a million replicas; places of topics are found
in the text in one pass.
"""

import json
import re
from collections.abc import Iterator

from kafkakit.core.documents import decode_snapshot
from kafkakit.core.errors import InputError
from kafkakit.core.findings import Place
from kafkakit.core.model import Broker, ClusterSnapshot, Topic
from kafkakit.lint.decide.documents.tree import UNPARSABLE, Document, Node
from kafkakit.lint.decide.kinds.kind import Kind
from kafkakit.lint.decide.kinds.secrets import without_secret
from kafkakit.lint.decide.pieces import BrokerPiece, ClusterPiece, FileProblem, Pieces, TopicPiece
from kafkakit.rules.effective import Declared, Source
from kafkakit.rules.subjects import LogDirFacts, PartitionFacts

_MOST_MISSES = 100
"""After so many members that were not found, the text is written in another way and is not searched any more."""
_HEADER = re.compile(r'\s*\{\s*"kafkakit"\s*:\s*\{[^{}]{0,200}"kind"\s*:\s*"cluster-snapshot"')


def is_snapshot(text: str) -> bool:
    """True for the text of a `cluster-snapshot` file."""
    return _HEADER.match(text) is not None


def _read(document: Document, roots: tuple[Node, ...]) -> Pieces:
    del roots
    try:
        snapshot = decode_snapshot(document.text.encode("utf-8", "surrogatepass"), document.path)
    except InputError as error:
        problem = FileProblem(rule=UNPARSABLE, message=error.problem, place=Place(document.path, 1))
        return Pieces(problems=(problem,))
    name = snapshot.cluster_id
    return Pieces(
        clusters=(
            ClusterPiece(
                place=Place(document.path, 1),
                name=name,
                is_name_an_id=True,
                version=snapshot.kafka_version,
                moves_running=bool(snapshot.reassignments),
                is_live=True,
            ),
        ),
        brokers=tuple(_broker(broker, name, document) for broker in snapshot.brokers),
        topics=tuple(_topics(snapshot, document)),
    )


def _broker(broker: Broker, cluster: str, document: Document) -> BrokerPiece:
    return BrokerPiece(
        place=Place(document.path, 1),
        cluster=cluster,
        id=broker.id,
        rack=broker.rack,
        log_dirs=tuple(
            LogDirFacts(path=part.path, total_bytes=part.total_bytes, usable_bytes=part.usable_bytes)
            for part in broker.log_dirs
        ),
        is_alive=broker.is_alive,
        is_known=False,
    )


def _topics(snapshot: ClusterSnapshot, document: Document) -> Iterator[TopicPiece]:
    finder = _Finder(document)
    finder.skip_to('"topics"')
    for topic in snapshot.topics:
        place = finder.place("name", topic.name)
        counts = {len(p.replicas) - len(p.removing) for p in topic.partitions}
        yield TopicPiece(
            name=topic.name,
            place=place,
            cluster=snapshot.cluster_id,
            configs={
                key: Declared(without_secret(key, text), Source.TOPIC, finder.place(key, text))
                for key, text in topic.configs.items()
            },
            partitions=len(topic.partitions) or None,
            replication_factor=min(counts) if counts else None,
            partition_facts=_partitions(topic),
        )


def _partitions(topic: Topic) -> tuple[PartitionFacts, ...]:
    return tuple(
        PartitionFacts(
            partition=p.partition,
            replicas=tuple(broker for broker in p.replicas if broker not in p.removing),
            isr=p.isr,
            leader=-1 if p.leader is None and p.isr is not None else p.leader,
            replica_bytes=p.replica_bytes
            or (dict.fromkeys(p.replicas, p.size_bytes) if p.size_bytes is not None else {}),
        )
        for p in topic.partitions
    )


class _Finder:
    """Finds members of objects in the order in which they stand; linear over all of them together."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._at = 0
        self._misses = 0
        self._colon = ": " if '"topics": ' in document.text else ":"

    def skip_to(self, text: str) -> None:
        self._at = max(self._document.text.find(text), 0)

    def place(self, key: str, value: str) -> Place:
        """Where a member begins; the place of the one before where it cannot be found."""
        if self._misses > _MOST_MISSES:
            return Place(self._document.path, 1)
        wanted = f"{json.dumps(key, ensure_ascii=False)}{self._colon}{json.dumps(value, ensure_ascii=False)}"
        found = self._document.text.find(wanted, self._at)
        if found >= 0:
            self._at = found
        else:
            self._misses += 1
        return self._document.place(self._at)


KIND = Kind(
    name="cluster-snapshot",
    about="a cluster-snapshot that kafkakit has taken",
    formats=("json",),
    recognise=lambda root: False,
    read=_read,
)
