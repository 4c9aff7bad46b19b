"""`kafkakit audit` with a driver that is a script: what is started, what is reported, and how a run ends."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkakit.cli.root import StopSignals
from tests.rigs.command_line import Home, Ran
from tests.rigs.fake_spark import DATE, collected, fake_spark, start_audit
from tests.rigs.waiting import until

Audit = Callable[..., Ran]
RUNS_ON = "runs on sail: 0 rows fit this host; --backend local runs Spark"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return fake_spark(tmp_path / "fake", monkeypatch)


@pytest.fixture
def audit(home: Home, environment: dict[str, str], tmp_path: Path) -> Audit:
    """Runs `audit NAME` over a store with one snapshot, or any other command of the group."""
    store = collected(tmp_path / "store")

    def run(name: str, *arguments: str, fake: str = "") -> Ran:
        places = ("--input", str(store), "--output", str(tmp_path / "out"))
        is_job = name in ("drift", "lag", "all")
        own = {**environment, "FAKE_AUDIT": fake}
        return home.run("audit", name, *(places if is_job else ()), *arguments, env=own)

    return run


def run_folder(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "out").iterdir()
    return found


def test_a_run_ends_with_its_findings(audit: Audit, tmp_path: Path) -> None:
    ran = audit("drift", fake="warn")
    folder = run_folder(tmp_path)
    assert ran.code == 1
    assert ran.stderr == f"{RUNS_ON}\njob 1 of 1: drift\n"
    assert ran.stdout.splitlines()[1].split() == ["drift", "done", "0", "2", "0", "0.0"]
    assert ran.stdout.splitlines()[2:] == [
        f"findings: kafkakit audit report {folder}",
        f"run {folder.name} is done; {folder}",
    ]
    assert audit("drift", "--fail-on", "error", fake="warn").code == 0
    assert audit("status", str(folder)).code == 0
    assert audit("status", str(folder), "--fail-on", "warning").code == 1


def test_clusters_that_were_left_out_are_said_first_and_are_no_success(audit: Audit, tmp_path: Path) -> None:
    ran = audit("drift", "--fail-on", "never", fake="away")
    assert ran.code == 1
    lines = ran.stdout.splitlines()
    assert lines[0] == "drift: left out: cluster c1: not collected"
    assert lines[9:11] == ["drift: left out: cluster c10: not collected", "drift: left out: 1 more, see -o json"]
    assert lines[12].split() == ["drift", "done", "0", "0", "0", "0.0"]
    assert audit("status", str(run_folder(tmp_path)), "--fail-on", "never").code == 1


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("drift.nosuch=1", "it has drift.stale_days"),
        ("drift.stale_days=x", ""),
        ("drift.stale_days=-1", ""),
        ("drift.stale_days=nan", ""),
    ],
)
def test_a_threshold_that_cannot_be_is_refused_before_anything_starts(
    audit: Audit, tmp_path: Path, word: str, hint: str
) -> None:
    ran = audit("drift", "--set", word)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: --set '{word}': ")
    assert hint in ran.stderr
    assert not (tmp_path / "out").exists()


def test_a_run_that_has_a_result_is_not_run_again(audit: Audit, tmp_path: Path) -> None:
    audit("drift")
    (run_folder(tmp_path) / "driver.log").unlink()
    ran = audit("drift", "-o", "json")
    assert (ran.code, ran.json["earlier"], ran.json["state"]) == (0, True, "done")
    assert not (run_folder(tmp_path) / "driver.log").exists()
    assert audit("drift", "-o", "json", "--again").json["earlier"] is False
    (run_folder(tmp_path) / "driver.log").unlink()
    collected(tmp_path / "store", ended_ms=2)  # collected anew: the same run of another content
    assert audit("drift", "-o", "json").json["earlier"] is False
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_a_failed_job_stands_beside_the_others_and_runs_again(audit: Audit) -> None:
    for _ in range(2):
        ran = audit("all", "--fail-on", "never", "-o", "json", fake="fail")
        assert (ran.code, ran.json["state"], ran.json["reason"]) == (1, "failed", "1 job failed: drift")
        assert ran.json["earlier"] is False
        assert [job["job"] for job in ran.json["jobs"] if job["error"]] == ["drift"]
        assert ran.json["exit_code"] == 1
    assert "drift failed: Boom: no memory" in audit("all", fake="fail").stdout


@pytest.mark.parametrize(
    ("fake", "how"), [("die", "signal 9"), ("crash", "exit code 1 and without a result; the log ends: ")]
)
def test_a_driver_that_dies_leaves_no_result(audit: Audit, tmp_path: Path, fake: str, how: str) -> None:
    audit("drift", fake=fake)
    folder = run_folder(tmp_path)
    (folder / "summary.json").write_text("of an earlier run")
    ran = audit("drift", "-o", "json", "--again", fake=fake)
    assert (ran.code, ran.json["state"]) == (1, "failed")
    assert how in ran.json["reason"]
    assert "noise of Spark | job 1 of 1: drift | more noise" in ran.json["reason"]
    assert f"hint: kafkakit audit logs {folder}" in ran.stderr
    assert not (folder / "summary.json").exists()
    assert not (folder / "drift").exists()
    status = audit("status", str(folder), "-o", "json")
    assert (status.code, status.json["state"], status.stderr) == (1, "failed", "")
    assert audit("fetch", str(folder), "--to", str(tmp_path / "copy")).code == 2
    assert audit("list", str(tmp_path / "out"), "-o", "tsv").stdout.split("\t")[:2] == [folder.name, "failed"]


def test_a_detached_run_is_followed_refused_and_cancelled(audit: Audit, tmp_path: Path) -> None:
    ran = audit("drift", "--detach", fake="wait")
    folder = run_folder(tmp_path)
    assert (ran.code, ran.stdout) == (0, f"{folder}\n")
    until(lambda: "job 1 of 1: drift" in audit("logs", str(folder)).stdout)
    status = audit("status", str(folder), "-o", "json")
    assert (status.code, status.json["state"], status.json["reason"]) == (75, "running", "job 1 of 1: drift")
    second = audit("drift", fake="wait")
    assert second.code == 75
    assert list((folder / "drift").rglob("*.parquet")), "what another process makes is left alone"
    assert second.stderr.startswith(f"error: run {folder.name}: another kafkakit process is running: process ")
    assert audit("cancel", str(folder)).stdout == f"run {folder.name} is stopped\n"
    assert audit("status", str(folder), "-o", "json").json["reason"] == "cancelled"
    assert audit("cancel", str(folder)).code == 2
    assert not (folder / "summary.json").exists()
    assert not (folder / "drift").exists()


def test_a_time_limit_stops_the_driver(audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is over once the driver is at its job, however slow the machine is."""

    def end_once_it_runs() -> None:
        until(lambda: any("job" in log.read_text() for log in tmp_path.glob("out/*/driver.log")))
        os.kill(os.getpid(), signal.SIGALRM)

    monkeypatch.setattr(StopSignals, "start_timer", lambda *_, **__: threading.Thread(target=end_once_it_runs).start())
    ran = audit("drift", "--timeout", "2s", fake="wait")
    assert ran.code == 75
    assert "was stopped before its end; it has no result" in ran.stderr
    status = audit("status", str(run_folder(tmp_path)), "-o", "json")
    assert (status.json["state"], status.json["reason"]) == ("stopped", "interrupted")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_driver(
    environment: dict[str, str], home: Home, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    store = collected(tmp_path / "store")
    command = ["drift", "--input", str(store), "--output", str(tmp_path / "out")]
    environment = {**environment, "FAKE_AUDIT": "wait"}
    with start_audit(tmp_path / "fake" / "code", home, environment, *command) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"{RUNS_ON}\n"
        assert process.stderr.readline() == "job 1 of 1: drift\n"
        process.send_signal(number)
        assert process.wait(timeout=120) == code
        assert "was stopped before its end" in process.stderr.read()
    folder = run_folder(tmp_path)
    assert not (folder / "summary.json").exists()
    assert not (folder / "drift").exists()
    ran = home.run("audit", "status", str(folder), "-o", "json", env=environment)
    assert (ran.code, ran.json["state"]) == (1, "stopped")


def test_results_are_fetched_into_an_empty_folder(audit: Audit, tmp_path: Path) -> None:
    audit("drift")
    ran = audit("fetch", f"file://{run_folder(tmp_path)}", "--to", str(tmp_path / "copy"))
    assert ran.code == 0
    assert (tmp_path / "copy" / "summary.json").exists()
    assert not (tmp_path / "copy" / ".lock").exists()
    assert "is not empty" in audit("fetch", str(run_folder(tmp_path)), "--to", str(tmp_path / "copy")).stderr


def test_state_of_a_run_below_a_uri_lies_on_this_host(home: Home, environment: dict[str, str], tmp_path: Path) -> None:
    output = f"file://{tmp_path}/out"
    given = ("--input", f"file://{collected(tmp_path / 'store')}", "--output", output)
    ran = home.run("audit", "drift", *given, "--dry-run", "-o", "json", env=environment)
    run = ran.json["run"]
    assert str(home.state / "audits" / run / "spec.json") in ran.json["command"]
    assert not (tmp_path / "out").exists()
    # The script writes its summary beside its spec, so the output has none.
    assert home.run("audit", "drift", *given, env=environment).code == 1
    assert (tmp_path / "out" / run / "spec.json").read_bytes() == (
        home.state / "audits" / run / "spec.json"
    ).read_bytes()
    k8s = ("--backend", "k8s", "--image", "i:1")
    shown = home.run("audit", "drift", *given, *k8s, env=environment)
    assert shown.code == 0
    assert f"mainApplicationFile: {output}/{run}/main.py" in shown.stdout
    assert {p.name for p in (tmp_path / "out" / run).iterdir()} == {"main.py", "kafkakit-code.zip", "spec.json"}
    assert home.run("audit", "status", f"{output}/{run}", env=environment).code == 75


def test_refusals_start_nothing(audit: Audit, home: Home, environment: dict[str, str], tmp_path: Path) -> None:
    assert audit("drift", "--conf", "spark.a.password=x").code == 2
    assert audit("drift", "--date", "2026-11-19").stderr.startswith(
        f"error: {tmp_path / 'store'} has no snapshot of 2026-11-19; the newest is {DATE}\n"
    )
    assert audit("drift", "--backend", "k8s", "--image", "i").code == 2
    empty = home.run("audit", "drift", "--input", str(tmp_path), "--output", str(tmp_path / "out"), env=environment)
    assert (empty.code, "has no snapshot\nhint: collect some" in empty.stderr) == (2, True)
    assert audit("status", str(tmp_path)).code == 2
    assert not (tmp_path / "out").exists()


def test_an_output_that_takes_nothing_is_a_failure(audit: Audit, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    ran = audit("drift")
    assert (ran.code, ran.stdout) == (1, "")
    assert "Not a directory" in ran.stderr


def test_a_full_disk_leaves_no_result(environment: dict[str, str], home: Home, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    mount = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        f'mount -t tmpfs -o size=1m none {output} && "$@"; code=$?; ls -R {output}; exit $code',
    ]
    if subprocess.run([*mount, "sh", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespaces of users here, for a small disk of its own")
    given = ["--input", str(collected(tmp_path / "store")), "--output", str(output)]
    environment = {**environment, "FAKE_AUDIT": "fill"}
    before = [*mount, "sh"]
    with start_audit(tmp_path / "fake" / "code", home, environment, "drift", *given, before=before) as process:
        stdout, stderr = process.communicate(timeout=280)
    assert process.returncode == 1, stderr
    assert "No space left on device" in stderr
    assert "is done" not in stdout
    assert "part-0" in stdout
    assert not re.search(r"^summary\.json$", stdout, re.MULTILINE)


def test_without_spark_the_extra_is_named(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = audit("drift")
    assert ran.code == 2
    assert ran.stderr.endswith("hint: install it with: pip install 'kafkakit[audit]'\n")
