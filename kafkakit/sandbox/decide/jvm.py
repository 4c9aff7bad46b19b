"""Command lines of the sandbox's Java processes.

Everything long or private stands in an argument file (`java @FILE`), so that the process list shows the
marker and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from kafkakit.sandbox.decide.layout import Node, Role

MARKER = "-Dkafkakit.sandbox.node="

_MAIN = {
    Role.BROKER: "kafka.Kafka",
    Role.CONTROLLER: "kafka.Kafka",
    Role.ZOOKEEPER: "org.apache.zookeeper.server.quorum.QuorumPeerMain",
}
# A broker idles in 48 MB, needs 128 MB for data and about 400 MB for thousands of partitions. The heap
# grows only when used, so that the limit costs nothing.
_HEAP = {Role.BROKER: ("-Xms64m", "-Xmx448m"), Role.CONTROLLER: ("-Xms32m", "-Xmx256m"), Role.ZOOKEEPER: ("-Xmx64m",)}

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
class Launch:
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


def node_arguments(node: Node, launch: Launch) -> str:
    """The text of a node's argument file."""
    logging = {
        "org.slf4j.simpleLogger.defaultLogLevel": "info",
        "org.slf4j.simpleLogger.showDateTime": "true",
        "org.slf4j.simpleLogger.dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        **{f"org.slf4j.simpleLogger.log.{name}": "warn" for name in _QUIET_LOGGERS},
    }
    options = (*_HEAP[node.role], *_LIGHT, *launch.options(class_list_file(node)))
    return _arguments(options, logging, launch.class_path, (_MAIN[node.role], properties_file(node)))


def archive_arguments(launch: Launch, class_list: str, archive: str) -> str:
    """The argument file of the JVM that writes a class archive of the classes in a list."""
    options = (*_LIGHT, "-Xshare:dump", f"-XX:SharedClassListFile={class_list}", f"-XX:SharedArchiveFile={archive}")
    return _arguments(options, {}, launch.class_path, ())


def format_arguments(node: Node, cluster_id: str, launch: Launch, users: Mapping[str, str]) -> str:
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
    return "".join(f"{_quoted(word)}\n" for word in words)


def _quoted(word: str) -> str:
    """Quote for the java launcher's argument files: backslash escapes inside double quotes."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
