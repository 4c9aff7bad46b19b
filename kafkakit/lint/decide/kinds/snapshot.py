"""The kit's own `cluster-snapshot`: a live cluster at one time, with partitions, sizes and running moves.

It is decoded with its schema and not as a located tree, for it may hold a million replicas; places of topics are found
in the text in one pass.
"""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkakit.core.errors import InputError
from kafkakit.core.findings import Place
from kafkakit.lint.decide.documents.tree import UNPARSABLE, Document, Node
from kafkakit.lint.decide.kinds.kind import Kind
from kafkakit.lint.decide.kinds.values import without_secret
from kafkakit.lint.decide.pieces import ClusterPiece, FileProblem, Pieces, TopicPiece
from kafkakit.lint.decide.seen_cluster import seen_broker, seen_partitions, seen_replication
from kafkakit.rules.effective import Declared, Source

if TYPE_CHECKING:
    from kafkakit.core.model import ClusterSnapshot

_MOST_MISSES = 100
"""After so many members that were not found, the text is written in another way and is not searched any more."""
_HEADER = re.compile(r'\s*\{\s*"kafkakit"\s*:\s*\{[^{}]{0,200}"kind"\s*:\s*"cluster-snapshot"')


def is_snapshot(text: str) -> bool:
    """True for the text of a `cluster-snapshot` file."""
    return _HEADER.match(text) is not None


def _read(document: Document, roots: tuple[Node, ...]) -> Pieces:
    from kafkakit.core.documents import decode_snapshot

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
        brokers=tuple(seen_broker(broker, name, Place(document.path, 1)) for broker in snapshot.brokers),
        topics=tuple(_topics(snapshot, document)),
    )


def _topics(snapshot: "ClusterSnapshot", document: Document) -> Iterator[TopicPiece]:
    finder = _Finder(document)
    finder.skip_to('"topics"')
    for topic in snapshot.topics:
        place = finder.place("name", topic.name)
        yield TopicPiece(
            name=topic.name,
            place=place,
            cluster=snapshot.cluster_id,
            configs={
                key: Declared(without_secret(key, text), Source.TOPIC, finder.place(key, text))
                for key, text in topic.configs.items()
            },
            partitions=len(topic.partitions) or None,
            replication_factor=seen_replication(topic),
            partition_facts=seen_partitions(topic),
            is_declared=False,
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
