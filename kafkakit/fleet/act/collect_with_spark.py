"""Collecting a fleet as a Spark job with one task a cluster."""

import json
from collections.abc import Sequence
from pathlib import Path

from kafkakit.audit.api import SparkChoice
from kafkakit.audit.api_act import DriverJob, DriverPorts, log_tail, run_driver
from kafkakit.core.errors import OperationFailedError
from kafkakit.fleet.decide.outcomes import ClusterOutcome, task_outcome


def collect_with_spark(
    clusters: Sequence[str], words: Sequence[str], folder: Path, choice: SparkChoice, ports: DriverPorts
) -> tuple[ClusterOutcome, ...]:
    """Submit the job, wait for its end and say for each cluster what came of it, in their order.

    Raises `OperationFailedError` when the driver fails, `TryLaterError` while another process runs it from `folder`,
    `UsageError` where no Spark or Java is found.
    """
    request, result = folder / "request.json", folder / "result.json"

    def prepare() -> None:
        result.unlink(missing_ok=True)
        ports.write_file(request, json.dumps({"clusters": list(clusters), "words": list(words)}).encode())

    job = DriverJob(
        run=folder.name,
        folder=str(folder),
        arguments=("--request", str(request), "--result", str(result)),
        main="collect.py",
        whole_package=True,
    )
    code = run_driver(job, choice, ports, prepare=prepare, watch=lambda _: None)
    if code or not result.exists():
        tail = " | ".join(log_tail(str(folder)))
        raise OperationFailedError(f"the Spark job ended with code {code}: {tail}", hint=f"its log is in {folder}")
    return tuple(task_outcome(row) for row in json.loads(result.read_text(encoding="utf-8")))
