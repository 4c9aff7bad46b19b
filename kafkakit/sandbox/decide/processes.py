"""What a sandbox's processes are started with, and how others reach them, as text.

Configuration files of brokers, controller and ZooKeeper: the values that make a broker small and quick to start were
measured; each one that is not obvious says what it prevents. Names: Kafka's broker configuration reference.

Command lines of Java processes: everything long or private stands in an argument file (`java @FILE`), so that the
process list shows the marker and nothing else. Kafka's own tools have their main classes, and how each is told where
the cluster is. A secured sandbox has names, files and passwords of those who may enter; others reach a sandbox by its
profile file and its shell lines.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kafkakit.config.keys import did_you_mean
from kafkakit.config.security import Mechanism, Protocol, Secret, Security
from kafkakit.core.errors import UsageError
from kafkakit.sandbox.decide.spec import (
    CLIENT,
    CONTROLLER,
    CONTROLLER_ID,
    HOST,
    INTERNAL,
    ZOOKEEPER,
    ClientSecurity,
    MetadataMode,
    Node,
    NodeRole,
    SandboxLayout,
    SandboxSpec,
    SandboxState,
)

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
    ClientSecurity.NONE: "PLAINTEXT",
    ClientSecurity.TLS: "SSL",
    ClientSecurity.SCRAM: "SASL_PLAINTEXT",
    ClientSecurity.SCRAM_TLS: "SASL_SSL",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Passwords:
    """Random passwords of one sandbox: `broker` is what the processes use among themselves."""

    admin: Secret
    guest: Secret
    broker: Secret

    def of(self, user: str) -> Secret:
        """The password of `admin` or `guest`."""
        return self.admin if user == ADMIN else self.guest


def broker_properties(
    spec: SandboxSpec, layout: SandboxLayout, node: Node, root: str, passwords: Passwords | None
) -> dict[str, str]:
    """The settings of one broker; `passwords` is None for an open cluster."""
    inner = "SASL_PLAINTEXT" if spec.secure is not ClientSecurity.NONE else "PLAINTEXT"
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
    if spec.mode is MetadataMode.ZOOKEEPER:
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


def controller_properties(spec: SandboxSpec, layout: SandboxLayout, passwords: Passwords | None) -> dict[str, str]:
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


def zookeeper_properties(layout: SandboxLayout) -> dict[str, str]:
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
        "super.users": f"User:{BROKER};{principal_of(spec.secure, ADMIN)}",
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
            f"{listener}.ssl.client.auth": "requested" if spec.secure is ClientSecurity.TLS else "none",
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


MARKER = "-Dkafkakit.sandbox.node="

_MAIN = {
    NodeRole.BROKER: "kafka.Kafka",
    NodeRole.CONTROLLER: "kafka.Kafka",
    NodeRole.ZOOKEEPER: "org.apache.zookeeper.server.quorum.QuorumPeerMain",
}
# A broker idles in 48 MB, needs 128 MB for data and about 400 MB for thousands of partitions. The heap
# grows only when used, so that the limit costs nothing.
_HEAP = {
    NodeRole.BROKER: ("-Xms64m", "-Xmx448m"),
    NodeRole.CONTROLLER: ("-Xms32m", "-Xmx256m"),
    NodeRole.ZOOKEEPER: ("-Xmx64m",),
}

# Short-lived JVMs on few cores: one collector thread, and no second compiler to warm up.
_LIGHT = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

_QUIET_LOGGERS = (
    "state.change.logger", "kafka.server.KafkaConfig", "org.apache.kafka.common.config.AbstractConfig",
    "org.apache.kafka.storage.internals.log", "org.apache.kafka.image", "kafka.log", "kafka.cluster",
)  # fmt: skip


class ArchiveUse(Enum):
    """What a process does with the class archive: nothing, read it, or record the classes that belong into it."""

    NONE = "none"
    READ = "read"
    RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaLaunch:
    """How Java is started: its launcher, the class path, and the class archive with its use."""

    java: str
    class_path: tuple[str, ...]
    archive: str = ""
    use: ArchiveUse = ArchiveUse.NONE

    def options(self, class_list: str) -> tuple[str, ...]:
        """The JVM's options for its class archive; a JVM that cannot use it continues without (`-Xshare:auto`)."""
        if self.use is ArchiveUse.READ:
            return ("-Xshare:auto", f"-XX:SharedArchiveFile={self.archive}")
        return (f"-XX:DumpLoadedClassList={class_list}",) if self.use is ArchiveUse.RECORD else ()


