"""Dead letter topics of other frameworks, as a stream of which only the DLQ lane is known.

A dead letter is written again to the topic that its headers name, on the same cluster: to its original partition, or
to that number modulo the topic's partitions. Headers are what whoever wrote the record says, so they never lead to a
topic of Kafka or of kafkakit itself, nor to the dead letter topic.
"""

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan_rules import topic_problem
from kafkakit.core.records import Record
from kafkakit.core.text import sanitize
from kafkakit.ports.data import ClusterClients
from kafkakit.streams.lanes.act.dead_letters import StreamClusters
from kafkakit.streams.lanes.decide import DeadLetter, ReplayTarget, letter_of
from kafkakit.streams.model.commit import topic_id_text
from kafkakit.streams.model.provenance import read_foreign_provenance
from kafkakit.streams.model.route import DLQ, Lane, Route, Segment, SegmentState


class ForeignTopic:
    """Implements `LetterOrigins` for one dead letter topic of a cluster; `UsageError` if there is none of this name.

    `topic_header` names the header with the original topic; None: that of any framework that is known.
    """

    def __init__(self, ports: ClusterClients, topic: str, topic_header: str | None) -> None:
        self._ports, self._topic, self._header = ports, topic, topic_header
        self._cluster_id = ports.log.cluster_id()
        self._targets: dict[str, Segment | None] = {}
        own = self._segment(topic, 1)
        if own is None:
            raise UsageError(
                f"there is neither a stream nor a topic {sanitize(topic[:249])}",
                hint="list streams with `kafkakit streams list`, topics with `kafkakit registry topics`",
            )
        self.route = Route(stream=topic, epoch=1, next_segment=2, lanes=(Lane(name=DLQ, segments=(own,)),))

    @property
    def clusters(self) -> StreamClusters:
        """The one cluster."""
        return StreamClusters(lambda _: self._ports)

    def letter(self, record: Record, segment: Segment, *, is_replayed: bool) -> DeadLetter:
        found = read_foreign_provenance(record.headers, self._cluster_id, self._header, record.at_ms)
        return letter_of(record, segment, is_replayed=is_replayed, provenance=found)

    def target(self, letter: DeadLetter, to: str | None) -> ReplayTarget | str:
        """See `LetterOrigins`; `to` is a topic."""
        origin = letter.provenance.origin if letter.provenance else None
        name = to if to is not None else origin.topic if origin else None
        if name is None:
            return "without a header that names a topic: name the header with --topic-header, or a topic with --to"
        problem = self.problem_of(name)
        segment = None if problem else self._targets[name]
        if segment is None:
            return problem
        number = origin.partition if origin and origin.partition >= 0 else letter.place.partition
        return ReplayTarget(segment=segment, place=TopicPartition(name, number % segment.partitions))

    def problem_of(self, name: str) -> str:
        """Why nothing can be replayed to a topic; empty if it can."""
        shown = sanitize(name[:249])
        if topic_problem(name):
            return f"{shown!r} is not a topic's name: name a topic with --to"
        if name == self._topic:
            return "of the dead letter topic itself: name a topic with --to"
        if name.startswith("__"):
            return f"topic {shown} is internal: name a topic with --to"
        if name not in self._targets:
            self._targets[name] = self._segment(name, 2 + len(self._targets))
        return "" if self._targets[name] else f"topic {shown} does not exist: name a topic with --to"

    def _segment(self, topic: str, number: int) -> Segment | None:
        place = None if topic_problem(topic) else self._ports.log.places([topic]).get(topic)
        if place is None or not place.leaders:
            return None
        return Segment(
            id=number,
            cluster="",
            cluster_id=self._cluster_id,
            topic=topic,
            topic_id=topic_id_text(place.topic_id),
            partitions=len(place.leaders),
            state=SegmentState.ACTIVE,
        )
