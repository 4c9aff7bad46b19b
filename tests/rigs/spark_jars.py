"""The jars of Spark's Kafka source, which no wheel brings."""

from pathlib import Path

# Those of Spark 4.3 are not on Maven Central: these run on it. What else they need is in pyspark's own jars.
COORDINATES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def kafka_source_jars(cache: Path) -> tuple[str, ...]:
    """Paths of the jars, fetched once into `cache`; empty where they cannot be had."""
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=cache, timeout=60)
    try:
        return tuple(str(context.create_dependency(name).artifact.resolve()) for name in COORDINATES)
    except (OSError, RuntimeError, ValueError, AssertionError):  # the errors of requests are OSErrors
        return ()