def marker(node: Node) -> str:
    """The argument that says which sandbox and which node a process is."""
    return f"{MARKER}{node.folder}"


def command(java: str, node: Node) -> tuple[str, ...]:
    """The command line that starts a node; its argument file must be in place."""
    return (java, marker(node), f"@{argument_file(node)}")


def argument_file(node: Node) -> str:
    """Where the node's argument file lives."""
    return f"{node.folder}/java.args"


def properties_file(node: Node) -> str:
    """Where the node's configuration lives."""
    return f"{node.folder}/node.properties"


def class_list_file(node: Node) -> str:
    """Where a node that records for the class archive writes the names of its classes."""
    return f"{node.folder}/node.classes"


def format_class_list_file(node: Node) -> str:
    """Where Kafka's storage tool writes the names of its classes."""
    return f"{node.folder}/format.classes"


def node_arguments(node: Node, launch: JavaLaunch) -> str:
    """The text of a node's argument file."""
    logging = {
        "org.slf4j.simpleLogger.defaultLogLevel": "info",
        "org.slf4j.simpleLogger.showDateTime": "true",
        "org.slf4j.simpleLogger.dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        **{f"org.slf4j.simpleLogger.log.{name}": "warn" for name in _QUIET_LOGGERS},
    }
    options = (*_HEAP[node.role], *_LIGHT, *launch.options(class_list_file(node)))
    return _arguments(options, logging, launch.class_path, (_MAIN[node.role], properties_file(node)))


def archive_arguments(launch: JavaLaunch, class_list: str, archive: str) -> str:
    """The argument file of the JVM that writes a class archive of the classes in a list."""
    options = (*_LIGHT, "-Xshare:dump", f"-XX:SharedClassListFile={class_list}", f"-XX:SharedArchiveFile={archive}")
    return _arguments(options, {}, launch.class_path, ())


def format_arguments(node: Node, cluster_id: str, launch: JavaLaunch, users: Mapping[str, str]) -> str:
    """The argument file of Kafka's own storage tool, which formats the controller's metadata dir.

    `users` maps SCRAM names to passwords; they become part of the cluster's first metadata.
    """
    main = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config", properties_file(node)]
    for user, password in users.items():
        main += ["--add-scram", f"SCRAM-SHA-256=[name={user},password={password}]"]
    quiet = {"org.slf4j.simpleLogger.defaultLogLevel": "error"}
    options = ("-Xmx128m", *_LIGHT, *launch.options(format_class_list_file(node)))
    return _arguments(options, quiet, launch.class_path, main)


def tool_arguments(main_class: str, class_path: Sequence[str]) -> str:
    """The argument file of one of Kafka's own tools, up to the main class."""
    quiet = {"org.slf4j.simpleLogger.defaultLogLevel": "error"}
    return _arguments(("-Xmx256m", *_LIGHT), quiet, class_path, (main_class,))


def _arguments(
    options: Sequence[str], properties: Mapping[str, str], class_path: Sequence[str], main: Sequence[str]
) -> str:
    words = [*options, *(f"-D{key}={value}" for key, value in properties.items()), "-cp", ":".join(class_path), *main]
    return "".join(f"{_quote_word(word)}\n" for word in words)


def _quote_word(word: str) -> str:
    """Quote for the java launcher's argument files: backslash escapes inside double quotes."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


ADMIN = "admin"
GUEST = "guest"
BROKER = "broker"
CLIENT_USERS = (ADMIN, GUEST)

_PROTOCOL = {
    ClientSecurity.NONE: Protocol.PLAINTEXT,
    ClientSecurity.TLS: Protocol.SSL,
    ClientSecurity.SCRAM: Protocol.SASL_PLAINTEXT,
    ClientSecurity.SCRAM_TLS: Protocol.SASL_SSL,
}


def secrets_folder(root: str) -> str:
    """Where keys, certificates and password files live (0700)."""
    return f"{root}/secrets"


def password_file(root: str, user: str) -> str:
    """The 0600 file that holds the user's password."""
    return f"{secrets_folder(root)}/{user}.password"


