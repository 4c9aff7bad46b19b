"""Leases in a control store: one holder at a time, tokens that grow, and honest words to the others."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.adapters.host import SystemClock, life_of, this_holder
from kafkakit.core.errors import ExitCode, InputError, LeaseLostError, TryLaterError
from kafkakit.core.lease import LEASE_DOCUMENT, Holder, LeaseRecord, Life, VersionedValue
from kafkakit.execution.act.leases import Lease, lease_path, read_lease
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.rigs.waiting import stop_process, until

PATH = lease_path("c1")


class Harness:
    """One store and processes on two hosts, each host with a clock of its own that started at another time."""

    def __init__(self) -> None:
        self.store = FakeControlStore()
        self.clock = FakeClock()
        self.far_clock = FakeClock(datetime(1999, 1, 1, tzinfo=UTC))
        self.far_clock.advance(5_000)
        self.lines: list[str] = []
        self.dead: set[str] = set()

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.far_clock.advance(seconds)

    def lease(self, user: str, host: str = "near") -> Lease:
        """A claim; the holder's life is known on its own host only."""
        holder = Holder(host=host, user=user, command="kafkakit reassign apply p.json", pid=7)

        def life(other: Holder) -> Life:
            if other.host != host:
                return Life.UNKNOWN
            return Life.GONE if other.user in self.dead else Life.ALIVE

        clock = self.clock if host == "near" else self.far_clock
        return Lease(self.store, clock, PATH, holder, what="cluster c1", life_of=life, say=self.lines.append)

    def record(self) -> LeaseRecord:
        record = read_lease(self.store, PATH)
        assert record is not None
        return record

    def while_far_sleeps(self, act: Callable[[], object]) -> None:
        """Let time pass here, too, while somebody on the far host waits, and do something each time."""
        self.far_clock.on_sleep.append(self.clock.advance)
        self.far_clock.on_sleep.append(lambda _: act())


@pytest.fixture
def bench() -> Harness:
    return Harness()


def test_tokens_grow_with_every_holder(bench: Harness) -> None:
    first, second = bench.lease("ann"), bench.lease("bob", "far")
    assert first.acquire() == first.token == 1
    first.release()
    assert second.acquire() == 2
    second.release()
    assert first.acquire() == 3
    assert bench.lines == []


def test_a_living_holder_on_this_host_is_named_at_once(bench: Harness) -> None:
    bench.lease("ann").acquire()
    with pytest.raises(TryLaterError) as caught:
        bench.lease("bob").acquire()
    assert caught.value.exit_code is ExitCode.TRY_LATER
    assert caught.value.message == (
        "cluster c1 is locked: held by process 7 of ann on near (kafkakit reassign apply p.json), "
        "since 2026-01-01 00:00:00Z, last renewed 00:00:00Z"
    )
    assert caught.value.hint
    assert bench.clock.elapsed == 0


def test_a_living_holder_elsewhere_is_known_by_its_next_renewal(bench: Harness) -> None:
    first = bench.lease("ann")
    first.acquire(15)
    bench.while_far_sleeps(first.require_held)
    with pytest.raises(TryLaterError, match="held by process 7 of ann on near"):
        bench.lease("bob", "far").acquire()
    assert bench.far_clock.elapsed - 5_000 == pytest.approx(5, abs=1)
    (line,) = bench.lines
    assert re.match(r"cluster c1 is locked: held by process 7 of ann .*; waiting 15s at most", line)
    first.require_held()


def test_a_holder_elsewhere_that_fell_silent_is_replaced_after_its_time_on_our_clock(bench: Harness) -> None:
    first, second = bench.lease("ann"), bench.lease("bob", "far")
    first.acquire(15)
    bench.while_far_sleeps(lambda: None)
    assert second.acquire() == 2
    assert bench.far_clock.elapsed - 5_000 == pytest.approx(15, abs=1)
    with pytest.raises(LeaseLostError, match="taken over, it is held by process 7 of bob on far"):
        first.require_held()
    with pytest.raises(LeaseLostError, match="not held"):
        _ = first.token
    assert bench.record().token == 2


def test_a_holder_that_ended_on_this_host_is_replaced_at_once(bench: Harness) -> None:
    bench.lease("ann").acquire()
    bench.dead.add("ann")
    assert bench.lease("bob").acquire() == 2
    assert (bench.clock.elapsed, bench.lines) == (0, [])


