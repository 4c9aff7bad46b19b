"""Records a second of the stream producer beside plain confluent-kafka producers, in the same run.

Run: python bench/streams_producer.py [--records N] [--rounds N] [--servers HOST:PORT]. Without `--servers` it starts a
sandbox of one broker. Records have 1 KB that cannot be compressed, keys and one topic of 4 partitions; every client is
idempotent and has the same settings. `plain` calls `produce` and nothing else; `plain_reports` adds what ours adds to a
record: two headers, and a callback with the record's number. `ours` is `Producer.send` with its delivery. Each figure
is the median of the rounds, and the plain one is measured before and after ours. CPU is that of the process, with
librdkafka's threads. Prints one JSON object.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from machine import shape
from sandboxes import one_broker

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.stream_producer import KafkaStreamCluster
from kafkakit.config.security import Security
from kafkakit.ports.streams import GroupConsumer, MemberRule
from kafkakit.streams.client.client import ClientParts, StreamClient
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.producer import Producer
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState, encode_route, route_path
from kafkakit.wiring import this_process

TOPIC, PARTITIONS, SIZE, KEYS = f"orders.live.{os.getpid()}", 4, 1_000, 5_000
ASKED = 0.5
LIMIT_S = 300.0
POLL_EVERY = 64


def settings(servers: str, limits: ProducerLimits) -> dict[str, Any]:
    of = limits.of_connection
    return {
        "bootstrap.servers": servers,
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "linger.ms": of.linger_ms,
        "batch.size": 1_000_000,
        "compression.type": of.compression,
        "queue.buffering.max.kbytes": of.queue_bytes // 1024,
        "queue.buffering.max.messages": of.queue_records,
    }


def plain(servers: str, records: int, *, reports: bool) -> None:
    from confluent_kafka import Producer as Client

    client = Client(settings(servers, ProducerLimits()))
    value, answered, more = os.urandom(SIZE), [0], dict[str, Any]()

    def on_delivery(number: int, error: object, message: object) -> None:
        answered[0] += error is None

    for number in range(records):
        if reports:
            more = {
                "headers": [("kafkakit-id", b"%017d" % number), ("kafkakit-ingested-ms", b"1700000000000")],
                "on_delivery": partial(on_delivery, number),
            }
        while True:
            try:
                client.produce(TOPIC, value, b"%d" % (number % KEYS), **more)
                break
            except BufferError:
                client.poll(0.01)
        if not number % POLL_EVERY:
            client.poll(0)
    assert client.flush(LIMIT_S) == 0
    assert not reports or answered[0] == records


def ours(producer: Producer, records: int) -> None:
    value = os.urandom(SIZE)
    before = producer.metrics().lanes[0].counters.acknowledged
    for number in range(records):
        producer.send(value, b"%d" % (number % KEYS))
    assert not producer.flush(LIMIT_S)
    assert producer.metrics().lanes[0].counters.acknowledged - before == records


def client_of(servers: str, folder: Path) -> StreamClient:
    """A client over a route with one segment, the bench's topic."""

    def no_member(profile: str, group: str, _: MemberRule) -> GroupConsumer:
        raise NotImplementedError(profile, group)

    cluster, store = KafkaStreamCluster(servers, Security()), FileControl(folder, write_file)
    found = cluster.identify(TOPIC, 30.0)
    segment = Segment(
        id=1,
        cluster="bench",
        cluster_id=found.cluster_id,
        topic=TOPIC,
        topic_id=found.topic_id,
        partitions=PARTITIONS,
        state=SegmentState.ACTIVE,
    )
    route = Route(stream="orders", epoch=1, next_segment=2, lanes=(Lane(name="live", segments=(segment,)),))
    store.cas(route_path("orders"), encode_route(route), None)
    parts = ClientParts(
        store=store,
        open_cluster=lambda name: cluster,
        open_member=no_member,
        open_guarded=no_member,
        open_log=lambda name: no_member(name, ""),  # type: ignore[arg-type, return-value]
        clock=SystemClock(),
        random_bytes=os.urandom,
        holder=this_process("streams bench"),
    )
    return StreamClient(parts)


def timed(run: Callable[[], None], records: int) -> tuple[float, float]:
    """Records a second, and microseconds of CPU a record."""
    began_s, cpu_s = time.monotonic(), time.process_time()
    run()
    return records / (time.monotonic() - began_s), (time.process_time() - cpu_s) / records * 1e6


def measure(servers: str, records: int, rounds: int) -> dict[str, object]:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        made.result()
    with tempfile.TemporaryDirectory() as folder, client_of(servers, Path(folder)) as client:
        producer = client.producer("orders")
        producer.send(b"first").result(LIMIT_S)
        kinds: Mapping[str, Callable[[], None]] = {
            "plain": lambda: plain(servers, records, reports=False),
            "plain_reports": lambda: plain(servers, records, reports=True),
            "ours": lambda: ours(producer, records),
        }
        kinds["plain"]()
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
        for _ in range(rounds):
            for name in ("plain", "plain_reports", "ours", "plain"):
                found[name].append(timed(kinds[name], records))
    rates = {name: round(statistics.median(rate for rate, _ in values)) for name, values in found.items()}
    cpu = {name: round(statistics.median(us for _, us in values), 2) for name, values in found.items()}
    return {
        "records_per_s": rates,
        "cpu_us_per_record": cpu,
        "to_plain": {name: round(rates[name] / rates["plain"], 2) for name in ("plain_reports", "ours")},
        "cpu_to_plain": {name: round(cpu["plain"] / cpu[name], 2) for name in ("plain_reports", "ours")},
        "asked": ASKED,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--servers", default="")
    given = parser.parse_args()
    with one_broker(given.servers) as servers:
        told = {"machine": shape(), "records": given.records, "record_bytes": SIZE}
        print(json.dumps(told | measure(servers, given.records, given.rounds), indent=2))


if __name__ == "__main__":
    main()
