"""topicctl's YAML: one cluster or one topic a document."""

from kafkakit.lint.decide.documents.tree import Document, Mapping, Node, Scalar, Sequence
from kafkakit.lint.decide.kinds.kind import Kind, of_each
from kafkakit.lint.decide.kinds.values import Reader, environment_of, owner_in
from kafkakit.lint.decide.pieces import AssignmentPiece, ClusterPiece, Pieces, TopicPiece
from kafkakit.rules.effective import Declared, Source, to_int

_MS_PER_MINUTE = 60_000


def _is_topicctl(root: Node) -> bool:
    if not isinstance(root, Mapping) or "apiVersion" in root.entries:
        return False
    meta, spec = root.mapping("meta"), root.mapping("spec")
    if meta is None or spec is None or "name" not in meta.entries:
        return False
    return "bootstrapAddrs" in spec.entries or ("cluster" in meta.entries and "partitions" in spec.entries)


def _read_one(document: Document, root: Mapping) -> Pieces:
    reader = Reader(document)
    meta, spec = root.mapping("meta"), root.mapping("spec")
    if meta is None or spec is None:
        reader.problem(root, "a topicctl file needs meta and spec")
        return Pieces(problems=tuple(reader.problems))
    if "bootstrapAddrs" in spec.entries or "cluster" not in meta.entries:
        cluster = ClusterPiece(
            place=reader.place(root),
            name=_cluster_name(meta, "name"),
            env=environment_of(meta.text("environment")),
        )
        return Pieces(clusters=(cluster,))
    return _topic(reader, root, meta, spec)


def _topic(reader: Reader, root: Mapping, meta: Mapping, spec: Mapping) -> Pieces:
    name = reader.text(meta, "name")
    if name is None:
        reader.problem(meta, "a topic needs a name", "name")
        return Pieces(problems=tuple(reader.problems))
    cluster = _cluster_name(meta, "cluster")
    configs: dict[str, Declared] = {}
    minutes = reader.integer(spec, "retentionMinutes", 1)
    if minutes is not None:
        place = reader.place(spec.entries["retentionMinutes"].key)
        configs["retention.ms"] = Declared(str(minutes * _MS_PER_MINUTE), Source.TOPIC, place)
    configs |= reader.configs(reader.mapping(spec, "settings"), Source.TOPIC)
    topic = TopicPiece(
        name=name,
        place=reader.place(root),
        cluster=cluster,
        configs=configs,
        partitions=reader.integer(spec, "partitions", 1),
        replication_factor=reader.integer(spec, "replicationFactor", 1),
        owner=owner_in(meta.mapping("labels"), meta),
    )
    return Pieces(
        clusters=(ClusterPiece(place=topic.place, name=cluster, env=environment_of(meta.text("environment"))),),
        topics=(topic,),
        assignments=tuple(_static_placement(reader, spec, name, cluster)),
        problems=tuple(reader.problems),
    )


def _static_placement(reader: Reader, spec: Mapping, topic: str, cluster: str | None) -> list[AssignmentPiece]:
    placement = spec.mapping("placement")
    found = []
    for number, row in enumerate(placement.sequence("staticAssignments") if placement is not None else ()):
        items = row.items if isinstance(row, Sequence) else []
        replicas = [to_int(item.text) for item in items if isinstance(item, Scalar)]
        known = tuple(replica for replica in replicas if replica is not None)
        if known and len(known) == len(items):
            found.append(
                AssignmentPiece(topic=topic, partition=number, replicas=known, place=reader.place(row), cluster=cluster)
            )
        else:
            reader.problem(row, "a row of staticAssignments must be a list of broker ids", "staticAssignments")
    return found


def _cluster_name(meta: Mapping, key: str) -> str | None:
    """A cluster is identified by its name, environment and region together."""
    name = meta.text(key)
    where = ", ".join(text for text in (meta.text("environment"), meta.text("region")) if text)
    return f"{name} ({where})" if name and where else name


KIND = Kind(
    name="topicctl",
    about="topicctl cluster and topic YAML",
    formats=("yaml", "json"),
    recognise=_is_topicctl,
    read=of_each(_read_one),
)
