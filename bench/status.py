"""`kafkakit status` and the pages of `kafkakit ui` for a recorded cluster of 200,000 partitions: time, memory, bytes.

Run: PYTHONPATH=. python bench/status.py [--partitions 200000] [--topics 20000] [--browsers 20] [--seconds 20]

The brokers' answer about all partitions lies encoded in a file, and is decoded in each reading, as that of a real
cluster is; one of 60 brokers is down, so that a twentieth of the partitions is not whole. `status` is measured in a
process of its own from there to text and JSON. The pages come from the real server in another process, which reads the
cluster again meanwhile: each page once, then by browsers that all fetch at once. Pages of topics and groups with
the longest names are fetched once too. Prints one JSON object.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from machine import resident_mib, shape

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka import admin_read
from kafkakit.core.cluster_facts import BrokerLogDirs, GroupListing, GroupState, GroupType, LiveReplica, PartitionHealth
from kafkakit.core.findings import FailOn
from kafkakit.core.model import LogDir, Partition, TagSet, Topic, TopicPartition
from kafkakit.status.act.reading import StatusReader, StatusSources
from kafkakit.status.act.service import PlanFiles, Sessions, StatusWatch, UiLook, UiService
from kafkakit.status.decide.judgement import ClusterStatus, judge_cluster
from kafkakit.status.decide.objects import (
    BrokerDetail,
    CommitOfGroup,
    GroupDetail,
    PartitionDetail,
    TopicDetail,
    TopicRow,
    partition_row,
    topic_row,
)
from kafkakit.status.decide.pages import StreamEntry
from tests.fakes.admin import FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader

BROKERS, DOWN = 60, 1
GROUPS, LARGEST_TOPIC = 10_000, 10_000
LONG, MOST_PARTITIONS = "n" * 249, 1_024
"""The longest name that Kafka lets a topic have, and the partitions of the topic and group that have it."""
PAGES = (
    "/", "/brokers", "/brokers/2", "/topics", "/topics?page=400", "/topics?state=short", "/topics?q=topic-19",
    "/topics/large", "/topics/large?page=200", "/groups", "/groups?page=200", "/moves", "/streams", "/findings",
    "/plans", "/assets/ui.css", "/assets/ui.js",
)  # fmt: skip
WORST = (
    f"/topics/{LONG}", f"/topics/{LONG}?page=20", f"/topics/{LONG}/7", f"/groups/{LONG}", f"/groups/{LONG}?page=20",
    "/topics?q=nnn", "/topics?q=partitions+%3E+0+and+name+like+%22*nnn%22&explain=topic-00001", "/groups?q=nnn",
)  # fmt: skip
"""Pages of long names only: fetched once, and no part of what browsers ask for."""


def topic_name(number: int, topics: int) -> str:
    """The last 60 have names as long as Kafka allows."""
    name = f"topic-{number:05d}"
    return f"{name}{LONG}"[:249] if number >= topics - 60 else name


def record(topics: int, partitions: int) -> bytes:
    """What brokers answer to a request for the metadata of all topics."""
    from kafka.protocol.metadata import MetadataResponse as Response

    Described = Response.MetadataResponseTopic  # noqa: N806 - a class of the library
    made = []
    for number in range(topics):
        rows = [
            [(number + p + k * 7) % BROKERS + 1 for k in range(3)]
            for p in range(partitions // topics + (number < partitions % topics))
        ]
        made.append(
            Described(
                error_code=0,
                name=topic_name(number, topics),
                is_internal=False,
                partitions=[
                    Described.MetadataResponsePartition(
                        error_code=0,
                        partition_index=p,
                        leader_id=next(b for b in row if b != DOWN),
                        leader_epoch=1,
                        replica_nodes=row,
                        isr_nodes=[b for b in row if b != DOWN],
                        offline_replicas=[],
                    )
                    for p, row in enumerate(rows)
                ],
            )
        )
    return bytes(Response(brokers=[], cluster_id="bench", controller_id=2, topics=made).encode(version=12))


class RecordedCluster(FakeCluster):
    """60 brokers, whose partitions are decoded from a file."""

    def __init__(self, file: Path) -> None:
        super().__init__({b: f"rack-{b % 3}" for b in range(1, BROKERS + 1)})
        self._file = file
        self.kill(DOWN)

    def partition_health(self) -> PartitionHealth:
        from kafka.protocol.metadata import MetadataResponse

        return admin_read.health_of(MetadataResponse.decode(self._file.read_bytes(), version=12).topics)

    def topic_settings(self, topics: Any, keys: Any) -> Any:
        return {topic: {"min.insync.replicas": "2"} for topic in topics}


class NoRuns:
    """No run of this host moves anything."""

    damaged: tuple[str, ...] = ()

    def read(self) -> tuple[()]:
        return ()


class ManyGroups(FakeGroups):
    """More groups than a page shows."""

    def answered_groups(self) -> Any:
        found = super().answered_groups()
        listed = tuple(
            GroupListing(
                group=f"group-{n:05d}{LONG}"[:249] if n >= GROUPS - 60 else f"group-{n:05d}",
                type=GroupType.CLASSIC,
                state=GroupState.STABLE,
            )
            for n in range(GROUPS)
        )
        return type(found)(groups=listed)


class RecordedSource:
    """What the pages show; one topic has 10,000 partitions, and a broker 10,000 replicas."""

    def __init__(self, file: Path) -> None:
        cluster = RecordedCluster(file)
        self._reader = StatusReader(
            StatusSources(
                profile="bench",
                program="kafkakit --profile bench",
                clock=SystemClock(),
                open_admin=lambda: cluster,
                open_groups=ManyGroups,
                open_log=FakeLogReader,
                runs=lambda cluster_id: NoRuns(),
                lease=lambda cluster_id: None,
            )
        )

    def read(self) -> ClusterStatus:
        return judge_cluster(self._reader.read())

    def glance(self) -> object:
        return None

    def topic(self, name: str) -> TopicDetail:
        rows = [
            Partition(partition=p, replicas=(2, 3, 4), leader=2, isr=(2, 3) if p % 9 else (2,))
            for p in range(MOST_PARTITIONS if name == LONG else LARGEST_TOPIC)
        ]
        topic = Topic(name=name, partitions=tuple(rows))
        found = tuple(partition_row(TopicPartition(name, p.partition), p, 2) for p in rows)
        return TopicDetail(row=topic_row(topic, 2), partitions=found, groups=tuple(f"g{n}" for n in range(400)))

    def partition(self, key: TopicPartition) -> PartitionDetail:
        partition = Partition(partition=key.partition, replicas=(2, 3, 4), leader=2, isr=(2, 3))
        row = partition_row(key, partition, 2)
        return PartitionDetail(row=row, minimum=2, replicas=(), span=None, producers=None)

    def broker(self, number: int) -> BrokerDetail:
        copies = {
            TopicPartition(f"topic-{n:05d}", 0): LiveReplica(size_bytes=n << 20, log_dir="/data/1")
            for n in range(LARGEST_TOPIC)
        }
        place = LogDir(path="/data/1", total_bytes=1 << 42, usable_bytes=1 << 41)
        return BrokerDetail(dirs=BrokerLogDirs(broker=number, log_dirs=(place,), replicas=copies), settings={})

    def group(self, name: str) -> GroupDetail:
        commits = tuple(
            CommitOfGroup(key=TopicPartition(LONG, p), committed=p, end=2 * p, lag=p, reader=f"client-{p} /10.0.0.7")
            for p in range(MOST_PARTITIONS)
        )
        return GroupDetail(group=name, description=None, commits=commits)

    def tags(self) -> TagSet:
        return TagSet(topics={f"topic-{n:05d}": {"team": f"team-{n % 40}", "tier": "hot"} for n in range(0, 20_000, 2)})

    def topics(self, *, sizes: bool) -> dict[str, TopicRow]:
        raise NotImplementedError

    def streams(self) -> Sequence[StreamEntry]:
        return [StreamEntry(name=f"stream-{n}", lanes=[("live", f"topic-{n} on bench")]) for n in range(200)]

    def close(self) -> None:
        self._reader.close()


def read_once(file: Path) -> dict[str, object]:
    """In a process of its own: what `kafkakit status` does once it is connected."""
    import resource

    from kafkakit.cli.output import OutputFormat, format_result
    from kafkakit.status.report.status import status_report

    source, times = RecordedSource(file), dict[str, float]()

    def timed(name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        found = work()
        times[name] = round(time.perf_counter() - began, 3)
        return found

    before = resident_mib(os.getpid())
    reading = timed("reading_s", source._reader.read)
    status = timed("judgement_s", lambda: judge_cluster(reading))
    report = timed("report_s", lambda: status_report([status], fail_on=FailOn.ERROR, width=80))
    text = timed("text_s", lambda: report.text)
    data = timed("json_s", lambda: format_result(report, OutputFormat.JSON))
    return {
        "seconds": round(sum(times.values()), 2),
        **times,
        "partitions": status.counts.total if status.counts else None,
        "not_whole": status.counts.under_replicated if status.counts else None,
        "text_lines": len(text.splitlines()),
        "json_kb": round(len(data) / 1000, 1),
        "before_mib": before,
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def serve(file: Path) -> None:
    """In a process of its own: the server of `kafkakit ui`, which says its address on stdout."""
    from kafkakit.status.commands.ui import asset, render
    from kafkakit.wiring import open_page_server, read_input

    watch = StatusWatch("bench", RecordedSource(file), SystemClock())
    service = UiService([watch], PlanFiles(None, read_input), UiLook(render=render, asset=asset), Sessions())
    watch.publish()
    with closing(open_page_server("127.0.0.1:0", service.answer)) as server:
        print(server.address, flush=True)
        watch.start()
        sys.stdin.read()


def fetch(address: str, path: str) -> tuple[int, int, float]:
    """Status, bytes of the body and seconds."""
    began = time.perf_counter()
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        connection.request("GET", path, headers={"Sec-Fetch-Mode": "navigate"})
        answer = connection.getresponse()
        size = len(answer.read())
    return answer.status, size, time.perf_counter() - began


def browse(address: str, pid: int, browsers: int, seconds: float) -> dict[str, object]:
    """Each page once, then all browsers at once, each with an event stream of its own."""
    single = {path: fetch(address, path) for path in (*PAGES, *WORST)}
    alone_mib = resident_mib(pid)
    streams = []
    for _ in range(browsers):
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("GET", "/events")
        streams.append((connection, connection.getresponse()))
    until, times, peak = time.monotonic() + seconds, list[float](), alone_mib

    def one(number: int) -> list[float]:
        taken, turn = [], number
        while time.monotonic() < until:
            taken.append(fetch(address, PAGES[turn % len(PAGES)])[2])
            turn += 1
        return taken

    with ThreadPoolExecutor(browsers) as pool:
        futures = [pool.submit(one, number) for number in range(browsers)]
        while not all(future.done() for future in futures):
            peak = max(peak, resident_mib(pid))
            time.sleep(0.1)
        for future in futures:
            times += future.result()
    for connection, _ in streams:
        connection.close()
    times.sort()
    largest = max(single, key=lambda path: single[path][1])
    return {
        "pages": {path.replace(LONG, "LONG"): {"status": s, "kb": round(size / 1000, 1), "ms": round(took * 1000, 1)}
                  for path, (s, size, took) in single.items()},
        "largest": {"page": largest.replace(LONG, "LONG"), "kb": round(single[largest][1] / 1000, 1)},
        "browsers": browsers,
        "requests": len(times),
        "median_ms": round(statistics.median(times) * 1000, 1),
        "p99_ms": round(times[len(times) * 99 // 100] * 1000, 1),
        "one_browser_mib": alone_mib,
        "all_browsers_mib": peak,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--topics", type=int, default=20_000)
    parser.add_argument("--browsers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--part", choices=["status", "ui"], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "status":
        print(json.dumps(read_once(given.file)))
        return
    if given.part == "ui":
        serve(given.file)
        return
    with tempfile.TemporaryDirectory(prefix="kafkakit-bench-") as home:
        file = Path(home) / "metadata"
        file.write_bytes(record(given.topics, given.partitions))
        command = [sys.executable, __file__, "--file", str(file), "--part"]
        status = json.loads(subprocess.run([*command, "status"], check=True, capture_output=True).stdout)
        server = subprocess.Popen([*command, "ui"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            pages = browse(server.stdout.readline().strip(), server.pid, given.browsers, given.seconds)
        finally:
            server.stdin.close()
            server.wait(30)
        size = round(file.stat().st_size / 1e6, 1)
    print(json.dumps({"machine": shape(), "metadata_mb": size, "status": status, "ui": pages}, indent=2))


if __name__ == "__main__":
    main()
