"""The cluster reader in a process of its own: decoding 100,000 partitions would hold up the answers of this one."""

import gc
import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Thread

from msgspec import msgpack

from kafkakit.core.errors import KafkakitError
from kafkakit.registry.act.cluster_reader import ClusterReader, OpenReader
from kafkakit.registry.decide.facts import Change

_DECODER = msgpack.Decoder(Change)
NICENESS = 10
"""Answers go before readings where there are fewer cores than work."""


class ReaderProcess:
    """A child process that sends a change each `every_s`; to be made before this process has threads of its own.

    `receive` is called with each change, `ended` once when the child is gone although it was not stopped; both from a
    thread. The child ends with its parent, since the pipe between them does.
    """

    def __init__(self, open_reader: OpenReader, every_s: float) -> None:
        ours, theirs = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _run_child(theirs, open_reader, every_s)
        theirs.close()
        self._pipe, self._is_stopped = ours, False

    def start(self, receive: Callable[[Change], None], ended: Callable[[], None]) -> None:
        """Hand on what the child sends from now on."""
        Thread(target=self._follow, args=(receive, ended), name="reader", daemon=True).start()

    def stop(self) -> None:
        """End the child; harmless when it has ended."""
        self._is_stopped = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._pipe.close()

    def _follow(self, receive: Callable[[Change], None], ended: Callable[[], None]) -> None:
        try:
            while True:
                receive(_DECODER.decode(self._pipe.recv_bytes()))
        except (EOFError, OSError):
            if not self._is_stopped:
                ended()


def _run_child(pipe: Connection, open_reader: OpenReader, every_s: float) -> None:
    """Read and send until the pipe breaks; leaves the process without the parent's exit handlers."""
    code = 1
    try:
        # They go to the whole group: the parent ends in order, and ends us.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        follow(pipe, open_reader, every_s)
        code = 0
    except Exception:
        traceback.print_exc()  # the parent can only tell that it is gone
    finally:
        os._exit(code)


def follow(pipe: Connection, open_reader: OpenReader, every_s: float) -> None:
    """Send a change each `every_s` until the other end is closed."""
    reader: ClusterReader | None = None
    niceness = NICENESS
    with suppress(EOFError, OSError):
        while True:
            try:
                reader = reader or open_reader()
                change = reader.read()
            except KafkakitError as error:
                change = Change(failure=error.message)
            pipe.send_bytes(msgpack.encode(change))
            del change
            os.nice(niceness)  # from the second reading on: the first is waited for
            niceness = 0
            gc.collect()
            if pipe.poll(every_s):
                pipe.recv_bytes()
