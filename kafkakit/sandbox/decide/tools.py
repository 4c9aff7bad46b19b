"""Kafka's own command line tools: their main classes, and how each is told where the cluster is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.config.keys import did_you_mean
from kafkakit.config.security import Mechanism, Security
from kafkakit.core.errors import UsageError

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
