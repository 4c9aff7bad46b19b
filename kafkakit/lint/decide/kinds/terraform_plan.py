"""Terraform plans as JSON (`terraform show -json`): the topics that are there after the plan.

Resources `kafka_topic` of the provider Mongey/kafka and `confluent_kafka_topic` of confluentinc/confluent, in all
modules; the values before a change become the topic's current ones.
"""

from collections.abc import Iterator

from kafkakit.lint.decide.documents.tree import Document, Mapping, Node
from kafkakit.lint.decide.kinds.kind import Kind, of_each
from kafkakit.lint.decide.kinds.values import Reader
from kafkakit.lint.decide.pieces import Pieces, TopicPiece
from kafkakit.rules.effective import Source

_NAMES = {"kafka_topic": "name", "confluent_kafka_topic": "topic_name"}


def _is_plan(root: Node) -> bool:
    if not isinstance(root, Mapping) or "format_version" not in root.entries:
        return False
    return "planned_values" in root.entries or "terraform_version" in root.entries


def _read_one(document: Document, root: Mapping) -> Pieces:
    reader = Reader(document)
    before = {
        address: config
        for change in root.sequence("resource_changes")
        if isinstance(change, Mapping)
        and (address := change.text("address")) is not None
        and (config := change.mapping("change", "before", "config")) is not None
    }
    values = root.mapping("planned_values") or root.mapping("values")
    modules = _modules(values.mapping("root_module") if values is not None else None)
    topics = [
        _topic(reader, resource, before)
        for module in modules
        for resource in module.sequence("resources")
        if isinstance(resource, Mapping) and resource.text("type") in _NAMES and resource.text("mode") != "data"
    ]
    return Pieces(topics=tuple(topic for topic in topics if topic is not None), problems=tuple(reader.problems))


def _modules(root: Mapping | None) -> Iterator[Mapping]:
    waiting = [root] if root is not None else []
    while waiting:
        module = waiting.pop()
        yield module
        children = [child for child in module.sequence("child_modules") if isinstance(child, Mapping)]
        waiting += reversed(children)


def _topic(reader: Reader, resource: Mapping, before: dict[str, Mapping]) -> TopicPiece | None:
    values = resource.mapping("values")
    if values is None:
        return None
    kind = resource.text("type") or ""
    name = values.text(_NAMES[kind])
    if name is None:
        return None  # not known before the plan is applied
    clusters = [part for part in values.sequence("kafka_cluster") if isinstance(part, Mapping)]
    factor = reader.integer(values, "replication_factor", -1)
    current = before.get(resource.text("address") or "")
    count_key = "partitions_count" if "partitions_count" in values.entries else "partitions"
    return TopicPiece(
        name=name,
        place=reader.place(values),
        cluster=clusters[0].text("id") if clusters else None,
        configs=reader.configs(values.mapping("config"), Source.TOPIC),
        partitions=reader.integer(values, count_key, 1),
        replication_factor=factor if factor != -1 else None,
        current=reader.plain_texts(current) if current is not None else None,
    )


KIND = Kind(
    name="terraform-plan",
    about="Terraform plan JSON (kafka_topic, confluent_kafka_topic)",
    formats=("json",),
    recognise=_is_plan,
    read=of_each(_read_one),
    patterns=("*.tfplan.json", "tfplan*.json"),
)
