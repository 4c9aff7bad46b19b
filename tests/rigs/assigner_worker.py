"""A worker of the Assigner in a process of its own, which tests kill.

Its argument is a JSON object: profile, stream, group and trace. It writes a line for each record that it handled, with
one system call before the handler returns, and one with what it holds a few times a second. SIGTERM ends it in order.
"""

import json
import os
import signal
import sys
import threading

from kafkakit.streams.client import control_store as route_follower
from kafkakit.streams.client.connect import ConsumerOptions, WorkerOptions, connect
from kafkakit.streams.client.workers import StreamRecord

LOOK_S = 0.1


def main() -> None:
    given = json.loads(sys.argv[1])
    route_follower.WAIT_S = 0.5
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    trace = os.open(given["trace"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def note(*words: object) -> None:
        os.write(trace, (" ".join(map(str, words)) + "\n").encode())

    def handle(record: StreamRecord) -> None:
        place = record.origin.partition
        note("done", place.topic, place.partition, record.offset, (record.value or b"").decode())

    # Dead after a time that no machine holds it up for: one that is killed is known to be gone.
    worker = WorkerOptions(capacity=given.get("capacity", 100), ttl_s=30.0)
    with connect(given["profile"], worker=worker) as client:
        options = ConsumerOptions(commit_every_s=0.3, close_s=5.0)
        consumer = client.consumer(given["stream"], given["group"], handler=handle, options=options)
        consumer.start()
        while not ended.wait(LOOK_S):
            figures = consumer.figures()
            note("held", len(figures.partitions), *sorted(f"{p.partition}" for p in figures.partitions))
            for problem in figures.problems:
                note("problem", problem)
        consumer.close()
    note("end")


if __name__ == "__main__":
    main()
