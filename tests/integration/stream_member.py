"""A member of a group in a process of its own, for tests that kill it; its argument is a JSON object.

Records whose number is a multiple of `poison` always fail, those that are a multiple of `slow` take 50 ms; that of the
number `exit_at` ends the process. Once `most`
are taken (0: all) it handles no more, and waits to be killed. Each record that was handled, each dead letter, and that
SIGTERM ends the member from now on is a line in the trace, written with one system call.
"""

import itertools
import json
import os
import signal
import sys
import threading
import time

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.config.security import Security
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import ConsumerHooks, ConsumerOptions, RejectedRecord
from kafkakit.streams.client.decide.work_rules import Mode, RetryRule, WorkRules
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.model.route import decode_route


def main() -> None:
    given = json.loads(sys.argv[1])
    route = decode_route(given["route"].encode(), "the test")
    trace = os.open(given["trace"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    poison, slow, most = given.get("poison", 0), given.get("slow", 7), given.get("most", 0)
    taken = itertools.count(1)

    def note(what: str, record: StreamRecord) -> None:
        number = (record.value or b"").decode()
        os.write(trace, f"{what} {number} {record.origin.partition.partition} {record.offset}\n".encode())

    def handle(record: StreamRecord) -> None:
        number = int(record.value or b"0")
        if most and next(taken) > most:
            threading.Event().wait()
        if number == given.get("exit_at"):
            raise SystemExit(7)
        if poison and number % poison == 0:
            raise ValueError("poison")
        time.sleep(0.05 if number % slow == 0 else 0.001)
        note("done", record)

    def dead(rejected: RejectedRecord) -> None:
        note("dead", rejected.record)

    consumer = StreamConsumer(
        group=given["group"],
        route=lambda: route,
        open_member=lambda profile, group: KafkaGroupConsumer(
            given["servers"], Security(), group, session_timeout_ms=given["session_ms"]
        ),
        clock=SystemClock(),
        handler=handle,
        options=ConsumerOptions(
            work=WorkRules(
                mode=Mode(given["mode"]),
                retry=RetryRule(first_ms=20, max_ms=100, max_tries=3),
            ),
            concurrency=8,
            commit_every_s=0.3,
        ),
        hooks=ConsumerHooks(reject=dead),
    )
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    os.write(trace, b"ready 0 0 0\n")
    consumer.run()


if __name__ == "__main__":
    main()
