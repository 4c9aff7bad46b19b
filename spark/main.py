"""The entry point that spark-submit runs: `main.py --spec FILE`; needs the code's zip among the Python files.

Exits 0 when all jobs came to their end, whatever they found, and 1 when one failed.
"""

import argparse
import json
from pathlib import Path


def main() -> int:
    """Read the spec, run its jobs."""
    parser = argparse.ArgumentParser(description="Run the audits of a job spec.")
    parser.add_argument("--spec", required=True, help="The job spec, a file of this host.")
    parser.add_argument("--master", help="Spark's master, if spark-submit does not set it.")
    parser.add_argument("--remote", help="A Spark Connect server, such as sc://127.0.0.1:15002.")
    parser.add_argument("--code", help="The zip of the code, to be sent to a Connect server.")
    parser.add_argument("--conf", action="append", default=[], help="A setting of Spark, KEY=VALUE; repeatable.")
    arguments = parser.parse_args()

    from kafkakit_spark.runner import open_session, run_spec

    from kafkakit.core.fleet_tables import spec_of

    spec = spec_of(json.loads(Path(arguments.spec).read_text(encoding="utf-8")))
    settings = dict(text.split("=", 1) for text in arguments.conf)
    name = f"kafkakit-{spec.run_id}"
    spark = open_session(name, master=arguments.master, remote=arguments.remote, settings=settings)
    try:
        if arguments.code:
            spark.addArtifacts(arguments.code, pyfile=True)
        return 1 if any(result.error for result in run_spec(spark, spec)) else 0
    finally:
        spark.stop()


if __name__ == "__main__":
    raise SystemExit(main())
