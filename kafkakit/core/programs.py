"""Programs that are run, as values.

The Maven coordinates of the jars that a Kafka version runs on; the installation and the command line that start a
driver of Spark; what makes a process on this machine recognisable; what `kafkakit version` tells.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


# The packages whose versions matter in a bug report, in the order they are told.
PACKAGES = ("kafka-python", "confluent-kafka", "kazoo", "ortools", "numpy", "typer", "rich", "pyyaml", "msgspec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions by name; None for a package that is not installed. Schemas are those of kafkakit's files."""

    kafkakit: str
    python: str
    librdkafka: str | None
    packages: Mapping[str, str | None]
    schemas: Mapping[str, int]

    def rows(self) -> tuple[tuple[str, str | None], ...]:
        """(name, version) of everything, kafkakit first."""
        return (
            ("kafkakit", self.kafkakit),
            ("python", self.python),
            *self.packages.items(),
            ("librdkafka", self.librdkafka),
            *((f"schema:{kind}", str(number)) for kind, number in self.schemas.items()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTools:
    """What runs a driver here: Spark's folder, a Python with pyspark, a Java, and the folder of kafkakit's job code.

    `java_home` is empty where none is needed.
    """

    spark_home: str
    python: str
    java_home: str
    code_folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHost:
    """What this host has for an engine without a JVM: whether Sail is installed, and its memory that is available."""

    has_sail: bool
    free_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command line, and what it needs in its environment beside that of this process."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What makes a process ours: its pid, its start time in clock ticks since boot, and its marker."""

    pid: int
    started_ticks: int
    marker: str


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What Linux tells of a process; `started_ticks` are clock ticks since boot, and never change."""

    state: str
    group: int
    threads: int
    started_ticks: int

    @property
    def is_zombie(self) -> bool:
        """Whether its first thread has ended; others may still run, and keep ports."""
        return self.state in "ZX"

    @property
    def is_over(self) -> bool:
        """Whether nothing of it acts any more."""
        return self.is_zombie and self.threads <= 1
