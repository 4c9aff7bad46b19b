"""A producer or a consumer of a stream in a process of its own, which tests kill and stop.

Its argument is a JSON object. What it did is in its trace, a line for each event, each written with one system call, so
that SIGKILL loses nothing that happened before. SIGTERM ends it in order.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.config.read.environment import read_environment
from kafkakit.config.read.settings import GivenSettings, Settings, load_settings
from kafkakit.ports.acting import Clock
from kafkakit.ports.streams import MemberRule
from kafkakit.streams.client import control_store as route_follower
from kafkakit.streams.client import dead_letters as dead_letter_lane
from kafkakit.streams.client.client import ClientParts, StreamClient
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import BATCH_LIMIT_BYTES, ConsumerHooks, ConsumerOptions
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.decide.partition_work import CommitRule
from kafkakit.streams.client.decide.work_rules import (
    DependencyDownError,
    Mode,
    MoveRule,
    RejectError,
    RetryRule,
    WorkLimits,
    WorkRules,
)
from kafkakit.streams.client.guarded_member import GuardedMember
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.wiring import open_control, open_log, open_stream_cluster, this_process

LOOK_S, STATE_EVERY = 0.1, 50
SESSION_MS = 6_000
POISON, REJECTED, FLAKY = 97, 89, 13


def is_rejected(number: int) -> bool:
    """Whether no handler takes the record: it fails always, or the handler says that it never will be handled."""
    return number % POISON == 0 or number % REJECTED == 0


class JumpingClock(SystemClock):
    """A wall clock that is set years forth and back all the time; the monotonic one is the system's."""

    def __init__(self, seed: int) -> None:
        self._chosen = random.Random(seed)

    def now(self) -> datetime:
        """Any time from 1971 to 2100."""
        return datetime(1971, 1, 1, tzinfo=UTC) + timedelta(seconds=self._chosen.randrange(129 * 365 * 86_400))


class Trace:
    """Lines of one process; safe for threads."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def __call__(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def open_client(given: dict[str, Any]) -> StreamClient:
    """As `connect`, with sessions as short as brokers allow, and a clock that may jump."""
    route_follower.WAIT_S, dead_letter_lane.WRITE_S = 0.5, 3.0
    clock: Clock = JumpingClock(given["seed"]) if given["jumps"] else SystemClock()
    base = GivenSettings(profile=given["profile"], profile_origin="argument")

    def settings(name: str) -> Settings:
        return load_settings(base.for_profile(name), read_environment(), warn=print, input_allowed=False)

    def open_member(name: str, group: str, _: MemberRule) -> KafkaGroupConsumer:
        found = settings(name)
        return KafkaGroupConsumer(found.bootstrap_servers or "", found.security, group, session_timeout_ms=SESSION_MS)

    def open_guarded(name: str, group: str, _: MemberRule) -> GuardedMember:
        there = settings(name)
        servers = there.bootstrap_servers or ""
        member = KafkaGroupConsumer(servers, there.security, group, session_timeout_ms=SESSION_MS, fetches=False)
        return GuardedMember(member, open_log(there, committed=True), SystemClock(), limit_bytes=BATCH_LIMIT_BYTES)

    parts = ClientParts(
        store=open_control(settings(given["profile"])),
        open_cluster=lambda name: open_stream_cluster(settings(name)),
        open_member=open_member,
        open_guarded=open_guarded,
        open_log=lambda name: open_log(settings(name)),
        clock=clock,
        random_bytes=os.urandom,
        holder=this_process("streams client"),
    )
    return StreamClient(parts)


def produce(client: StreamClient, given: dict[str, Any], trace: Trace, ended: threading.Event) -> None:
    """Numbered records until it is told to end; a record's number is in its value, and is used once."""
    limits = ProducerLimits(delivery_s=120, lane_records=20_000, compression=given["compression"])
    producer = client.producer(given["stream"], limits=limits)

    def note(number: int, delivery: Any) -> None:
        if delivery.exception() is None:
            place = delivery.result()
            trace("acked", number, place.topic, place.partition, place.offset)
        else:
            trace("failed", number, delivery.exception())

    def look() -> None:
        metrics = producer.metrics()
        trace("again", sum(lane.counters.sent_again for lane in metrics.lanes))
        trace("figures", metrics.route.epoch)
        if metrics.route.problem:
            trace("problem", "route:", metrics.route.problem)

    looking = _often(look, ended)
    for number in range(given["first"], given["first"] + 1_000_000):
        if ended.is_set():
            break
        trace("sent", number)
        delivery = producer.send(b"%d" % number, b"%d" % (number % 50))
        delivery.add_done_callback(partial(note, number))
        if number % 10 == 0:
            time.sleep(10 / given["per_s"])
    left = producer.flush(120)
    if left:
        trace("failed", "flush", left.records)
    looking.join()
    look()
    producer.close(0)
    trace("end")