def takes_over(bench: Harness, lease: Lease) -> int:
    """After how many seconds a process that tries each second has the lease; at most a minute."""
    for second in range(60):
        if lease.attempt():
            return second
        bench.pass_time(1)
    return 60


def test_a_holder_that_hangs_on_this_host_is_replaced_after_its_time(bench: Harness) -> None:
    first, second = bench.lease("ann"), bench.lease("bob")
    first.acquire(15)
    waited = takes_over(bench, second)
    assert (waited, bench.record().token) == (15, 2)
    with pytest.raises(LeaseLostError, match="taken over, it is held by process 7 of bob"):
        first.require_held()
    with pytest.raises(TryLaterError, match="held by process 7 of bob"):
        bench.lease("cem").acquire()


def test_a_lease_on_this_host_that_has_run_out_is_watched_before_it_is_taken(bench: Harness) -> None:
    first = bench.lease("ann")
    first.acquire(15)
    bench.pass_time(20)
    began_s = bench.clock.elapsed
    assert bench.lease("bob").acquire() == 2
    assert bench.clock.elapsed - began_s == pytest.approx(15, abs=1)
    bench.clock.start -= timedelta(hours=1)  # the wall clock is set back: it keeps no lease
    assert takes_over(bench, bench.lease("cem")) == pytest.approx(15, abs=1)


@pytest.mark.parametrize("host", ["near", "far"])
def test_a_pause_of_the_store_or_of_all_processes_takes_no_lease_from_its_holder(bench: Harness, host: str) -> None:
    first, second = bench.lease("ann"), bench.lease("bob", host)
    first.acquire(15)
    bench.pass_time(4)
    assert not second.attempt()
    bench.store.away = True
    bench.pass_time(60)
    with pytest.raises(TryLaterError):
        second.attempt()
    bench.pass_time(60)
    bench.store.away = False
    assert not second.attempt()
    first.require_held()
    bench.pass_time(60)
    assert not second.attempt()
    first.require_held()
    assert (bench.record().token, first.is_held()) == (1, True)


