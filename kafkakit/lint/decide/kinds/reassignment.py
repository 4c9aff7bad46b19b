"""Kafka's reassignment JSON (`kafka-reassign-partitions`): the replicas that partitions are to have."""

from kafkakit.lint.decide.documents.tree import Document, Mapping, Node, Sequence
from kafkakit.lint.decide.kinds.kind import Kind, of_each
from kafkakit.lint.decide.kinds.values import Reader
from kafkakit.lint.decide.pieces import AssignmentPiece, Pieces


def _is_reassignment(root: Node) -> bool:
    if not isinstance(root, Mapping) or not root.entries.keys() <= {"version", "partitions"}:
        return False
    partitions = root.get("partitions")
    return isinstance(partitions, Sequence) and all(
        isinstance(item, Mapping) and "topic" in item.entries for item in partitions.items
    )


def _read_one(document: Document, root: Mapping) -> Pieces:
    reader = Reader(document)
    found = []
    for node in reader.mappings(root, "partitions"):
        topic, partition = reader.text(node, "topic"), reader.integer(node, "partition")
        replicas = reader.integers(node, "replicas")
        if topic is None or partition is None or not replicas:
            reader.problem(node, "a partition needs a topic, a number and a list of replicas", "partitions")
            continue
        found.append(AssignmentPiece(topic=topic, partition=partition, replicas=replicas, place=reader.place(node)))
    return Pieces(assignments=tuple(found), problems=tuple(reader.problems))


KIND = Kind(
    name="reassignment",
    about="Kafka's partition reassignment JSON",
    formats=("json",),
    recognise=_is_reassignment,
    read=of_each(_read_one),
)
