"""How long records wait with the client of streams: beside poison pills, beside a burst on another lane, and while the
route changes.

Run: python bench/streams_latency.py [--seconds N] [--rate N] [--changes N]. It starts a sandbox of one broker. Writers
send at a steady rate; a handler waits 2 ms for each record of the lane live and 5 ms for each of slow, as handlers do
that call a service. Times are from `send` to the end of the handler.

- `healthy`: nothing goes wrong.
- `poison`: 1 % of the records fail at each of 5 tries; the times are those of the others. `plain` is a loop of
  confluent-kafka on the same records that tries again in place, as loops do that keep order.
- `burst`: slow gets 100 times what it had, at once; the times are those of live.
- `route`: from the write of a route whose other segment becomes active to the first record acknowledged there; one
  control store, a file of this host.

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
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from machine import shape

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.config.read.environment import find_folders
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.connect import ConsumerOptions, RetryRule, WorkRules, connect
from kafkakit.streams.client.producer import Producer
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.model.route import Route, SegmentState
from kafkakit.streams.routes.api_act import RouteStore

STREAM, GROUP, SECOND = "orders", "billing", "orders.live.second"
WORK_S = {"live": 0.002, "slow": 0.005}
TRIES, FIRST_MS, MOST_MS = 5, 100, 1_000
POISON = b"poison"
LIMIT_S = 60.0


class Load:
    """A writer at a steady rate and a group that handles; times by lane, of the records that were handled well."""

    def __init__(self, client: StreamClient, rate: int, poison_every: int = 0) -> None:
        self.producer: Producer = client.producer(STREAM)
        self._rate, self._poison_every = rate, poison_every
        self._sent_s: dict[int, float] = {}
        self.times_s: dict[str, list[float]] = {"live": [], "slow": []}
        self._numbers, self._stop = itertools.count(), threading.Event()
        rules = WorkRules(retry=RetryRule(first_ms=FIRST_MS, max_ms=MOST_MS, max_tries=TRIES))
        options = ConsumerOptions(concurrency=16, work=rules, commit_every_s=1.0)
        self.consumer = client.consumer(STREAM, GROUP, handler=self._handle, options=options)
        self._writer = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> "Load":
        self.consumer.__enter__()
        self._writer.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._stop.set()
        self._writer.join()
        self.producer.flush(LIMIT_S)
        self.consumer.__exit__(None, None, None)

    def send(self, lane: str, *, is_poison: bool = False) -> None:
        number = next(self._numbers)
        self._sent_s[number] = time.monotonic()
        self.producer.send(POISON if is_poison else b"%d" % number, b"%d" % (number % 500), lane=lane)

    def measured(self, seconds: float) -> dict[str, list[float]]:
        before = {lane: len(times) for lane, times in self.times_s.items()}
        time.sleep(seconds)
        return {lane: times[before[lane] :] for lane, times in self.times_s.items()}

    def _write(self) -> None:
        began_s = time.monotonic()
        for number in itertools.count():
            if self._stop.wait(max(0.0, began_s + number / self._rate - time.monotonic())):
                return
            self.send("live", is_poison=bool(self._poison_every) and not number % self._poison_every)
            if not number % 20:
                self.send("slow")

    def _handle(self, record: StreamRecord) -> None:
        lane = record.lane
        time.sleep(WORK_S[lane])
        if record.value == POISON:
            raise ValueError("poison")
        self.times_s[lane].append(time.monotonic() - self._sent_s[int(record.value or b"")])


def p99_ms(times_s: list[float]) -> float:
    return round(statistics.quantiles(times_s, n=100)[98] * 1000, 1)


def healthy(client: StreamClient, rate: int, seconds: float) -> list[float]:
    with Load(client, rate) as load:
        time.sleep(5)
        return load.measured(seconds)["live"]


def poison(client: StreamClient, rate: int, seconds: float) -> list[float]:
    with Load(client, rate, poison_every=100) as load:
        time.sleep(5)
        return load.measured(seconds)["live"]


def burst(client: StreamClient, rate: int, seconds: float) -> tuple[list[float], list[float]]:
    """Times of live before the burst, and from then on until `seconds` are over."""
    with Load(client, rate) as load:
        time.sleep(5)
        calm = load.measured(seconds)["live"]
        more = max(1, rate // 20) * 100
        began_s = time.monotonic()

        def write() -> None:
            for _ in range(more):
                load.send("slow")

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        found = load.measured(seconds)["live"]
        writer.join()
        while len(load.times_s["slow"]) < more and time.monotonic() < began_s + LIMIT_S:
            time.sleep(0.1)
        return calm, found


class Plain:
    """The same records and tries, in loops of confluent-kafka that continue when a record is done or given up, one for
    each partition; times of the records that are no poison."""

    def __init__(self, servers: str, rate: int) -> None:
        self._servers, self._rate, self._topic = servers, rate, f"plain.{os.getpid()}"
        self._stop, self._sent_s = threading.Event(), dict[int, float]()
        self.times_s: list[float] = []

    def run(self, seconds: float) -> list[float]:
        create_topic(self._servers, self._topic)
        threads = [threading.Thread(target=each, daemon=True) for each in (self._write, *[self._read] * 4)]
        for thread in threads:
            thread.start()
        time.sleep(5 + seconds)
        self._stop.set()
        for thread in threads:
            thread.join()
        return self.times_s

    def _write(self) -> None:
        from confluent_kafka import Producer as Client

        writer, began_s = Client({"bootstrap.servers": self._servers, "linger.ms": 5}), time.monotonic()
        for number in itertools.count():
            if self._stop.wait(max(0.0, began_s + number / self._rate - time.monotonic())):
                break
            self._sent_s[number] = time.monotonic()
            writer.produce(self._topic, b"%d" % number if number % 100 else POISON, b"%d" % (number % 500))
            writer.poll(0)
        writer.flush(LIMIT_S)

    def _read(self) -> None:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": self._servers, "group.id": self._topic, "auto.offset.reset": "earliest"}
        reader = Consumer(settings)
        reader.subscribe([self._topic])
        while not self._stop.is_set():
            for message in reader.consume(100, 0.2):
                self._handle(message.value())
        reader.close()

    def _handle(self, value: bytes) -> None:
        for number in range(TRIES):
            time.sleep(WORK_S["live"])
            if value != POISON:
                self.times_s.append(time.monotonic() - self._sent_s[int(value)])
                return
            if self._stop.wait(min(FIRST_MS * 2**number, MOST_MS) / 1000):
                return


def create_topic(servers: str, name: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(name, 4)]).values():
        made.result()


def route_changes(client: StreamClient, routes: RouteStore, changes: int) -> list[float]:
    """Seconds from each write of the route to the first record that is acknowledged on the segment it names."""
    producer, found = client.producer(STREAM), list[float]()

    def swapped(route: Route) -> Route:
        lane = route.lane("live")
        assert lane is not None
        states = {SegmentState.ACTIVE: SegmentState.OPENED}
        segments = tuple(replace(each, state=states.get(each.state, SegmentState.ACTIVE)) for each in lane.segments)
        return replace(route, lanes=(replace(lane, segments=segments), *(x for x in route.lanes if x is not lane)))

    for _ in range(5):
        producer.send(b"0").result(LIMIT_S)
    for _ in range(changes):
        first_s, wanted = [0.0], [0]
        stop = threading.Event()

        def note(done: object, first_s: list[float] = first_s, wanted: list[int] = wanted) -> None:
            if not first_s[0] and wanted[0] and done.result().segment == wanted[0]:  # type: ignore[attr-defined]
                first_s[0] = time.monotonic()

        def write(stop: threading.Event = stop, note: Callable[[object], None] = note) -> None:
            while not stop.wait(0.001):
                producer.send(b"1", lane="live").add_done_callback(note)

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        time.sleep(0.3)
        before = routes.existing(STREAM).route.lane("live")
        assert before is not None
        wanted[0] = next(each.id for each in before.segments if each.state is SegmentState.OPENED)
        routes.change(STREAM, swapped, by="bench", what="swap", at_ms=int(time.time() * 1000))
        written_s = time.monotonic()
        while not first_s[0] and time.monotonic() < written_s + LIMIT_S:
            time.sleep(0.001)
        found.append(first_s[0] - written_s)
        stop.set()
        writer.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--changes", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        places = {f"XDG_{kind}_HOME": f"{folder}/{kind.lower()}" for kind in ("STATE", "CONFIG", "RUNTIME")}
        env = os.environ | places | {"PYTHONPATH": str(Path(__file__).parent.parent), "KAFKAKIT_PROFILE": "latency"}

        def kit(*words: str) -> str:
            command = [sys.executable, "-m", "kafkakit", *words]
            return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout

        up = json.loads(kit("sandbox", "up", "--brokers", "1", "--name", "latency", "-o", "json"))
        try:
            shape_ = ("--lanes", "live,slow,dlq", "--partitions", "4", "--replication", "1", "--yes")
            kit("streams", "create", STREAM, *shape_)
            store = FileControl(find_folders(env).state / "control", write_file)
            told: dict[str, object] = {}
            with connect(environment=env) as client:
                calm = healthy(client, args.rate, args.seconds)
                told["healthy_p99_ms"] = p99_ms(calm)
                sick = poison(client, args.rate, args.seconds)
                told["poison_p99_ms"], told["poison_to_healthy"] = p99_ms(sick), round(p99_ms(sick) / p99_ms(calm), 2)
                told["poison_asked_at_most"] = 2.0
                told["plain_poison_p99_ms"] = p99_ms(Plain(up["bootstrap_servers"], args.rate).run(args.seconds))
                before, after = burst(client, args.rate, args.seconds)
                told["before_burst_p99_ms"], told["burst_p99_ms"] = p99_ms(before), p99_ms(after)
                told["burst_change"], told["burst_asked_below"] = round(p99_ms(after) / p99_ms(before) - 1, 3), 0.2
                create_topic(up["bootstrap_servers"], SECOND)
                kit("streams", "link", STREAM, "--topic", SECOND, "--yes")
                times_s = route_changes(client, RouteStore(store), args.changes)
                told["route_change_ms"] = {
                    "p50": round(statistics.median(times_s) * 1000, 1),
                    "p99": p99_ms(times_s),
                    "longest": round(max(times_s) * 1000, 1),
                    "changes": len(times_s),
                    "asked_p99": 1_000,
                }
            print(json.dumps({"machine": shape(), "rate": args.rate, "seconds": args.seconds, **told}, indent=1))
        finally:
            kit("sandbox", "down", "--name", "latency")


if __name__ == "__main__":
    main()
