"""The configuration files of brokers, controller and ZooKeeper, as text.

The values that make a broker small and quick to start were measured; each one that is not obvious says
what it prevents. Names: Kafka's broker configuration reference.
"""

from collections.abc import Mapping

from kafkakit.sandbox.decide.credentials import ADMIN, BROKER, Passwords, principal, secrets_folder
from kafkakit.sandbox.decide.layout import CLIENT, CONTROLLER, CONTROLLER_ID, HOST, INTERNAL, ZOOKEEPER, Layout, Node
from kafkakit.sandbox.decide.spec import Mode, SandboxSpec, Secure

_SMALL_AND_QUICK = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Kafka 4.x holds every commit for 5 ms to batch it, so that one connection makes some 170 a second.
    "group.coordinator.append.linger.ms": "0",
    "auto.create.topics.enable": "false",
    # Leaders move only when a tool moves them, so that what a run shows is what the run did.
    "auto.leader.rebalance.enable": "false",
    # The default dedupe buffer of 128 MB does not fit the heap: the broker dies at start.
    "log.cleaner.dedupe.buffer.size": "2000000",
    # Throttled moves follow a changed rate within 3 s instead of 11 s, and followers wait less.
    "replication.quota.window.num": "3",
    "alter.log.dirs.replication.quota.window.num": "3",
    "replica.fetch.backoff.ms": "100",
}

# Kafka's default is 9000/2000. 1500/250 fences healthy brokers when several JVMs start on two cores;
# 4000/500 leaves eight heartbeats and still shows a killed broker within about 4 s.
_HEARTBEAT = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}

_CLIENT_PROTOCOL = {
    Secure.NONE: "PLAINTEXT",
    Secure.TLS: "SSL",
    Secure.SCRAM: "SASL_PLAINTEXT",
    Secure.SCRAM_TLS: "SASL_SSL",
}


def broker_properties(
    spec: SandboxSpec, layout: Layout, node: Node, root: str, passwords: Passwords | None
) -> dict[str, str]:
    """The settings of one broker; `passwords` is None for an open cluster."""
    inner = "SASL_PLAINTEXT" if spec.secure is not Secure.NONE else "PLAINTEXT"
    protocols = {CLIENT: _CLIENT_PROTOCOL[spec.secure]}
    if INTERNAL in node.ports:
        protocols[INTERNAL] = inner
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in node.ports.items())
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": INTERNAL if INTERNAL in node.ports else CLIENT,
        "log.dirs": ",".join(node.log_dirs),
        "broker.rack": node.rack or "",
        # One copy of an internal topic would be lost with its broker, and a move of it could never end.
        "offsets.topic.replication.factor": str(min(3, spec.brokers)),
        "offsets.topic.num.partitions": str(spec.offsets_partitions),
        "transaction.state.log.replication.factor": str(min(3, spec.brokers)),
        **_SMALL_AND_QUICK,
    }
    if spec.mode is Mode.ZOOKEEPER:
        settings |= {
            "broker.id": str(node.id),
            # By default ids above 1000 are kept for brokers that choose their own.
            "reserved.broker.max.id": "100000",
            "zookeeper.connect": layout.keeper.address,
            "zookeeper.session.timeout.ms": "6000",
            "zookeeper.connection.timeout.ms": "60000",  # ZooKeeper starts at the same time, on a busy machine slowly
        }
    else:
        protocols[CONTROLLER] = inner
        settings |= {
            "process.roles": "broker",
            "node.id": str(node.id),
            "controller.quorum.voters": f"{CONTROLLER_ID}@{layout.keeper.address}",
            "controller.listener.names": CONTROLLER,
            **_HEARTBEAT,
        }
    settings["listener.security.protocol.map"] = ",".join(f"{name}:{value}" for name, value in protocols.items())
    if passwords is not None:
        settings |= _security(spec, passwords)
        settings |= _broker_entrance(spec, root, node)
    return settings


def controller_properties(spec: SandboxSpec, layout: Layout, passwords: Passwords | None) -> dict[str, str]:
    """The settings of the one KRaft controller, a process of its own so that any broker can be killed."""
    inner = "SASL_PLAINTEXT" if passwords is not None else "PLAINTEXT"
    settings = {
        "process.roles": "controller",
        "node.id": str(CONTROLLER_ID),
        "listeners": f"{CONTROLLER}://{layout.keeper.address}",
        "controller.quorum.voters": f"{CONTROLLER_ID}@{layout.keeper.address}",
        "controller.listener.names": CONTROLLER,
        "listener.security.protocol.map": f"{CONTROLLER}:{inner}",
        "log.dirs": ",".join(layout.keeper.log_dirs),
        **_SMALL_AND_QUICK,
        **_HEARTBEAT,
    }
    if passwords is not None:
        settings |= _security(spec, passwords)
    return settings


def zookeeper_properties(layout: Layout) -> dict[str, str]:
    """The settings of a single ZooKeeper server."""
    return {
        "tickTime": "500",
        "dataDir": f"{layout.keeper.folder}/data",
        "clientPort": str(layout.keeper.ports[ZOOKEEPER]),
        "clientPortAddress": HOST,
        "admin.enableServer": "false",
        "maxClientCnxns": "0",
    }


def meta_properties(cluster_id: str, node_id: int, directory_id: str) -> dict[str, str]:
    """`meta.properties` of one log dir (version 1), which is all a KRaft broker needs to be formatted."""
    return {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": directory_id}


def _plain_login(passwords: Passwords) -> str:
    secret = passwords.broker.reveal()
    return (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{BROKER}" password="{secret}" user_{BROKER}="{secret}";'
    )


def _security(spec: SandboxSpec, passwords: Passwords) -> dict[str, str]:
    """What controller and brokers share: the authorizer, and how they log in to each other."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{BROKER};{principal(spec.secure, ADMIN)}",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    for listener in ("controller", "internal"):
        settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = "PLAIN"
        settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = _plain_login(passwords)
    return settings


def _broker_entrance(spec: SandboxSpec, root: str, node: Node) -> dict[str, str]:
    """How clients get in: TLS material, SCRAM, or both."""
    settings: dict[str, str] = {}
    listener = f"listener.name.{CLIENT.lower()}"
    if spec.secure.uses_tls:
        folder = secrets_folder(root)
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{folder}/broker-{node.id}.keystore.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{folder}/ca.pem",
            # A client may come without a certificate; then it is ANONYMOUS and has no rights.
            f"{listener}.ssl.client.auth": "requested" if spec.secure is Secure.TLS else "none",
        }
    if spec.secure.uses_scram:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        settings |= {
            f"{listener}.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            f"{listener}.scram-sha-256.sasl.jaas.config": module,
        }
    return settings


def render_properties(settings: Mapping[str, str]) -> str:
    """Java properties text, keys in the order given; backslashes are doubled as the format wants."""
    lines = (f"{key}={value}".replace("\\", "\\\\") for key, value in settings.items())
    return "\n".join(lines) + "\n"
