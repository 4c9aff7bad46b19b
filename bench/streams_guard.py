"""Records a second of the ways to keep batches that are too large from a decoder, beside plain confluent-kafka.

Run: python bench/streams_guard.py [--records N] [--rounds N] [--codecs NAME ...] [--ways NAME ...]
[--servers HOST:PORT]. Without `--servers` it starts a sandbox of one broker.
Topics of 4 partitions hold records of 1 KB, half of them random, for
each compression. `plain` is a loop of `consume(1000)` that reads each value and commits every second, before each of
the others. `reactive` is the stream consumer whose batches librdkafka decodes, `strict` the one that judges and
decodes them here; both handle batches of records, one worker. `reactive-keys` and `strict-keys` are these in the mode
of a consumer by default: one record at a time, by key. `headers` fetches raw and judges each batch, `decoded`
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
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

import streams_consumer
from machine import shape
from sandboxes import one_broker
from streams_consumer import PARTITIONS, SIZE, Counted, Figures

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
WAYS = ("reactive", "strict", "reactive-keys", "strict-keys", "headers", "decoded", "hybrid")
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


def ours(
    open_member: Callable[[str], GroupConsumer], topic: str, group: str, records: int, *, is_default: bool = False
) -> Figures:
    counted = Counted(records)
    route = streams_consumer.route("bench")
    segment = replace(route.lanes[0].segments[0], topic=topic)
    route = replace(route, lanes=(replace(route.lanes[0], segments=(segment,)),))
    consumer = StreamConsumer(
        group=group,
        route=lambda: route,
        open_member=lambda profile, name: open_member(name),
        clock=SystemClock(),
        handler=counted.single if is_default else None,
        batch_handler=None if is_default else counted.batch,
        options=ConsumerOptions(work=WorkRules(mode=Mode.KEY if is_default else Mode.UNORDERED), concurrency=1),
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


def headers(servers: str, topic: str, records: int) -> Figures:
    began, cpu_s = time.monotonic(), time.process_time()
    seen = sum(
        verdict.batch.count for _, read in raw_reads(servers, topic) for verdict in read.verdicts if verdict.batch
    )
    assert seen == records
    return figures(records, began, cpu_s)


def decoded(servers: str, topic: str, records: int) -> Figures:
    began, cpu_s, seen = time.monotonic(), time.process_time(), 0
    for _, read in raw_reads(servers, topic):
        for piece in read.pieces():
            for record in piece.records:
                record.value()
            seen += len(piece.records)
    assert seen == records
    return figures(records, began, cpu_s)


def hybrid(servers: str, topic: str, group: str, records: int) -> Figures:
    """What is handed over: partitions are paused in librdkafka until the raw walk is `HELD_BYTES` ahead of it."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    client = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    places = {number: Place(topic, number, 0) for number in range(PARTITIONS)}
    client.assign(list(places.values()))
    client.pause(list(places.values()))
    began, cpu_s = time.monotonic(), time.process_time()
    seen, safe, walks = 0, dict.fromkeys(places, 0), raw_reads(servers, topic)
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
    return figures(seen, began, cpu_s)


def figures(records: int, began: float, cpu_s: float) -> Figures:
    return records / (time.monotonic() - began), (time.process_time() - cpu_s) / max(1, records) * 1e6


def run(ways: Mapping[str, Callable[[str], Figures]], rounds: int) -> dict[str, object]:
    """Each way in each round, `plain` before each of them; a way gets the name of a new group."""
    names = (f"g{number}-{os.getpid()}" for number in itertools.count())
    found: dict[str, list[Figures]] = {name: [] for name in ways}
    ways["plain"](next(names))
    for _ in range(rounds):
        for name in [step for way in ways if way != "plain" for step in ("plain", way)]:
            found[name].append(ways[name](next(names)))
    rate, cpu = ({name: statistics.median(one[at] for one in some) for name, some in found.items()} for at in (0, 1))
    return {
        "records_per_s": {name: round(value) for name, value in rate.items()},
        "to_plain": {name: round(value / rate["plain"], 2) for name, value in rate.items() if name != "plain"},
        "cpu_us_per_record": {name: round(value, 2) for name, value in cpu.items()},
        "cpu_to_plain": {name: round(value / cpu["plain"], 2) for name, value in cpu.items() if name != "plain"},
    }


def measure(
    servers: str, records: int, rounds: int, codecs: Sequence[str], chosen: Collection[str]
) -> dict[str, object]:
    told: dict[str, object] = {}
    reactive, strict = partial(KafkaGroupConsumer, servers, Security()), partial(strict_member, servers)
    for codec in codecs:
        topic = streams_consumer.TOPIC = topic_of(codec)
        fill(servers, records, codec)
        ways: dict[str, Callable[[str], Figures]] = {
            "plain": partial(streams_consumer.plain, servers, records=records),
            "reactive": partial(ours, reactive, topic, records=records),
            "strict": partial(ours, strict, topic, records=records),
            "reactive-keys": partial(ours, reactive, topic, records=records, is_default=True),
            "strict-keys": partial(ours, strict, topic, records=records, is_default=True),
            "headers": lambda group, topic=topic: headers(servers, topic, records),  # type: ignore[misc]
            "decoded": lambda group, topic=topic: decoded(servers, topic, records),  # type: ignore[misc]
            "hybrid": partial(hybrid, servers, topic, records=records),
        }
        told[codec] = run({name: way for name, way in ways.items() if name == "plain" or name in chosen}, rounds)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=CODECS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--servers", default="")
    given = parser.parse_args()
    told = {"machine": shape(), "records": given.records, "record_bytes": SIZE, "asked": streams_consumer.ASKED}
    with one_broker(given.servers) as servers:
        found = measure(servers, given.records, given.rounds, given.codecs, given.ways)
        print(json.dumps(told | found, indent=2))


if __name__ == "__main__":
    main()
