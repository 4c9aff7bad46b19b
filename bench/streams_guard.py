"""Records a second of the ways to keep batches that are too large from a decoder, beside plain confluent-kafka.

Run: python bench/streams_guard.py [--records N] [--rounds N] [--codecs NAME ...] [--servers HOST:PORT]. Without
`--servers` it starts a sandbox of one broker. Topics of 4 partitions hold records of 1 KB, half of them random, for
each compression. `plain` is a loop of `consume(1000)` that reads each value and commits every second, before each of
the others. `reactive` is the stream consumer whose batches librdkafka decodes, `strict` the one that judges and
decodes them here; both handle batches of records, one worker. `headers` fetches raw and judges each batch, `decoded`
also decodes and reads each value, without a group. `hybrid` judges a raw read, and lets librdkafka read the same
offsets, from where the raw read is further ahead than librdkafka may hold: it fetches everything twice, and beyond
that point nothing at all. Each figure is the median of the rounds: records a second of the clock, and the CPU time of
this process (all threads; the broker's is not in it), which other work on the machine changes less.
Prints one JSON object.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

import streams_consumer
from machine import shape
from streams_consumer import PARTITIONS, ROOT, SIZE, Counted

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import GroupConsumer
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import BATCH_LIMIT_BYTES, ConsumerOptions
from kafkakit.streams.client.decide.work_rules import Mode, WorkRules
from kafkakit.streams.client.guarded_member import FETCH_BYTES, PARTITION_BYTES, GuardedMember
from kafkakit.streams.model.guarded_reads import GuardedRead

CODECS = ("none", "zstd", "lz4", "snappy", "gzip")
HYBRID_S = 20.0
HELD_BYTES = 64 << 20
"""What librdkafka may hold unread of a partition by default (queued.max.messages.kbytes), and so read ahead."""


def topic_of(codec: str) -> str:
    return f"guard.{codec}.{os.getpid()}"


def fill(servers: str, records: int, codec: str) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = topic_of(codec)
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS)]).values():
        made.result()
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 500_000, "compression.type": codec}
    )
    noise = os.urandom(1 << 20)
    for number in range(records):
        at = number * 7919 % (len(noise) - SIZE)
        value = noise[at : at + SIZE // 2] + bytes(SIZE // 2)
        while True:
            try:
                producer.produce(topic, value, key=b"%d" % (number % 5_000), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(60)


def ours(open_member: Callable[[str], GroupConsumer], topic: str, group: str, records: int) -> float:
    counted = Counted(records)
    route = streams_consumer.route("bench")
    segment = replace(route.lanes[0].segments[0], topic=topic)
    route = replace(route, lanes=(replace(route.lanes[0], segments=(segment,)),))
    consumer = StreamConsumer(
        group=group,
        route=lambda: route,
        open_member=lambda profile, name: open_member(name),
        clock=SystemClock(),
        batch_handler=counted.batch,
        options=ConsumerOptions(work=WorkRules(mode=Mode.UNORDERED), concurrency=1),
    )
    with consumer:
        return counted.wait(records)


def strict_member(servers: str, group: str) -> GroupConsumer:
    return GuardedMember(
        KafkaGroupConsumer(servers, Security(), group, fetches=False),
        KafkaLog(servers, Security(), committed=True),
        SystemClock(),
        limit_bytes=BATCH_LIMIT_BYTES,
    )


def raw_reads(servers: str, topic: str) -> Iterator[tuple[TopicPartition, GuardedRead]]:
    """Every answer to raw reads of a topic up to its end, the next request under way."""
    with closing(KafkaLog(servers, Security(), committed=True)) as log:
        keys = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        spans = {key: span for key, span in log.spans(keys).items() if isinstance(span, LogSpan)}
        wanted = {key: span.start for key, span in spans.items()}
        limits = {"max_bytes": FETCH_BYTES, "wait_ms": 100, "partition_bytes": PARTITION_BYTES}
        while wanted:
            reads = {}
            for key, fetched in log.fetch(wanted, **limits).items():
                if fetched.records:
                    reads[key] = GuardedRead(fetched=fetched, start=wanted[key], limit_bytes=BATCH_LIMIT_BYTES)
                    assert reads[key].next_offset is not None
                    wanted[key] = reads[key].next_offset or 0
            wanted = {key: at for key, at in wanted.items() if at < spans[key].end}
            log.request_ahead(wanted, **limits)
            yield from reads.items()


def headers(servers: str, topic: str, records: int) -> float:
    began = time.monotonic()
    seen = sum(
        verdict.batch.count for _, read in raw_reads(servers, topic) for verdict in read.verdicts if verdict.batch
    )
    assert seen == records
    return records / (time.monotonic() - began)


def decoded(servers: str, topic: str, records: int) -> float:
    began, seen = time.monotonic(), 0
    for _, read in raw_reads(servers, topic):
        for piece in read.pieces():
            for record in piece.records:
                record.value()
            seen += len(piece.records)
    assert seen == records
    return records / (time.monotonic() - began)


def hybrid(servers: str, topic: str, group: str, records: int) -> float:
    """What is handed over: partitions are paused in librdkafka until the raw walk is `HELD_BYTES` ahead of it."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    client = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    places = {number: Place(topic, number, 0) for number in range(PARTITIONS)}
    client.assign(list(places.values()))
    client.pause(list(places.values()))
    began, seen, safe, walks = time.monotonic(), 0, dict.fromkeys(places, 0), raw_reads(servers, topic)
    read, is_open, walking = dict.fromkeys(places, 0), set[int](), True
    while seen < records and time.monotonic() - began < HYBRID_S:
        for _ in range(PARTITIONS):
            step = next(walks, None)
            walking = step is not None
            if step is not None:
                safe[step[0].partition] += sum(verdict.at_most_bytes for verdict in step[1].verdicts)
        # A topic that ends, and whose end is known to be safe, is the best case: a live one has no such end.
        ready = {number for number in places if not walking or safe[number] - read[number] > HELD_BYTES}
        if ready - is_open:
            client.resume([places[number] for number in ready - is_open])
        if is_open - ready:
            for number in is_open - ready:
                client.pause([places[number]])
        is_open = ready
        for message in client.consume(1000, 0.0 if walking else 0.05):
            if message.error() is None:
                message.value()
                read[message.partition()] += SIZE
                seen += 1
    client.close()
    return seen / (time.monotonic() - began)


