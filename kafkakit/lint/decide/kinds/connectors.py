"""Kafka Connect: connectors as JSON (`{name, config}`, flat, or a list of them) or properties, and workers."""

from collections.abc import Iterator

from kafkakit.lint.decide.documents.tree import Document, Mapping, Node, Sequence
from kafkakit.lint.decide.kinds.kind import Kind, joined
from kafkakit.lint.decide.kinds.values import Reader
from kafkakit.lint.decide.pieces import Pieces
from kafkakit.rules.effective import Source
from kafkakit.rules.subjects import LintConnector

_WORKER_KEYS = ("config.storage.topic", "offset.storage.topic", "status.storage.topic", "offset.storage.file.filename")


def _is_connector(root: Node) -> bool:
    if isinstance(root, Sequence):
        return bool(root.items) and all(isinstance(item, Mapping) and _is_connector(item) for item in root.items)
    if not isinstance(root, Mapping):
        return False
    config = root.mapping("config")
    return "connector.class" in root.entries or (config is not None and "connector.class" in config.entries)


def _is_worker(root: Node) -> bool:
    return isinstance(root, Mapping) and (
        not root.entries.keys().isdisjoint(_WORKER_KEYS)
        or {"bootstrap.servers", "key.converter"} <= root.entries.keys()
    )


def _mappings(roots: tuple[Node, ...]) -> Iterator[Mapping]:
    for root in roots:
        if isinstance(root, Mapping):
            yield root
        elif isinstance(root, Sequence):
            yield from (item for item in root.items if isinstance(item, Mapping))


def _read_one(document: Document, root: Mapping) -> Pieces:
    reader = Reader(document)
    config = root if "connector.class" in root.entries else (root.mapping("config") or root)
    name = root.text("name") or config.text("name")
    if name is None:
        reader.problem(root, "a connector needs a name", "name")
    connector = LintConnector(
        name=name or "without name",
        config=reader.configs(config, Source.STATIC),
        place=reader.place(root),
    )
    return Pieces(connectors=(connector,), problems=tuple(reader.problems))


def _read(document: Document, roots: tuple[Node, ...]) -> Pieces:
    return joined([_read_one(document, root) for root in _mappings(roots)])


def _read_workers(document: Document, roots: tuple[Node, ...]) -> Pieces:
    reader = Reader(document)
    workers = tuple(
        LintConnector(
            name=root.text("group.id") or document.path.replace("\\", "/").rpartition("/")[2],
            config=reader.configs(root, Source.STATIC),
            is_worker=True,
            place=reader.place(root),
        )
        for root in _mappings(roots)
    )
    return Pieces(connectors=workers, problems=tuple(reader.problems))


CONNECTOR_KIND = Kind(
    name="connector",
    about="Kafka Connect connectors (Debezium and others) as JSON or properties",
    formats=("json", "properties", "yaml"),
    recognise=_is_connector,
    read=_read,
)
WORKER_KIND = Kind(
    name="connect-worker",
    about="properties of a Kafka Connect worker",
    formats=("properties",),
    recognise=_is_worker,
    read=_read_workers,
    patterns=("connect-distributed*.properties", "connect-standalone*.properties"),
)