class Handlers:
    """One of each kind. They fail, wait for a dependency while the file `outage` is there, and give records up."""

    def __init__(self, given: dict[str, Any], trace: Trace) -> None:
        self._given, self._trace, self._outage = given, trace, Path(given["outage"])

    def handler(self, record: StreamRecord) -> None:
        number = self._check(record)
        time.sleep(self._given["handle_s"])
        self._done(record, number)

    def batch_handler(self, records: Sequence[StreamRecord]) -> dict[int, Exception]:
        errors, stopped, mode = dict[int, Exception](), set[object](), self._given["mode"]
        for at, record in enumerate(records):
            # A record without a key waits for no other one.
            is_alone = mode == "unordered" or (mode == "key" and record.key is None)
            key = object() if is_alone else record.key if mode == "key" else None
            try:
                if key not in stopped:  # the client skips them, too
                    self.handler(record)
            except Exception as error:
                errors[at] = error
                stopped.add(key)
        return errors

    async def async_handler(self, record: StreamRecord) -> None:
        number = self._check(record)
        await asyncio.sleep(self._given["handle_s"])
        self._done(record, number)

    def _check(self, record: StreamRecord) -> int:
        number = int(record.value or b"-1")
        if self._given["reads_headers"]:
            dict(record.headers)
        # Half of the records need the dependency, in no pattern that is short to tell.
        if sha256(record.value or b"").digest()[0] & 1 and self._outage.exists():
            raise DependencyDownError("database")
        if number % POISON == 0:
            raise ValueError("poison")
        if number % REJECTED == 0:
            raise RejectError("never")
        if number % FLAKY == 0 and record.tries < 2:
            raise ConnectionError("not yet")
        return number

    def _done(self, record: StreamRecord, number: int) -> None:
        place = record.origin.partition
        self._trace("done", place.topic, place.partition, record.offset, number)


def consume(client: StreamClient, given: dict[str, Any], trace: Trace, ended: threading.Event) -> None:
    """A consumer until it is told to end, with what its figures say."""
    outage = Path(given["outage"])
    options = ConsumerOptions(
        work=WorkRules(
            mode=Mode(given["mode"]),
            retry=RetryRule(first_ms=30, max_ms=300, max_tries=4),
            moves=MoveRule(acks_per_move=2),
            limits=WorkLimits(**given["limits"]),
        ),
        commit=CommitRule(limit_chars=given["limit_chars"]),
        concurrency=8,
        commit_every_s=0.3,
        close_s=5.0,
        strict_guard=given["strict"],
    )
    # Where only records that fail are left, as when the last ones are read by a new life, nothing else ends it.
    hooks = ConsumerHooks(is_healthy=lambda: not outage.exists())
    handler: dict[str, Any] = {given["handler"]: getattr(Handlers(given, trace), given["handler"])}
    consumer = client.consumer(given["stream"], given["group"], options=options, hooks=hooks, **handler)

    looks = itertools.count(1)

    def look() -> None:
        trace("look")
        figures = consumer.figures()
        if next(looks) % STATE_EVERY == 0:  # for whoever wonders why something stands
            for one in [one for one in figures.partitions if one.lag or one.waiting or one.undurable][:5]:
                trace("state", one)
        for one in figures.partitions:
            trace("figure", one.partition.topic, one.partition.partition, one.duplicates, one.handled)
        trace("figures", figures.epoch)
        condition = client.follower(given["stream"]).condition()
        for problem in (*figures.problems, *([f"route: {condition.problem}"] if condition.problem else ())):
            trace("problem", problem)
        if figures.commit_errors:  # the error itself is gone with the next commit that succeeds
            trace("problem", "commits failed")

    looking = _often(look, ended)
    if given["handler"] == "async_handler":
        asyncio.run(_until(ended, consumer))
    else:
        consumer.start()
        ended.wait()
        looking.join()
        look()
        consumer.close()
    trace("end")


async def _until(ended: threading.Event, consumer: StreamConsumer) -> None:
    stopping = asyncio.create_task(asyncio.to_thread(ended.wait))
    stopping.add_done_callback(lambda _: consumer.stop())
    await consumer.run_async()


def _often(look: Any, ended: threading.Event) -> threading.Thread:
    def work() -> None:
        while not ended.wait(LOOK_S):
            look()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def main() -> None:
    given = json.loads(sys.argv[1])
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    client = open_client(given)
    act = produce if given["role"] == "producer" else consume
    act(client, given, Trace(given["trace"]), ended)
    client.close(1)


if __name__ == "__main__":
    main()
