"""Records a second of the stream consumer beside a plain confluent-kafka consumer, in the same run.

Run: python bench/streams_consumer.py [--records N] [--rounds N] [--servers HOST:PORT]. Without `--servers` it starts a
sandbox of one broker. Topics of 4 partitions hold records of 1 KB. `plain` is a loop of `consume(1000)` that reads each
value and commits positions every second; ours are handlers of single records and of batches in each mode, with
commits every second. Handlers do nothing but read the value. Each figure is the median of the rounds, the plain one
measured before and after each of ours. Prints one JSON object.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from machine import shape
from sandboxes import one_broker

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.config.security import Security
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import ConsumerOptions
from kafkakit.streams.client.decide.work_rules import Mode, WorkRules
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState

TOPIC, PARTITIONS, SIZE = f"orders.live.{os.getpid()}", 4, 1_000
ASKED = 0.6
LIMIT_S = 300.0


def fill(servers: str, records: int) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 500_000})
    value = os.urandom(SIZE)
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, value, key=b"%d" % (number % 5_000), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(60)


Figures = tuple[float, float]
"""Records a second, and microseconds of CPU a record, with librdkafka's threads."""


def plain(servers: str, group: str, records: int) -> Figures:
    from confluent_kafka import Consumer

    client = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    client.subscribe([TOPIC])
    seen, began, before, next_s, cpu_s = 0, 0.0, 0, 0.0, 0.0
    while seen < records:
        for message in client.consume(1000, 0.05):
            if message.error() is None:
                message.value()
                seen += 1
        now = time.monotonic()
        if seen and not began:
            began, before, cpu_s = now, seen, time.process_time()
        if seen and now >= next_s:
            client.commit(asynchronous=True)
            next_s = now + 1
    took, cpu_s = time.monotonic() - began, time.process_time() - cpu_s
    client.close()
    return (records - before) / took, cpu_s / (records - before) * 1e6


def route(cluster_id: str) -> Route:
    segment = Segment(
        id=1,
        cluster="bench",
        cluster_id=cluster_id,
        topic=TOPIC,
        topic_id="00000000-0000-0000-0000-000000000001",
        partitions=PARTITIONS,
        state=SegmentState.ACTIVE,
    )
    return Route(stream="orders", epoch=1, next_segment=2, lanes=(Lane(name="live", segments=(segment,)),))


class Counted:
    """Handlers that read values and count; one worker calls them. The clock starts with the first record."""

    def __init__(self, records: int) -> None:
        self.left, self.done = records, threading.Event()

    def single(self, record: StreamRecord) -> None:
        record.value  # noqa: B018
        self.left -= 1
        if not self.left:
            self.done.set()

    def batch(self, records: Sequence[StreamRecord]) -> None:
        for record in records:
            record.value  # noqa: B018
        self.left -= len(records)
        if not self.left:
            self.done.set()

    def wait(self, records: int) -> Figures:
        """The figures, once all came."""
        while self.left == records:
            time.sleep(0.0005)
        left, began, cpu_s = self.left, time.monotonic(), time.process_time()
        assert self.done.wait(LIMIT_S), self.left
        return left / (time.monotonic() - began), (time.process_time() - cpu_s) / left * 1e6


def ours(servers: str, group: str, records: int, mode: Mode, *, batches: bool) -> Figures:
    counted = Counted(records)
    consumer = StreamConsumer(
        group=group,
        route=lambda: route("bench"),
        open_member=lambda profile, name: KafkaGroupConsumer(servers, Security(), name),
        clock=SystemClock(),
        handler=None if batches else counted.single,
        batch_handler=counted.batch if batches else None,
        options=ConsumerOptions(work=WorkRules(mode=mode), concurrency=1),
    )
    with consumer:
        return counted.wait(records)


def measure(servers: str, records: int, rounds: int) -> dict[str, object]:
    fill(servers, records)
    names = iter(range(1_000_000))
    plain(servers, f"warm-{next(names)}", records)
    found: dict[str, list[Figures]] = {"plain": []}
    for _ in range(rounds):
        found["plain"].append(plain(servers, f"g{next(names)}", records))
        for mode in Mode:
            for batches in (False, True):
                name = f"{mode}/{'batches' if batches else 'records'}"
                found.setdefault(name, []).append(ours(servers, f"g{next(names)}", records, mode, batches=batches))
        found["plain"].append(plain(servers, f"g{next(names)}", records))
    medians = {name: round(statistics.median(rate for rate, _ in values)) for name, values in found.items()}
    cpu = {name: round(statistics.median(us for _, us in values), 2) for name, values in found.items()}
    return {
        "records_per_s": medians,
        "cpu_us_per_record": cpu,
        "to_plain": {name: round(value / medians["plain"], 2) for name, value in medians.items() if name != "plain"},
        "cpu_to_plain": {name: round(cpu["plain"] / value, 2) for name, value in cpu.items() if name != "plain"},
        "asked": ASKED,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--servers", default="")
    given = parser.parse_args()
    with one_broker(given.servers) as servers:
        told = {"machine": shape(), "records": given.records, "record_bytes": SIZE}
        print(json.dumps(told | measure(servers, given.records, given.rounds), indent=2))


if __name__ == "__main__":
    main()