def client_security(secure: ClientSecurity, root: str, user: str, password: Secret | None) -> Security:
    """How the user connects: `admin` may do everything, `guest` has no rights at all.

    In `tls` mode the user is known by a client certificate, in the SCRAM modes by a password.
    """
    folder = secrets_folder(root)
    return Security(
        protocol=_PROTOCOL[secure],
        ca_file=f"{folder}/ca.pem" if secure.uses_tls else None,
        cert_file=f"{folder}/{user}.pem" if secure is ClientSecurity.TLS else None,
        key_file=f"{folder}/{user}.key" if secure is ClientSecurity.TLS else None,
        sasl_mechanism=Mechanism.SCRAM_SHA_256 if secure.uses_scram else None,
        username=user if secure.uses_scram else None,
        password=password if secure.uses_scram else None,
    )


def principal_of(secure: ClientSecurity, user: str) -> str:
    """The name that the brokers give the user (a certificate's subject, or the SCRAM name)."""
    return f"User:CN={user}" if secure is ClientSecurity.TLS else f"User:{user}"


Tree = Mapping[str, "str | Tree"]


def profile_name(sandbox: str, user: str) -> str:
    """The profile of the sandbox itself is the administrator's; other users have a suffix."""
    return sandbox if user == CLIENT_USERS[0] else f"{sandbox}-{user}"


def sandbox_profiles(sandbox: str) -> tuple[str, ...]:
    """Every profile that a sandbox may have written."""
    return tuple(profile_name(sandbox, user) for user in CLIENT_USERS)


def profile_users(secure: ClientSecurity) -> tuple[str, ...]:
    """Who gets a profile: a user without rights exists only where there are rights."""
    return CLIENT_USERS[:1] if secure is ClientSecurity.NONE else CLIENT_USERS


def profile_tree(state: SandboxState, root: str, user: str) -> dict[str, "str | Tree"]:
    """The profile as nested mappings; a password is named by its file, never written."""
    tree: dict[str, str | Tree] = {
        "bootstrap_server": state.layout.bootstrap_servers,
        "cluster_id": state.cluster_id,
    }
    if state.spec.mode is MetadataMode.ZOOKEEPER:
        tree["zookeeper"] = {"addr": state.layout.keeper.address}
    if state.spec.secure is not ClientSecurity.NONE:
        security = client_security(state.spec.secure, root, user, None)
        block: dict[str, str | Tree] = {"protocol": str(security.protocol)}
        tls = {"ca_file": security.ca_file, "cert_file": security.cert_file, "key_file": security.key_file}
        if security.protocol.uses_tls:
            block["tls"] = {key: value for key, value in tls.items() if value}
        if security.protocol.uses_sasl:
            block["sasl"] = {
                "mechanism": str(security.sasl_mechanism),
                "username": user,
                "password_file": password_file(root, user),
            }
        tree["security"] = block
    return tree


def profile_head(sandbox: str) -> str:
    """The first line of a profile file, by which a sandbox knows its own."""
    return f"# written by `kafkakit sandbox up --name {sandbox}`, removed by `kafkakit sandbox down --name {sandbox}`"


def render_profile(tree: Tree, sandbox: str) -> str:
    """YAML text: two-space indents and double-quoted strings (JSON strings are YAML strings)."""
    lines = [profile_head(sandbox)]
    _render(tree, 0, lines)
    return "\n".join(lines) + "\n"


def _render(tree: Tree, depth: int, lines: list[str]) -> None:
    for key, value in tree.items():
        if isinstance(value, str):
            lines.append(f"{'  ' * depth}{key}: {json.dumps(value)}")
        else:
            lines.append(f"{'  ' * depth}{key}:")
            _render(value, depth + 1, lines)


def environment(state: SandboxState) -> dict[str, str]:
    """Shell variables that point tools at the sandbox."""
    found = {"KAFKAKIT_PROFILE": state.spec.name, "BOOTSTRAP": state.layout.bootstrap_servers}
    if state.spec.mode is MetadataMode.ZOOKEEPER:
        found["ZOOKEEPER"] = state.layout.keeper.address
    return found


_TOOLS = "org.apache.kafka.tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTool:
    """A tool: its main class in one release or another, and its options for address and client properties."""

    classes: tuple[str, ...]
    server: str = "--bootstrap-server"
    config: str = "--command-config"


def _tool(*classes: str, server: str = "--bootstrap-server", config: str = "--command-config") -> KafkaTool:
    return KafkaTool(classes=classes, server=server, config=config)


