"""A driver without Spark, for the command line: job code whose main.py does to `drift` what `FAKE_AUDIT` asks for."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kafkakit.adapters import spark as code_zip
from kafkakit.adapters.arrow import ParquetStore
from kafkakit.core.fleet_tables import Manifest
from tests.places import ROOT
from tests.rigs.command_line import Home

MAIN = """
import json, os, signal, sys, time
from dataclasses import replace
from pathlib import Path
from kafkakit.core.fleet_tables import JobResult, spec_of, summary_data
spec_path = Path(sys.argv[sys.argv.index("--spec") + 1])
spec = spec_of(json.loads(spec_path.read_text()))
print("noise of Spark", file=sys.stderr)
results = []
left_out = tuple(f"cluster c{n}: not collected" for n in range(1, 12))
for number, job in enumerate(spec.jobs):
    line = {"kafkakit": "progress", "job": job, "phase": "start", "number": number + 1, "of": len(spec.jobs)}
    print(json.dumps(line), file=sys.stderr, flush=True)
    print("more noise", file=sys.stderr)
    fake = os.environ.get("FAKE_AUDIT", "") if job == "drift" else ""
    if fake in ("die", "crash", "wait"):
        steps = spec_path.parent / job / "steps" / "partitions.parquet"
        steps.mkdir(parents=True)
        (steps / "part-0.parquet").write_bytes(b"half")
    if fake == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if fake == "crash":
        sys.exit("java.lang.OutOfMemoryError")
    if fake == "wait":
        time.sleep(600)
    error = "Boom: no memory" if fake == "fail" else ""
    if fake == "fill":
        try:
            (spec_path.parent / "part-0").write_bytes(bytes(2**24))
        except OSError as full:
            error = str(full)
    found = {} if error else {"warning": 2} if fake == "warn" else {}
    results.append(JobResult(job=job, findings=found, error=error, left_out=left_out if fake == "away" else ()))
summary = spec_path.parent / "summary.json"
part = summary.with_name(".summary.json.part")
part.write_text(json.dumps(summary_data(spec, tuple(results))))
part.replace(summary)
sys.exit(1 if any(r.error for r in results) else 0)
"""
JAVA = """#!/bin/sh
case "$1" in
--list-modules) echo jdk.incubator.vector@17 ;;
*) echo 'openjdk version "17.0.1"' >&2 ;;
esac
"""
# Signals may be ignored where tests run in the background.
START = """
import signal, sys
from pathlib import Path
from kafkakit.adapters import spark as code_zip
from kafkakit.cli.root import run
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
code_zip.CODE_FOLDERS = (Path(sys.argv[1]),) * 2
sys.exit(run(sys.argv[2:]))
"""
DATE = "2026-11-20"


def start_audit(
    code: Path, home: Home, environment: Mapping[str, str], *arguments: str, before: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """`kafkakit audit` as a process, with the job code of a folder; its output is to be read.

    `before` are words that the command line begins with.
    """
    return subprocess.Popen(
        [*before, sys.executable, "-c", START, str(code), "audit", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **home.environment(environment)},
    )


def fake_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Put the driver in place of Spark's; returns the environment that commands need, with a Java of its own."""
    code, java = folder / "code", folder / "java" / "bin" / "java"
    (code / "kafkakit_spark").mkdir(parents=True)
    (code / "kafkakit_spark" / "__init__.py").touch()
    (code / "main.py").write_text(MAIN)
    java.parent.mkdir(parents=True)
    java.write_text(JAVA)
    java.chmod(0o755)
    monkeypatch.setattr(code_zip, "CODE_FOLDERS", (code, code))
    return {"JAVA_HOME": str(folder / "java"), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}


def collected(folder: Path, ended_ms: int = 1) -> Path:
    """A store whose only snapshot is that of one empty cluster."""
    ParquetStore(str(folder)).finish(
        Manifest(cluster="c1", snapshot_date=DATE, started_ms=1, ended_ms=ended_ms, rows={})
    )
    return folder
