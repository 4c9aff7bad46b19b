"""Ctrl-C while a solver has the main thread, where Python's own handlers wait: in real processes."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.places import ROOT

# A call of OpenSSL for minutes: like a solver's, it lets other threads run and does not look at signals. The
# thread that prints gets its turn only then.
HELD = """
import hashlib, os, sys, threading
from kafkakit.cli.context import CliContext
from kafkakit.cli.search_watch import answered_at_once, watching

sys.setswitchinterval(1000)
begun = threading.Event()
threading.Thread(target=lambda: begun.wait() and os.write(2, b"held\\n"), daemon=True).start()
with {manager}:
    begun.set()
    hashlib.pbkdf2_hmac("sha256", b"p", b"s", 2_000_000_000)
"""


@contextmanager
def held(manager: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", HELD.format(manager=manager)], stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if line == "held\n":
                    break
            yield process
        finally:
            process.kill()


def test_the_first_is_answered_and_the_second_ends_at_once() -> None:
    with held("watching(CliContext())") as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith("stopping: the best plan found so far will be used; press Ctrl-C")
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, "error: interrupted\n")


def test_without_a_plan_so_far_the_first_ends_at_once() -> None:
    with held("answered_at_once(None)") as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, "error: interrupted\n")
