"""What connectors and Connect workers say of themselves and of each other."""

from collections.abc import Iterator

from kafkakit.rules.effective import InputMissing, to_int, to_items
from kafkakit.rules.subjects import Estate, LintConnector, LintTopic

DEBEZIUM = "io.debezium."
DEFAULT_SLOT = "debezium"
DEFAULT_PUBLICATION = "dbz_publication"
DEFAULT_PLACEHOLDER = "__debezium_unavailable_value"


def is_prod(connector: LintConnector) -> bool:
    """True unless the connector's cluster is of another environment."""
    return connector.cluster is None or connector.cluster.is_prod


def is_debezium(connector: LintConnector) -> bool:
    """True for a connector of Debezium."""
    return not connector.is_worker and (connector.text("connector.class") or "").startswith(DEBEZIUM)


def is_postgres(connector: LintConnector) -> bool:
    """True for Debezium's connector for PostgreSQL."""
    return is_debezium(connector) and "postgres" in (connector.text("connector.class") or "").lower()


def is_sink(connector: LintConnector) -> bool:
    """True for a connector that reads topics."""
    return connector.text("topics") is not None or connector.text("topics.regex") is not None


def word(connector: LintConnector, key: str, default: str = "") -> str:
    """A value that is one of a few words, in small letters and without blanks."""
    found = connector.text(key)
    return default if found is None else found.strip().lower()


def number(connector: LintConnector, key: str) -> int | None:
    """A value as a whole number, None where it is not set or is none."""
    found = connector.text(key)
    return None if found is None else to_int(found)


def workers_of(estate: Estate, connector: LintConnector) -> list[LintConnector]:
    """The workers that may run a connector: those of its cluster; `InputMissing` where none is known."""
    found = [w for w in estate.connectors if w.is_worker and same_cluster(w, connector)]
    if not found:
        raise InputMissing("worker properties")
    return found


def worker_text(estate: Estate, connector: LintConnector, key: str) -> str | None:
    """What the workers set for a key; `InputMissing` where no worker is known, or they differ."""
    values = {w.text(key) for w in workers_of(estate, connector)}
    if len(values) > 1:
        raise InputMissing("which worker runs the connector")
    return values.pop()


def same_cluster(one: LintConnector, other: LintConnector) -> bool:
    """True when two may use one Kafka cluster: their clusters or bootstrap servers are the same, or one's not known."""
    if one.cluster is not None and other.cluster is not None and one.cluster.name != other.cluster.name:
        return False
    first, second = one.text("bootstrap.servers"), other.text("bootstrap.servers")
    return first is None or second is None or not set(to_items(first)).isdisjoint(to_items(second))


def topics_of(connector: LintConnector) -> Iterator[LintTopic]:
    """The topics of tables in the connector's cluster: those below its prefix."""
    prefix = connector.text("topic.prefix")
    if prefix and connector.cluster is not None:
        yield from (t for t in connector.cluster.topics if t.name.startswith(f"{prefix}."))


def is_schemaless_json(estate: Estate, connector: LintConnector) -> bool:
    """True when values are written as JSON without schemas; `InputMissing` where the workers decide and are unknown."""
    own = connector.text("value.converter")
    converter = own if own is not None else worker_text(estate, connector, "value.converter")
    if converter is None or not converter.endswith("JsonConverter"):
        return False
    schemas = connector.text("value.converter.schemas.enable")
    if schemas is None and own is None:
        schemas = worker_text(estate, connector, "value.converter.schemas.enable")
    return (schemas or "true").strip().lower() == "false"
