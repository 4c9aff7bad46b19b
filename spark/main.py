"""The entry point that spark-submit runs; needs the code's zip among the Python files.

`main.py --spec FILE` runs audits; it exits 0 when all jobs came to their end, whatever they found, and 1 when one
failed. `main.py --request FILE --result FILE` collects clusters, one task each, for `kafkakit fleet collect`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def sail_session(name: str) -> Iterator[SparkSession]:
    """A session of Sail, an engine without a JVM whose server runs in this process; needs `kafkakit[audit]`.

    Listens on a port of the loopback device, for as long as the session lasts.
    """
    from kafkakit_spark.runner import spark_session
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    try:
        host, port = server.listening_address
        with spark_session(name, remote=f"sc://{host}:{port}") as session:
            yield session
    finally:
        server.stop()


def collect(request: Path, result: Path) -> int:
    """Run a task for each cluster, write what the tasks printed."""
    from kafkakit_spark.runner import collect_clusters, spark_session

    asked = json.loads(request.read_text(encoding="utf-8"))
    with spark_session("kafkakit-collect") as spark:
        rows = collect_clusters(spark, asked["clusters"], asked["words"])
    result.write_text(json.dumps(rows), encoding="utf-8")
    return 0


def main() -> int:
    """Read the spec, run its jobs; or collect clusters."""
    parser = argparse.ArgumentParser(description="Run the audits of a job spec, or collect clusters, one task each.")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--spec", help="The job spec, a file of this host.")
    asked.add_argument("--request", help="Clusters and words of the command that collects, a file of this host.")
    parser.add_argument("--result", help="With --request: where to write what the tasks printed.")
    parser.add_argument("--sail", action="store_true", help="Run in Sail, in this process, without a JVM.")
    parser.add_argument("--master", help="Spark's master, if spark-submit does not set it.")
    parser.add_argument("--remote", help="A Spark Connect server, such as sc://127.0.0.1:15002.")
    parser.add_argument("--code", help="The zip of the code, to be sent to a Connect server.")
    parser.add_argument("--conf", action="append", default=[], help="A setting of Spark, KEY=VALUE; repeatable.")
    arguments = parser.parse_args()
    if arguments.request is not None:
        return collect(Path(arguments.request), Path(arguments.result))

    from kafkakit_spark.runner import run_spec, spark_session

    from kafkakit.core.fleet_tables import spec_of

    spec = spec_of(json.loads(Path(arguments.spec).read_text(encoding="utf-8")))
    settings = dict(text.split("=", 1) for text in arguments.conf)
    name, master, remote = f"kafkakit-{spec.run_id}", arguments.master, arguments.remote
    is_here = arguments.sail or (master or "").startswith("local")
    opened = sail_session(name) if arguments.sail else spark_session(name, master=master, remote=remote, conf=settings)
    with opened as spark:
        if arguments.code:
            spark.addArtifacts(arguments.code, pyfile=True)
        return 1 if any(result.error for result in run_spec(spark, spec, is_here=is_here)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