# Kafka moved its tools from kafka.* to org.apache.kafka.tools one by one, from 3.5 to 4.1.
TOOLS: Mapping[str, KafkaTool] = {
    "kafka-acls": _tool(f"{_TOOLS}.AclCommand", "kafka.admin.AclCommand"),
    "kafka-broker-api-versions": _tool(f"{_TOOLS}.BrokerApiVersionsCommand", "kafka.admin.BrokerApiVersionsCommand"),
    "kafka-client-metrics": _tool(f"{_TOOLS}.ClientMetricsCommand"),
    "kafka-configs": _tool(f"{_TOOLS}.ConfigCommand", "kafka.admin.ConfigCommand"),
    "kafka-console-consumer": _tool(f"{_TOOLS}.consumer.ConsoleConsumer", config="--consumer.config"),
    "kafka-console-producer": _tool(
        f"{_TOOLS}.ConsoleProducer", "kafka.tools.ConsoleProducer", config="--producer.config"
    ),
    "kafka-consumer-groups": _tool(f"{_TOOLS}.consumer.group.ConsumerGroupCommand", "kafka.admin.ConsumerGroupCommand"),
    "kafka-consumer-perf-test": _tool(f"{_TOOLS}.ConsumerPerformance", config="--consumer.config"),
    "kafka-delete-records": _tool(f"{_TOOLS}.DeleteRecordsCommand"),
    "kafka-dump-log": _tool(f"{_TOOLS}.DumpLogSegments", "kafka.tools.DumpLogSegments", server="", config=""),
    "kafka-features": _tool(f"{_TOOLS}.FeatureCommand"),
    "kafka-get-offsets": _tool(f"{_TOOLS}.GetOffsetShell"),
    "kafka-groups": _tool(f"{_TOOLS}.GroupsCommand"),
    "kafka-leader-election": _tool(f"{_TOOLS}.LeaderElectionCommand", config="--admin.config"),
    "kafka-log-dirs": _tool(f"{_TOOLS}.LogDirsCommand"),
    "kafka-metadata-quorum": _tool(f"{_TOOLS}.MetadataQuorumCommand"),
    "kafka-producer-perf-test": _tool(f"{_TOOLS}.ProducerPerformance", server="", config="--producer.config"),
    "kafka-reassign-partitions": _tool(f"{_TOOLS}.reassign.ReassignPartitionsCommand"),
    "kafka-share-groups": _tool(f"{_TOOLS}.consumer.group.ShareGroupCommand"),
    "kafka-streams-groups": _tool(f"{_TOOLS}.streams.StreamsGroupCommand"),
    "kafka-topics": _tool(f"{_TOOLS}.TopicCommand"),
    "kafka-transactions": _tool(f"{_TOOLS}.TransactionsCommand"),
}


def find_tool(name: str, version: str) -> KafkaTool:
    """The tool of that name, with or without `.sh`, as a version of Kafka has it; `UsageError` for any other."""
    found = TOOLS.get(name.removesuffix(".sh"))
    if found is None:
        raise UsageError(
            f"{name[:60]!r} is none of Kafka's tools{did_you_mean(name, TOOLS)}", hint=f"there are {', '.join(TOOLS)}"
        )
    # From 4.2 on every tool takes --command-config and warns of its own name for it (KIP-1147).
    is_newer = tuple(map(int, version.split(".")[:2])) >= (4, 2)
    return replace(found, config="--command-config") if found.config and is_newer else found


def filled_arguments(tool: KafkaTool, given: Sequence[str], servers: str, properties: str) -> tuple[str, ...]:
    """The arguments with the address and the file of client properties before them, where they do not name their own.

    They come first, because the tools with subcommands take them before the subcommand.
    """
    names = {word.partition("=")[0] for word in given}
    filled: list[str] = []
    for option, value in ((tool.server, servers), (tool.config, properties)):
        if option and not names & {option, "--bootstrap-controller", "--help", "--version"}:
            filled += [option, value]
    return (*filled, *given)


def client_properties(servers: str, security: Security, key_pair: str = "") -> str:
    """A Java client's properties file; it holds the password, so it must be private.

    `key_pair` is a PEM file with the client's key and certificate.
    """
    lines = {"bootstrap.servers": servers, "security.protocol": str(security.protocol)}
    if security.ca_file:
        lines |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": security.ca_file}
    if key_pair:
        lines |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": key_pair}
    if security.sasl_mechanism is Mechanism.SCRAM_SHA_256 and security.password is not None:
        login = f'username="{security.username}" password="{security.password.reveal()}"'
        lines["sasl.mechanism"] = str(security.sasl_mechanism)
        lines["sasl.jaas.config"] = f"org.apache.kafka.common.security.scram.ScramLoginModule required {login};"
    return "".join(f"{key}={value}\n" for key, value in lines.items())