def test_a_look_that_takes_long_is_not_a_silence(bench: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = bench.lease("ann"), bench.lease("bob", "far")
    first.acquire(15)
    inner = bench.store.get

    def slow(path: str) -> VersionedValue | None:
        found = inner(path)
        bench.pass_time(20)
        return found

    monkeypatch.setattr(bench.store, "get", slow)
    assert not second.attempt()
    assert not second.attempt()
    monkeypatch.setattr(bench.store, "get", inner)
    first.require_held()
    assert not second.attempt()


def test_a_release_while_somebody_waits_lets_them_in(bench: Harness) -> None:
    first, second = bench.lease("ann"), bench.lease("bob", "far")
    first.acquire()
    bench.while_far_sleeps(first.release)
    assert second.acquire() == 2
    assert bench.far_clock.elapsed - 5_000 < 2


def test_whoever_waits_gives_up_when_another_one_takes_it(bench: Harness) -> None:
    bench.lease("ann").acquire()
    bench.dead.add("ann")
    third = bench.lease("cem")
    bench.while_far_sleeps(lambda: third.acquire() if bench.record().token == 1 else None)
    with pytest.raises(TryLaterError, match="held by process 7 of cem"):
        bench.lease("bob", "far").acquire()


def test_a_short_absence_of_the_store_is_borne_and_a_long_one_ends_the_right_to_act(bench: Harness) -> None:
    lease = bench.lease("ann")
    lease.acquire(15)
    bench.store.away = True
    bench.pass_time(11)
    lease.require_held()
    bench.pass_time(2)
    with pytest.raises(LeaseLostError, match=r"could not be renewed in time \(the control store is away\)"):
        lease.require_held()
    bench.store.away = False
    lease.require_held()
    assert lease.token == bench.record().token == 1


def test_keeping_waits_for_a_store_that_is_away_and_takes_the_lease_up_again(bench: Harness) -> None:
    lease = bench.lease("ann")
    lease.acquire(15)
    writes = bench.store.writes
    lease.keep(300)
    assert bench.store.writes == writes
    bench.pass_time(6)
    bench.store.away = True

    def back_after_a_minute(_: float) -> None:
        bench.store.away = bench.clock.elapsed < 66

    bench.clock.on_sleep.append(back_after_a_minute)
    lease.keep(300)
    assert 66 <= bench.clock.elapsed < 68
    assert lease.is_held()
    assert bench.record().token == 1
    assert bench.lines == [
        "cluster c1: the control store is away; nothing new is begun until it answers, for 5m at most",
        "cluster c1: the control store answers again, and the lease is still ours",
    ]


def test_keeping_has_its_limit_too(bench: Harness) -> None:
    lease = bench.lease("ann")
    lease.acquire(15)
    bench.store.away = True
    bench.pass_time(6)
    with pytest.raises(LeaseLostError, match=r"in time \(the control store is away\)"):
        lease.keep(60)
    assert 66 <= bench.clock.elapsed < 68


def test_after_a_long_pause_nobody_acts_before_asking(bench: Harness) -> None:
    first = bench.lease("ann")
    first.acquire(15)
    writes = bench.store.writes
    bench.pass_time(1)
    first.require_held()
    assert bench.store.writes == writes
    bench.pass_time(3_600)
    first.require_held()
    assert bench.store.writes == writes + 1


def test_a_machine_that_slept_knows_it_by_its_wall_clock(bench: Harness) -> None:
    lease = bench.lease("ann")
    lease.acquire(15)
    bench.store.away = True
    bench.clock.start += timedelta(seconds=20)  # the monotonic clock stood still
    with pytest.raises(LeaseLostError, match="in time"):
        lease.require_held()


def test_a_write_that_took_too_long_gives_no_right(bench: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = bench.lease("ann")
    lease.acquire(15)
    bench.pass_time(6)
    inner = bench.store.cas

    def slow(path: str, value: bytes, expected: int | None) -> int:
        bench.pass_time(13)
        return inner(path, value, expected)

    monkeypatch.setattr(bench.store, "cas", slow)
    with pytest.raises(LeaseLostError, match="in time"):
        lease.require_held()


def test_a_renewal_whose_answer_was_lost_is_recognised(bench: Harness) -> None:
    lease = bench.lease("ann")
    lease.acquire(15)
    bench.store.lose_answers = 1
    bench.pass_time(6)
    lease.require_held()
    bench.pass_time(6)
    lease.require_held()
    assert (bench.record().token, bench.record().beats) == (1, 2)
    lease.release()
    assert bench.record().holder is None


def test_a_lease_is_given_back_after_a_renewal_that_was_cut_short(bench: Harness) -> None:
    lease = bench.lease("ann")
    lease.acquire(15)
    bench.store.lose_answers = 1
    with pytest.raises(TryLaterError):
        lease.renew()
    lease.release()
    assert bench.record().holder is None
    assert bench.lines == []


def test_giving_back_leaves_the_lease_of_another_alone(bench: Harness) -> None:
    first, second = bench.lease("ann"), bench.lease("bob")
    first.acquire()
    bench.dead.add("ann")
    second.acquire()
    first.release()
    assert (bench.record().token, str(bench.record().holder)[:16]) == (2, "process 7 of bob")


def test_giving_back_never_fails(bench: Harness) -> None:
    lease = bench.lease("ann")
    lease.release()
    lease.acquire()
    bench.store.away = True
    lease.release()
    lease.release()
    assert "could not be released (the control store is away)" in bench.lines[0]
    bench.store.away = False
    with pytest.raises(LeaseLostError):
        lease.require_held()


def test_what_a_stranger_wrote_into_its_name_does_not_reach_the_terminal(bench: Harness) -> None:
    bench.lease("ann\x1b[2J\n").acquire()
    with pytest.raises(TryLaterError) as caught:
        bench.lease("bob").acquire()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b'"schema":1', b'"schema":2', "use a newer kafkakit"),
        (b'"kind":"lease"', b'"kind":"wish"', "expected 'lease'"),
        (b'"token":1', b'"token":-1', "token"),
        (b'"ttl_s":15.0', b'"ttl_s":1e9', "ttl_s"),
        (b'"ttl_s":15.0', b'"ttl_s":0', "ttl_s"),
        (b'"pid":7', b'"pid":0', "pid"),
        (b'"pid":7', b'"pid":99999999999', "pid"),
        (b'00Z"', b'00"', "timezone"),
        (b'"user":"ann"', b'"user":"' + b"a" * 300 + b'"', "user"),
        (b"}", b"", "JSON"),
    ],
)
def test_a_document_that_is_no_lease_is_refused(bench: Harness, old: bytes, new: bytes, problem: str) -> None:
    bench.lease("ann").acquire()
    data = LEASE_DOCUMENT.encode(bench.record())
    assert old in data
    with pytest.raises(InputError, match="control document x: ") as caught:
        LEASE_DOCUMENT.decode(data.replace(old, new), "control document x")
    assert problem in str(caught.value)


