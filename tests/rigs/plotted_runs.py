"""Real runs on sandboxes, and a plot of each: a pacer beside clients, a group that stops, a stream that moves.

Every figure in a plot, and every number of its title, is of the run: counters of brokers, the log of the pacer, answers
of the lag monitor, the operation of a failover, and what clients saw.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from itertools import pairwise
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

from kafkakit.adapters.host import process_stat
from kafkakit.adapters.processes import LocalProcesses
from kafkakit.report.pages import Chart
from kafkakit.sandbox.folders import store_of
from kafkakit.streams.client.connect import ConsumerOptions, StreamClient, connect
from kafkakit.streams.client.delivery import Delivery
from kafkakit.streams.client.workers import StreamRecord
from tests.rigs.desk import Desk
from tests.rigs.plots import BLUE, DARK, DASHED, GREY, LIMIT, Line, Panel, plot
from tests.rigs.prometheus import broker_metrics, broker_totals, prometheus_server
from tests.rigs.waiting import until

MB = 1_000_000
Points = list[tuple[float, float]]
Totals = tuple[float, dict[tuple[str, str], float]]
Look = tuple[float, dict[str, Any]]


@contextmanager
def background(work: Callable[[Event], None]) -> Iterator[None]:
    """Work in a thread while the block runs; it ends when its event is set."""
    ended = Event()
    thread = Thread(target=work, args=(ended,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def create_topic(servers: str, name: str, replicas: Sequence[Sequence[int]]) -> None:
    """A topic with these brokers for its partitions."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    made = NewTopic(name, len(replicas), replica_assignment=[list(brokers) for brokers in replicas])
    for done in admin.create_topics([made]).values():
        done.result(60)


def write_steadily(servers: str, topic: str, size: int, rate: Callable[[], float], ended: Event) -> None:
    """Write records of a size, so many a second as `rate` says at the time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "log_level": 0})
    value, due, sent, before = os.urandom(size), 0.0, 0, time.monotonic()
    while not ended.wait(0.02):
        now = time.monotonic()
        due, before = due + (now - before) * rate(), now
        while sent < due:
            producer.produce(topic, value)
            sent += 1
        producer.poll(0)
    assert producer.flush(60) == 0


# -- a pacer beside clients -------------------------------------------------------------------------

CAPACITY, QUIET, BUSY, TOOL = 12 * MB, 2 * MB, 7 * MB, 2 * MB
COPIED, PARTS, RECORD = 900 * MB, 8, 15_000
LEAD_S, BUSY_FROM_S, BUSY_TO_S, REST_S, OVER_S = 15, 60, 105, 15, 10
SOURCE, FOLLOWER, TARGET = 1001, 1002, 1003


def plot_autothrottle(desk: Desk) -> Chart:
    """Kafka's own tool moves a topic off a broker while its clients' traffic rises and falls; the pacer follows."""
    with ExitStack() as stack:
        servers = stack.enter_context(desk.sandbox("paced", brokers=3))
        create_topic(servers, "archive", [[SOURCE]] * PARTS)
        create_topic(servers, "orders", [[SOURCE, FOLLOWER]] * 4)
        _fill(servers)
        state_dir, config_dir = (desk.folder / f"xdg_{name}_home" / "kafkakit" for name in ("state", "config"))
        state = store_of("paced", state_dir, config_dir).load()
        assert state is not None
        exporter = stack.enter_context(broker_metrics(state))
        prometheus = stack.enter_context(prometheus_server(desk.folder, exporter))
        wanted = [QUIET]
        clients = partial(write_steadily, servers, "orders", 5_000, lambda: wanted[0] / 5_000)
        stack.enter_context(background(clients))
        looks: list[Totals] = []
        stack.enter_context(background(partial(_read_totals, exporter, looks)))
        traffic = f'rate(kafka_server_brokertopicmetrics_bytesin_total{{broker_id="{SOURCE}"}}[10s])'
        prometheus.wait_for(f"{traffic} > {QUIET // 2}", 1)
        log = desk.folder / "pacer.log"
        options = f"--law slo --capacity {CAPACITY}B --prometheus-url {prometheus.url} --metrics-window 10s"
        run = f"autothrottle run {options} --interval 2s --sample 1s --listen none --take-over"
        stack.enter_context(desk.serving(f"--profile paced -o json {run}", log))
        until(lambda: '"tick"' in log.read_text(), "the pacer leads", seen=log.read_text)
        time.sleep(LEAD_S)
        _begin_moves(desk)
        began_s = until(lambda: _copies_from(looks), "copies are sent")
        for at_s, rate in ((BUSY_FROM_S, BUSY), (BUSY_TO_S, QUIET)):
            time.sleep(max(0.0, began_s + at_s - time.time()))
            wanted[0] = rate
        until(lambda: _ticks(log.read_text())[-1][1]["moves"] == 0, "the moves end", 600, seen=log.read_text)
        time.sleep(REST_S)
        ticks = _ticks(log.read_text())
    return _autothrottle_chart(ticks, looks, began_s)


def _fill(servers: str) -> None:
    from confluent_kafka import Producer

    producer, value = Producer({"bootstrap.servers": servers, "batch.size": 1 * MB, "log_level": 0}), os.urandom(RECORD)
    for number in range(COPIED // RECORD):
        while len(producer) > 2_000:
            producer.poll(0.05)
        producer.produce("archive", value, partition=number % PARTS)
    assert producer.flush(120) == 0


def _read_totals(exporter: str, looks: list[Totals], ended: Event) -> None:
    while not ended.wait(1.0):
        looks.append((time.time(), broker_totals(exporter)))


def _begin_moves(desk: Desk) -> None:
    """By Kafka's own tool, with a low throttle of its own, which the pacer takes over."""
    moves = [{"topic": "archive", "partition": part, "replicas": [TARGET]} for part in range(PARTS)]
    path = desk.folder / "moves.json"
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    tool = f"kafka-reassign-partitions --reassignment-json-file {path} --throttle {TOOL} --execute"
    desk.run(f"sandbox exec --name paced -- {tool}")


