"""What `kafkakit version` tells, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

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
