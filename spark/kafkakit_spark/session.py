"""The Spark session that audits run in: what must hold for every answer to be the same everywhere."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

FIXED: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Clusters may be named 007.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # A damaged file must not end the audit of the other clusters; `SnapshotStore` finds what is missing by counting.
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Else each operator looks up and sends the line of Python that made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}


def open_session(
    name: str, *, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session; without `master` and `remote` that of spark-submit, or of the environment.

    `settings` replace the defaults, which spark-submit gives itself. Starting takes about 5 s, 15 s with Connect.
    """
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
    elif master is not None:
        builder = builder.master(master).config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    defaults = DEFAULTS if master is not None or remote is not None else {}
    for key, value in {**defaults, **(settings or {}), **FIXED}.items():
        if remote is None or key.startswith("spark.sql."):
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    for key, value in FIXED.items():
        session.conf.set(key, value)
    return session