def _copies_from(looks: Sequence[Totals]) -> float | None:
    """The first look at which the source had sent copies."""
    return next((at for at, totals in looks if totals[str(SOURCE), "reassignmentbytesout"]), None)


def _ticks(log: str) -> list[Look]:
    """The ticks of the pacer's log, with their times."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{") and line.endswith("}")]
    return [(datetime.fromisoformat(line["at"]).timestamp(), line["tick"]) for line in lines if "tick" in line]


def _autothrottle_chart(ticks: list[Look], looks: list[Totals], began_s: float) -> Chart:
    rates: Points = []
    for at, tick in ticks:
        own = [r for r in tick["reasons"] if (r["broker"], r["direction"]) == (SOURCE, "out")]
        rates += [(at - began_s, r["rate_bytes_per_s"] / MB) for r in own if tick["moves"]]
    ended_s = next(at for at, tick in ticks if at > began_s + BUSY_TO_S and not tick["moves"]) - began_s
    sent: dict[str, Points] = {"copies": [], "clients": []}
    for (before, old), (after, new) in zip(looks, looks[OVER_S:], strict=False):

        def rate(kind: str, old: Any = old, new: Any = new, over: float = after - before) -> float:
            return float(new[str(SOURCE), kind] - old[str(SOURCE), kind]) / over / MB

        copies, at = rate("reassignmentbytesout"), after - began_s
        sent["copies"].append((at, copies))
        sent["clients"].append((at, rate("replicationbytesout") + rate("bytesout") - copies))

    span_s = ended_s + REST_S
    panel = Panel("MB/s that the source sends, averages of the last 10 s, and its throttle rate", [
        Line("throttle rate that autothrottle sets", [*rates, (ended_s, 0.0)], BLUE, is_step=True),
        Line("copies", sent["copies"], DARK),
        Line("data of clients", sent["clients"], GREY),
        Line("stated capacity", [(0, CAPACITY / MB), (span_s, CAPACITY / MB)], LIMIT),
    ])  # fmt: skip

    before = max(value for at, value in rates if at <= BUSY_FROM_S)
    least, least_s = min((value, at) for at, value in rates if BUSY_FROM_S <= at <= BUSY_TO_S)
    after = max(value for at, value in rates if at > BUSY_TO_S)
    title = f"When clients send more, the rate goes from {before:.1f} to {least:.1f} MB/s "
    title += f"in {least_s - BUSY_FROM_S:.0f} s; later up to {after:.1f}"
    marks = [(0.0, "the move begins"), (BUSY_FROM_S, "clients' load rises"), (BUSY_TO_S, "clients' load falls"),
             (ended_s, "the move has ended")]  # fmt: skip
    return plot(title, [panel], marks, span_s)


# -- a group that stops -----------------------------------------------------------------------------

GROUP, BY_DAY_PER_S, BY_NIGHT_PER_S, HANDLED_PER_S, COMMIT_S = "billing", 400, 80, 800, 2
STOPS_S, NIGHT_S, STARTS_S, LAST_S = 20, 75, 140, 20
CAUGHT_UP = 3 * COMMIT_S * BY_NIGHT_PER_S


def plot_lag(desk: Desk) -> Chart:
    """A consumer is stopped for two minutes and catches up, as `streams lag serve` sees it."""
    with ExitStack() as stack:
        servers = stack.enter_context(desk.sandbox("lagging"))
        create_topic(servers, "orders", [[1001]])
        written = [BY_DAY_PER_S]
        stack.enter_context(background(partial(write_steadily, servers, "orders", 200, lambda: written[0])))
        (port,) = LocalProcesses(process_stat).free_ports(1)
        log = desk.folder / "lag.log"
        stack.enter_context(desk.serving(f"--profile lagging streams lag serve --listen 127.0.0.1:{port}", log))
        ask = partial(_lag_line, f"http://127.0.0.1:{port}/json?by=group-topic&group={GROUP}")
        seen: list[Look] = []
        stack.enter_context(background(partial(_watch_lag, ask, seen)))
        with background(partial(_consume, servers)):
            until(lambda: seen and seen[-1][1]["status"] == "ok", "the group is seen", seen=log.read_text)
            began_s = time.time()
            time.sleep(STOPS_S)
        time.sleep(began_s + NIGHT_S - time.time())
        written[0] = BY_NIGHT_PER_S
        time.sleep(began_s + STARTS_S - time.time())
        with background(partial(_consume, servers)):
            until(lambda: seen[-1][1]["lag"] < CAUGHT_UP, "it has caught up", seen=lambda: seen[-1])
            time.sleep(LAST_S)
        return _lag_chart(seen, began_s, time.time() - began_s)


def _lag_line(url: str) -> dict[str, Any] | None:
    try:
        with urlopen(url, timeout=10) as answer:
            lines = json.load(answer)["lines"]
    except OSError:
        return None
    return lines[0] if lines else None


def _watch_lag(ask: Callable[[], dict[str, Any] | None], seen: list[Look], ended: Event) -> None:
    while not ended.wait(1.0):
        if line := ask():
            seen.append((time.time(), line))


def _consume(servers: str, ended: Event) -> None:
    """Handle records one after another, no faster than a handler does, and commit from time to time."""
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP, "auto.offset.reset": "latest",
                         "enable.auto.commit": False, "log_level": 0})  # fmt: skip
    consumer.subscribe(["orders"])
    committed_s, handled = time.monotonic(), 0
    while not ended.is_set():
        found = consumer.consume(HANDLED_PER_S // 10, 0.1)
        handled += len(found)
        ended.wait(len(found) / HANDLED_PER_S)
        if handled and time.monotonic() - committed_s >= COMMIT_S:
            consumer.commit(asynchronous=False)
            committed_s, handled = time.monotonic(), 0
    consumer.close()


def _lag_chart(seen: list[Look], began_s: float, span_s: float) -> Chart:
    """A time lag holds for its as-of, and may be shown again later."""
    shown = [(at - began_s, line) for at, line in seen if at >= began_s]
    records = [(at, float(line["lag"])) for at, line in shown if line["lag"] is not None]
    held = {line["as_of_ms"]: line["time_lag_ms"] for _, line in shown if line["time_lag_ms"] is not None}
    times = [(as_of / 1000 - began_s, lag / 1000) for as_of, lag in sorted(held.items())]
    marks = [
        (float(STOPS_S), "the consumer stops"),
        (float(STARTS_S), "it starts again"),
        (float(NIGHT_S), "less is written"),
    ]
    marks += [(at, f"status {line['status']}") for (_, old), (at, line) in pairwise(shown)
              if line["status"] != old["status"]]  # fmt: skip
    most, longest = max(value for _, value in records), max(value for _, value in times)
    caught_up_s = next(at for at, value in records if at > STARTS_S + 5 and value < CAUGHT_UP) - STARTS_S
    title = f"Stopped for {STARTS_S - STOPS_S} s: {longest:.0f} s and {most:,.0f} records behind, "
    title += f"caught up in {caught_up_s:.0f} s"
    panels = [
        Panel("time lag, seconds: age of the oldest record that is not done", [Line("time lag", times, BLUE)]),
        Panel("lag, records", [Line("lag in records", records, GREY)]),
    ]
    return plot(title, panels, marks, span_s)


# -- a stream that moves ----------------------------------------------------------------------------

OLD, NEW, STREAM, PER_S = "west", "east", "orders", 500
BEFORE_S, AFTER_S, BIN_S = 10, 12, 0.5
STEPS = ("planned", "opened", "routed", "sealed", "drained", "retired")


class StreamClients:
    """What a producer and a consumer of the stream saw: who acknowledged a record when, and when it was handled."""

    def __init__(self) -> None:
        self.sent_s: list[float] = []
        self.written: list[tuple[float, str]] = []
        self.handled: list[tuple[float, int]] = []

    def write(self, client: StreamClient, ended: Event) -> None:
        """Send numbered records."""
        began, producer = time.monotonic(), client.producer(STREAM)
        while not ended.wait(0.01):
            while len(self.sent_s) < (time.monotonic() - began) * PER_S:
                number = len(self.sent_s)
                self.sent_s.append(time.time())
                producer.send(b"%d" % number, b"%d" % (number % 50)).add_done_callback(self._note)
        assert not producer.flush(60)

    def _note(self, delivery: Delivery) -> None:
        self.written.append((time.time(), delivery.result().topic))

    def handle(self, record: StreamRecord) -> None:
        """Note the record."""
        self.handled.append((time.time(), int(record.value or b"-1")))


def plot_failover(desk: Desk) -> Chart:
    """A stream moves from one cluster to another while its records are written and read."""
    seen = StreamClients()
    with desk.sandbox(OLD), desk.sandbox(NEW):
        kit = f"--profile {NEW} -o json streams"
        desk.run(f"{kit} create {STREAM} --cluster {OLD} --lanes live --partitions 4 --yes")
        with connect(profile=NEW, environment=desk.env) as client:
            options = ConsumerOptions(concurrency=4, commit_every_s=0.5)
            with client.consumer(STREAM, GROUP, handler=seen.handle, options=options):
                with background(partial(seen.write, client)):
                    until(lambda: len(seen.handled) > 2 * PER_S, "records are handled")
                    time.sleep(BEFORE_S)
                    done = json.loads(desk.run(f"{kit} failover run {STREAM} --to {NEW} --yes"))
                    time.sleep(AFTER_S)
                until(lambda: {n for _, n in seen.handled} >= set(range(len(seen.written))), "all is handled")
    return _failover_chart(seen, {step: at / 1000 for step, at in done["reached_ms"].items()})


def _failover_chart(seen: StreamClients, reached_s: dict[str, float]) -> Chart:
    zero_s = reached_s["planned"] - BEFORE_S
    last_s = reached_s["retired"] + AFTER_S - zero_s - 1
    topics = list(dict.fromkeys(topic for _, topic in seen.written))
    written = [_per_second((at for at, name in seen.written if name == topic), zero_s, last_s) for topic in topics]
    handled = _per_second((at for at, _ in seen.handled), zero_s, last_s)
    longest: dict[float, float] = {}
    for at, number in seen.handled:
        place = (at - zero_s) // BIN_S
        longest[place] = max(longest.get(place, 0.0), (at - seen.sent_s[number]) * 1000)
    delays = [((place + 0.5) * BIN_S, value) for place, value in sorted(longest.items())]
    lost = len(seen.sent_s) - len({number for _, number in seen.handled})
    assert (lost, len(topics)) == (0, 2), (lost, topics)
    took = reached_s["retired"] - reached_s["planned"]
    most = max(value for at, value in delays if 0 <= at <= last_s)
    title = f"Moved in {took:.1f} s at {PER_S} records/s: none of {len(seen.sent_s):,} lost, "
    title += f"the slowest took {most:,.0f} ms"
    panels = [
        Panel("records per second, in each half second", [
            Line("written to the old cluster", written[0], GREY),
            Line("written to the new cluster", written[1], BLUE),
            Line("handled", handled, DASHED),
        ]),
        Panel("ms from sent to handled, the longest of each half second", [Line("", delays, DARK)]),
    ]  # fmt: skip
    return plot(title, panels, [(reached_s[step] - zero_s, step) for step in STEPS if step in reached_s], last_s)


def _per_second(times: Iterable[float], zero_s: float, last_s: float) -> Points:
    """How many there are in each part of a second, for a second."""
    counts = Counter((at - zero_s) // BIN_S for at in times)
    return [((place + 0.5) * BIN_S, counts[place] / BIN_S) for place in range(int(last_s / BIN_S))]