def test_fields_of_a_later_minor_version_are_passed_over(bench: Harness) -> None:
    bench.lease("ann").acquire()
    data = LEASE_DOCUMENT.encode(bench.record())
    assert LEASE_DOCUMENT.decode(data.replace(b'"token":1', b'"mood":"fine","token":1'), "x") == bench.record()


def test_racing_processes_get_one_lease(tmp_path: Path) -> None:
    """Eight claims at the same moment on files; the losers are told who won, and tokens are never given twice."""
    gate = threading.Barrier(8)
    won: list[int] = []
    refused: list[str] = []

    def claim(number: int) -> None:
        holder = Holder(host="h", user=f"u{number}", command="c", pid=1)
        store = FileControl(tmp_path, write_file)
        lease = Lease(store, SystemClock(), PATH, holder, what="it", life_of=lambda _: Life.ALIVE, say=lambda _: None)
        gate.wait()
        try:
            won.append(lease.acquire())
        except TryLaterError as error:
            refused.append(error.message)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [1]
    assert len(refused) == 7
    assert len(set(refused)) == 1


HOLD = """
import sys, time
from pathlib import Path
from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.adapters.host import life_of, this_holder
from kafkakit.execution.act.leases import Lease
lease = Lease(FileControl(Path(sys.argv[1]), write_file), SystemClock(), sys.argv[2], this_holder("holding"),
              what="cluster c1", life_of=life_of, say=print)
print(lease.acquire(600), flush=True)
time.sleep(600)
"""


KEEP = HOLD.replace("lease.acquire(600)", "lease.acquire(2)").replace(
    "time.sleep(600)", "while True:\n    time.sleep(0.1)\n    lease.require_held()"
)


def test_a_process_that_hangs_loses_its_lease_and_learns_of_it(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", KEEP, str(tmp_path), PATH], stdout=-1, stderr=-1, text=True)
    store = FileControl(tmp_path, write_file)
    lease = Lease(store, SystemClock(), PATH, this_holder("next"), what="c", life_of=life_of, say=lambda _: None)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "1\n"
        stop_process(child.pid)
        until(lambda: lease.attempt(60), "the lease of the hung process is taken over")
        os.kill(child.pid, signal.SIGCONT)
        _, told = child.communicate(timeout=60)
        assert "LeaseLostError: cluster c1: the lease was taken over, it is held by process" in told
        assert (lease.token, lease.is_held()) == (2, True)
    finally:
        child.kill()
        child.communicate()


def test_a_killed_process_leaves_nothing_to_wait_for(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path), PATH], stdout=subprocess.PIPE, text=True)
    lines: list[str] = []
    store = FileControl(tmp_path, write_file)
    lease = Lease(store, SystemClock(), PATH, this_holder("next"), what="cluster c1", life_of=life_of, say=lines.append)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "1\n"
        with pytest.raises(TryLaterError, match=rf"held by process {child.pid} of .* \(holding\)"):
            lease.acquire()
        stop_process(child.pid)
        with pytest.raises(TryLaterError, match=rf"process {child.pid}"):
            lease.acquire()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now: it acts no more
        assert lease.acquire() == 2
        lease.release()
    finally:
        child.kill()
        child.communicate()
    assert lines == []


def test_the_proc_of_another_pid_namespace_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    me, readlink = this_holder("x"), os.readlink
    monkeypatch.setattr(os, "readlink", lambda path: "1" if path == "/proc/self" else readlink(path))
    assert this_holder("x").machine == ""
    assert life_of(me) is life_of(this_holder("x")) is Life.UNKNOWN


def test_life_is_certain_on_this_start_of_this_machine_only() -> None:
    me = this_holder("x" * 1000)
    assert life_of(me) is Life.ALIVE
    again = {name: getattr(me, name) for name in ("host", "user", "command", "pid", "started_ticks", "machine")}
    assert life_of(Holder(**{**again, "started_ticks": me.started_ticks + 1})) is Life.GONE
    assert life_of(Holder(**{**again, "machine": "another"})) is Life.UNKNOWN
    assert life_of(Holder(**{**again, "machine": ""})) is Life.UNKNOWN
    assert life_of(Holder(**{**again, "started_ticks": 0})) is Life.UNKNOWN
    assert life_of(Holder(**{**again, "pid": 2**31 - 1})) is Life.GONE
    assert len(me.command) == 200