def run(ways: Mapping[str, Callable[[str], float]], rounds: int) -> dict[str, object]:
    """Each way in each round, `plain` before each of them; a way gets the name of a new group."""
    names = (f"g{number}-{os.getpid()}" for number in itertools.count())
    rates: dict[str, list[float]] = {name: [] for name in ways}
    cpu_s: dict[str, list[float]] = {name: [] for name in ways}
    ways["plain"](next(names))
    for _ in range(rounds):
        for name in [step for way in ways if way != "plain" for step in ("plain", way)]:
            before = time.process_time()
            rates[name].append(ways[name](next(names)))
            cpu_s[name].append(time.process_time() - before)
    rate, cpu = ({name: statistics.median(some) for name, some in found.items()} for found in (rates, cpu_s))
    return {
        "records_per_s": {name: round(value) for name, value in rate.items()},
        "to_plain": {name: round(value / rate["plain"], 2) for name, value in rate.items() if name != "plain"},
        "cpu_s": {name: round(value, 2) for name, value in cpu.items()},
        "cpu_to_plain": {name: round(value / cpu["plain"], 2) for name, value in cpu.items() if name != "plain"},
    }


def measure(servers: str, records: int, rounds: int, codecs: Sequence[str]) -> dict[str, object]:
    told: dict[str, object] = {}
    for codec in codecs:
        topic = streams_consumer.TOPIC = topic_of(codec)
        fill(servers, records, codec)
        told[codec] = run(
            {
                "plain": partial(streams_consumer.plain, servers, records=records),
                "reactive": partial(ours, partial(KafkaGroupConsumer, servers, Security()), topic, records=records),
                "strict": partial(ours, partial(strict_member, servers), topic, records=records),
                "headers": lambda group, topic=topic: headers(servers, topic, records),  # type: ignore[misc]
                "decoded": lambda group, topic=topic: decoded(servers, topic, records),  # type: ignore[misc]
                "hybrid": partial(hybrid, servers, topic, records=records),
            },
            rounds,
        )
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=CODECS)
    parser.add_argument("--servers", default="")
    given = parser.parse_args()
    told = {"machine": shape(), "records": given.records, "record_bytes": SIZE, "asked": streams_consumer.ASKED}
    if given.servers:
        print(json.dumps(told | measure(given.servers, given.records, given.rounds, given.codecs), indent=2))
        return
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder, "PYTHONPATH": str(ROOT)}
        kit = [sys.executable, "-m", "kafkakit"]
        up = subprocess.run(
            [*kit, "sandbox", "up", "--brokers", "1", "-o", "json"], env=env, check=True, capture_output=True, text=True
        )
        try:
            servers = json.loads(up.stdout)["bootstrap_servers"]
            print(json.dumps(told | measure(servers, given.records, given.rounds, given.codecs), indent=2))
        finally:
            subprocess.run([*kit, "sandbox", "down"], env=env, check=True, capture_output=True)


if __name__ == "__main__":
    main()
