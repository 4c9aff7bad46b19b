"""`server.properties` and the properties of KRaft nodes: one broker or controller a file."""

from kafkakit.lint.decide.documents.tree import Document, Mapping, Node
from kafkakit.lint.decide.kinds.kind import Kind, of_each
from kafkakit.lint.decide.kinds.values import Reader, dirs_of, node_id_of, roles_of
from kafkakit.lint.decide.pieces import BrokerPiece, Pieces
from kafkakit.rules.effective import Source

_TELLING = (
    "broker.id", "node.id", "process.roles", "zookeeper.connect", "log.dirs", "advertised.listeners",
    "controller.quorum.voters", "controller.quorum.bootstrap.servers", "listener.security.protocol.map",
    "num.network.threads", "inter.broker.listener.name", "log.retention.hours", "log.retention.ms",
    "offsets.topic.replication.factor", "default.replication.factor", "auto.create.topics.enable",
)  # fmt: skip


def _is_server(root: Node) -> bool:
    if not isinstance(root, Mapping) or "connector.class" in root.entries or "key.converter" in root.entries:
        return False
    return not root.entries.keys().isdisjoint(_TELLING)


def _read_one(document: Document, root: Mapping) -> Pieces:
    reader = Reader(document)
    static = reader.configs(root, Source.STATIC)
    broker = BrokerPiece(
        place=reader.place(root),
        id=node_id_of(static),
        rack=static["broker.rack"].text or None if "broker.rack" in static else None,
        roles=roles_of(static),
        static=static,
        log_dirs=dirs_of(static),
        count=0,
    )
    return Pieces(brokers=(broker,), problems=tuple(reader.problems))


KIND = Kind(
    name="server-properties",
    about="server.properties of a broker, controller.properties and broker.properties of KRaft",
    formats=("properties",),
    recognise=_is_server,
    read=of_each(_read_one),
    patterns=("server*.properties", "broker*.properties", "controller*.properties", "kraft/*.properties"),
)
