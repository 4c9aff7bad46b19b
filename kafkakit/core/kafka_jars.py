"""Maven coordinates of the jars that a Kafka version runs on."""

from collections.abc import Iterable

# A binding that writes to the process's output; Kafka's published jars bring none.
LOGGING = "org.slf4j:slf4j-simple:1.7.36"

# No broker needs kafka-tools-api. A second slf4j binding would make it a matter of chance which one writes the log.
UNWANTED = frozenset(
    {
        "org.apache.kafka:kafka-tools-api",
        "org.slf4j:slf4j-log4j12",
        "org.slf4j:slf4j-reload4j",
        "ch.qos.logback:logback-classic",
        "org.apache.logging.log4j:log4j-slf4j-impl",
        "org.apache.logging.log4j:log4j-slf4j2-impl",
    }
)


def kafka_coordinate(version: str) -> str:
    """`group:artifact:version` of the broker itself (the Scala 2.13 build, the only one since 4.0)."""
    return f"org.apache.kafka:kafka_2.13:{version}"


def wanted_coordinates(version: str) -> tuple[str, ...]:
    """What to resolve, with everything these depend on."""
    return (kafka_coordinate(version), LOGGING)


def tools_coordinates(version: str) -> tuple[str, ...]:
    """The jars of the tools; what they need beyond the broker's jars are parts of Connect, which no tool here uses."""
    return f"org.apache.kafka:kafka-tools:{version}", f"org.apache.kafka:kafka-tools-api:{version}"


def is_wanted(group: str, artifact: str) -> bool:
    """False for a resolved dependency that must stay off the class path."""
    return f"{group}:{artifact}" not in UNWANTED


def binding_jars(names: Iterable[str]) -> tuple[str, ...]:
    """The file names among `names` that are slf4j bindings (a Kafka installation brings its own)."""
    starts = ("slf4j-reload4j", "slf4j-log4j12", "slf4j-simple", "logback-classic", "log4j-slf4j")
    return tuple(name for name in names if name.startswith(starts))
