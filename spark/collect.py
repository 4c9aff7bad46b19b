"""The entry point of `kafkakit fleet collect --backend spark-submit`: `collect.py --request FILE --result FILE`."""

import argparse
import json
from pathlib import Path


def main() -> int:
    """Read the request, run a task for each cluster, write what the tasks printed."""
    parser = argparse.ArgumentParser(description="Collect clusters, one task each.")
    parser.add_argument("--request", required=True, help="Clusters and words of the command, a file of this host.")
    parser.add_argument("--result", required=True, help="Where to write what the tasks printed.")
    arguments = parser.parse_args()

    from kafkakit_spark.runner import collect_clusters, spark_session

    request = json.loads(Path(arguments.request).read_text(encoding="utf-8"))
    with spark_session("kafkakit-collect") as spark:
        rows = collect_clusters(spark, request["clusters"], request["words"])
    Path(arguments.result).write_text(json.dumps(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
