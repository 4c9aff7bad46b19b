"""Real processes (sleep), because recognising them is the point."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkakit.adapters.host import process_stat
from kafkakit.adapters.processes import LocalProcesses, draw_graph
from kafkakit.core.errors import UsageError
from kafkakit.core.programs import ProcessRecord
from tests.rigs.waiting import until

SLEEPER = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)


def forget(record: ProcessRecord) -> None:
    """Record nothing."""
    del record


StartSleeper = Callable[[], ProcessRecord]


@pytest.fixture
def processes() -> Iterator[LocalProcesses]:
    made = LocalProcesses(process_stat)
    yield made
    made.kill(made.started())


@pytest.fixture
def start(processes: LocalProcesses, tmp_path: Path) -> StartSleeper:
    def start() -> ProcessRecord:
        log = tmp_path / f"log-{len(processes.started())}"
        record = processes.start((sys.executable, "-Xmarker=1", "-c", SLEEPER), str(log), forget)
        until(lambda: b"ready" in log.read_bytes())
        return record

    return start


def test_a_started_process_is_ours_until_it_is_killed(processes: LocalProcesses, start: StartSleeper) -> None:
    record = start()
    assert processes.is_alive(record)
    assert LocalProcesses(process_stat).is_alive(record), "another kafkakit recognises it too"
    assert list(processes.kill([record])) == [record]
    assert not processes.is_alive(record)
    assert list(processes.kill([record])) == []


@pytest.mark.parametrize("change", [{"started_ticks": 1}, {"marker": "-Xmarker=2"}, {"marker": "-Xmarker"}])
def test_a_process_that_differs_in_one_fact_is_never_signalled(
    processes: LocalProcesses, start: StartSleeper, change: dict[str, object]
) -> None:
    record = start()
    recycled = replace(record, **change)  # type: ignore[arg-type]
    assert not processes.is_alive(recycled)
    assert list(processes.kill([recycled], graceful_s=0.1)) == []
    assert processes.is_alive(record)


def test_our_own_pid_in_a_record_is_not_signalled(processes: LocalProcesses) -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: caught.append(number))
    try:
        processes.kill([ProcessRecord(pid=os.getpid(), started_ticks=5, marker="python")], graceful_s=0.05)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert caught == []


def test_a_zombie_counts_as_dead() -> None:
    child = subprocess.Popen([sys.executable, "-Xmarker=1", "-c", "pass"])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        started = int(Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
        record = ProcessRecord(pid=child.pid, started_ticks=started, marker="-Xmarker=1")
        assert not LocalProcesses(process_stat).is_alive(record)
    finally:
        child.wait()


def test_a_graceful_kill_ends_in_sigkill(processes: LocalProcesses, start: StartSleeper) -> None:
    record = start()
    assert list(processes.kill([record], graceful_s=0.1)) == [record]
    assert not processes.is_alive(record)


def test_a_command_that_does_not_exist_is_one_clear_error(processes: LocalProcesses, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        processes.start((str(tmp_path / "java"), "marker"), str(tmp_path / "log"), forget)
    assert "not there" in str(caught.value)


def test_a_short_process_gives_its_status_and_is_killed_when_late(processes: LocalProcesses, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    short = processes.start((sys.executable, "-Xm=1", "-c", "raise SystemExit(3)"), log, forget)
    late = processes.start((sys.executable, "-Xm=1", "-c", SLEEPER), log, forget)
    assert processes.wait(short, 280) == 3
    assert processes.wait(late, 0.2) == -signal.SIGKILL
    assert not any(processes.is_alive(record) for record in processes.started())


def test_free_ports_are_distinct_free_and_not_for_outgoing_connections(processes: LocalProcesses) -> None:
    lowest_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = processes.free_ports(30)
    assert len(set(ports)) == 30
    for port in ports:
        assert 1024 <= port < lowest_outgoing
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def test_a_taken_port_is_not_offered(processes: LocalProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert processes.answers(port)
        draws = iter([port - 10_000, 5])
        monkeypatch.setattr("kafkakit.adapters.processes.secrets.randbelow", lambda limit: next(draws))
        assert processes.free_ports(1) == (10_005,)
    assert not processes.answers(port)


@pytest.mark.parametrize("moment", ["start", "kill"])
def test_a_stop_that_comes_in_between_waits_until_the_process_is_known(
    processes: LocalProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Ctrl-C right after the fork, or between two kills: the worst moments."""
    command = (sys.executable, "-Xmarker=1", "-c", SLEEPER)
    spawn = subprocess.Popen

    def spawn_and_stop(*words: object, **options: object) -> object:
        child = spawn(*words, **options)  # type: ignore[call-overload]
        os.kill(os.getpid(), signal.SIGINT)
        return child

    if moment == "start":
        monkeypatch.setattr(subprocess, "Popen", spawn_and_stop)
        with pytest.raises(KeyboardInterrupt):
            processes.start(command, str(tmp_path / "log"), forget)
        assert [processes.is_alive(record) for record in processes.started()] == [True]
        return
    records = [processes.start(command, str(tmp_path / "log"), forget) for _ in range(2)]
    send = os.kill

    def kill_and_stop(pid: int, number: int) -> None:
        send(pid, number)
        if number == signal.SIGKILL and pid == records[0].pid:
            send(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(os, "kill", kill_and_stop)
    with pytest.raises(KeyboardInterrupt):
        processes.kill(records)
    assert [processes.is_alive(record) for record in records] == [False, False]


def test_a_process_begins_only_after_it_was_recorded(processes: LocalProcesses, tmp_path: Path) -> None:
    log = tmp_path / "log"
    seen: list[tuple[bool, bytes]] = []

    def remember(record: ProcessRecord) -> None:
        time.sleep(0.1)
        seen.append((processes.is_alive(record), log.read_bytes()))

    record = processes.start((sys.executable, "-Xm=1", "-c", "print('began')"), str(log), remember)
    assert processes.wait(record, 280) == 0
    assert seen == [(True, b"")], "known already, and not begun"
    assert log.read_bytes() == b"began\n"


def test_a_starter_that_is_killed_before_the_record_leaves_no_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = (
        "import os, signal, sys\n"
        "from kafkakit.adapters.host import process_stat\n"
        "from kafkakit.adapters.processes import LocalProcesses\n"
        "def die(record):\n"
        "    print(record.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"LocalProcesses(process_stat).start((sys.executable, '-Xm=1', '-c', 'print(1)'), {str(log)!r}, die)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    stat = Path(f"/proc/{int(done.stdout)}/stat")
    until(lambda: not stat.exists() or " Z " in stat.read_text())
    assert log.read_bytes() == b""


@pytest.mark.parametrize(
    ("script", "drawing"),
    [
        ("sed 's/^/<svg>/'", "<svg>digraph { a }"),
        ("cat; exit 1", ""),
        ("cat > /dev/null; exec sleep 600", ""),
        (None, ""),
    ],
)
def test_a_graph_is_drawn_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, drawing: str
) -> None:
    if script is not None:
        (tmp_path / "dot").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin" if script else str(tmp_path))
    assert draw_graph("digraph { a }", 60 if drawing else 0.5) == drawing
