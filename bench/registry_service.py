"""Reads of `kafkakit registry serve` while it reads the cluster again: latency, start and memory.

Run: PYTHONPATH=. python bench/registry_service.py [--topics 20000] [--partitions 100000] [--rate 2000] [--seconds 10]

The cluster is recorded: the brokers' answers lie encoded in memory, and are decoded and compared in each reading, as
those of a real cluster are; 200 topics differ each time. The load comes from h2load (C; `make parts`), at a fixed rate
over eight connections: half of the calls name a topic (of 1,000 names), the others are the lists that clients use.
Prints one JSON object.
"""

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from machine import resident_mib, shape

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.config.security import Security
from kafkakit.registry.act.cluster import InventoryReader, ReaderProcess
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.requests import SERVICE
from kafkakit.registry.decide.tags import encode_tags
from kafkakit.wiring import registry_codec

PARTS = Path(__file__).parent.parent / ".parts"
BROKERS = 60
CHANGED = 200
NAMED = 1000


class RecordedSession:
    """Stands for the connection: every answer is decoded from the bytes that a broker would send."""

    version = (4, 0)

    def __init__(self, topics: int, partitions: int) -> None:
        self.readings = 0
        self.metadata = [self._metadata(topics, partitions, variant) for variant in (0, 1)]
        names = [f"topic-{n:05d}" for n in range(topics)]
        self.configs = {tuple(batch): self._configs(batch) for batch in batches(names, 500)}

    def request(self, what: str, request: Any, **_: Any) -> Any:
        from kafka.protocol.admin import (
            DescribeClusterResponse,
            DescribeConfigsResponse,
            ListPartitionReassignmentsResponse,
        )
        from kafka.protocol.metadata import MetadataResponse

        if what == "describe cluster":
            brokers = [
                DescribeClusterResponse.DescribeClusterBroker(
                    broker_id=b, host=f"broker-{b}", port=9092, rack=f"rack-{b % 3}", is_fenced=False
                )
                for b in range(1, BROKERS + 1)
            ]
            return DescribeClusterResponse(cluster_id="bench", controller_id=1, brokers=brokers)
        if what == "describe topics":
            self.readings += 1
            return MetadataResponse.decode(self.metadata[self.readings % 2], version=12)
        if what == "read configurations":
            return DescribeConfigsResponse.decode(self.configs[tuple(r[1] for r in request.resources)], version=4)
        return ListPartitionReassignmentsResponse(error_code=0, error_message="", topics=[])

    def request_brokers(self, requests: Any) -> dict[int, Any]:
        return {}

    def _metadata(self, topics: int, partitions: int, variant: int) -> bytes:
        from kafka.protocol.metadata import MetadataResponse as Response

        made = []
        for number in range(topics):
            count = partitions // topics + (number < partitions % topics)
            rows = [[(number + p + k * 7) % BROKERS + 1 for k in range(3)] for p in range(count)]
            short = variant and number < CHANGED
            made.append(
                Response.MetadataResponseTopic(
                    error_code=0,
                    name=f"topic-{number:05d}",
                    is_internal=False,
                    partitions=[
                        Response.MetadataResponseTopic.MetadataResponsePartition(
                            error_code=0,
                            partition_index=p,
                            leader_id=row[0],
                            leader_epoch=1,
                            replica_nodes=row,
                            isr_nodes=row[:2] if short else row,
                            offline_replicas=[],
                        )
                        for p, row in enumerate(rows)
                    ],
                )
            )
        return bytes(Response(brokers=[], cluster_id="bench", controller_id=1, topics=made).encode(version=12))

    def _configs(self, names: list[str]) -> bytes:
        from kafka.protocol.admin import DescribeConfigsResponse as Response

        results = [
            Response.DescribeConfigsResult(
                error_code=0,
                error_message="",
                resource_type=2,
                resource_name=name,
                configs=[
                    Response.DescribeConfigsResult.DescribeConfigsResourceResult(
                        name=key, value="1000", config_source=source, is_sensitive=False, read_only=False, synonyms=[]
                    )
                    for key, source in (("retention.ms", 1), ("segment.ms", 5), ("cleanup.policy", 5))
                ],
            )
            for name in names
        ]
        return bytes(Response(results=results).encode(version=4))


def batches(names: list[str], size: int) -> list[list[str]]:
    return [names[at : at + size] for at in range(0, len(names), size)]


def peak_mib(pid: int) -> float:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024, 1)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(
    address: str, given: argparse.Namespace, extra: list[str], uris: list[str], folder: Path, served: int
) -> dict[str, float]:
    """h2load's figures; the percentiles are those of its log of every request."""
    log, targets = folder / "log", folder / "uris"
    log.unlink(missing_ok=True)
    targets.write_text("".join(f"http://{address}{uri}\n" for uri in uris))
    clients = 8
    command = [
        str(PARTS / "usr/bin/h2load"), f"--clients={clients}", "--threads=1", f"--duration={given.seconds}",
        "--warm-up-time=1", f"--rps={given.rate / clients:g}", f"--log-file={log}", f"--input-file={targets}", *extra,
    ]  # fmt: skip
    environment = {**os.environ, "LD_LIBRARY_PATH": str(PARTS / "usr/lib/x86_64-linux-gnu")}
    before_s = cpu_s(served)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    used_s = cpu_s(served) - before_s
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    times_ms = sorted(int(row[2]) / 1000 for row in rows)
    failed = sum(row[1] != "200" for row in rows)
    return {
        "per_s": round(len(rows) / given.seconds, 1),
        "failed": failed,
        **{f"p{q}_ms": round(times_ms[min(len(times_ms) - 1, len(times_ms) * q // 100)], 2) for q in (50, 95, 99)},
        "p99.9_ms": round(times_ms[min(len(times_ms) - 1, len(times_ms) * 999 // 1000)], 2),
        "max_ms": round(times_ms[-1], 2),
        "cpu_us_per_call": round(used_s / len(rows) * 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=20_000)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--refresh", type=float, default=5.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafkakit-bench-") as name:
        print(json.dumps(measure(given, Path(name)), indent=1))


def measure(given: argparse.Namespace, folder: Path) -> dict[str, object]:
    session = RecordedSession(given.topics, given.partitions)
    store = FileControl(folder / "control", lambda path, data, mode: path.write_bytes(data) and None)
    for number in range(0, given.topics, 10):
        tags = encode_tags({"team": f"team-{number // 10 % 50}"})
        store.cas(f"registry/topic/topic-{number:05d}", tags, None)
    base_mib = resident_mib(os.getpid())
    pipe_read, pipe_write = os.pipe()
    began = time.monotonic()
    served = os.fork()
    if served == 0:
        os.close(pipe_read)
        serve(session, store, folder, given.refresh, pipe_write)
    os.close(pipe_write)
    with os.fdopen(pipe_read) as lines:
        facts = json.loads(lines.readline())
    codec = registry_codec()
    try:
        named = [f"topic-{n:05d}" for n in range(0, given.topics, max(1, given.topics // NAMED))]
        lists = [
            "/v1/brokers/list", "/v1/brokers", "/v1/brokers/list?tag=rack:rack-1", "/v1/brokers/unmapped",
            "/v1/topics/list?tag=team:team-7", "/v1/topics/reassigning", "/v1/mappings/topic/topic-00007",
        ]  # fmt: skip
        uris = [uri for at, n in enumerate(named) for uri in (f"/v1/topics?name={n}", lists[at % len(lists)])]
        http = load(facts["HTTP"], given, ["--h1"], uris, folder, served)
        body = codec.encode("TopicRequest", {"name": "topic-00007", "with_replicas": True})
        request = folder / "request"
        request.write_bytes(b"\0" + len(body).to_bytes(4, "big") + body)
        words = [f"--data={request}", "--header=content-type: application/grpc", "--header=te: trailers"]
        grpc = load(
            facts["gRPC"],
            given,
            words,
            [f"/{SERVICE}/{name}" for name in ("GetTopics", "ListTopics", "TopicMappings")],
            folder,
            served,
        )
        memory = {"serving_mib": peak_mib(served), "reading_mib": peak_mib(facts["reader"])}
    finally:
        with suppress(ProcessLookupError):
            os.kill(served, signal.SIGTERM)
        os.waitpid(served, 0)
    return {
        "topics": given.topics,
        "partitions": given.partitions,
        "rate": given.rate,
        "first_answer_s": round(facts["first_s"] - began, 2),
        "refresh_s": given.refresh,
        "http": http,
        "grpc": grpc,
        "memory": {**memory, "of_which_recording_mib": base_mib},
        "machine": shape(),
    }


def serve(session: RecordedSession, store: FileControl, folder: Path, refresh_s: float, out: int) -> None:
    """The service as the command runs it, without the command line; never returns."""
    import urllib.request

    from tests.rigs.registry import running_service

    def open_reader() -> InventoryReader:
        return InventoryReader(recorded_admin(session), TagStore(store, "registry"), SystemClock())

    reader = ReaderProcess(open_reader, refresh_s)
    server, _, lines = running_service(folder, recorded_admin(session), store)
    server.start(reader)
    addresses = dict(line.split(" up: ") for line in lines if " up: " in line)
    while True:
        with suppress(OSError):
            urllib.request.urlopen(f"http://{addresses['HTTP']}/v1/topics?name=topic-00007", timeout=5).read()
            break
        time.sleep(0.01)
    facts = {**addresses, "first_s": time.monotonic(), "reader": reader.pid}
    os.write(out, (json.dumps(facts) + "\n").encode())
    signal.signal(signal.SIGTERM, lambda *_: (reader.stop(), os._exit(0)))
    while True:
        time.sleep(1)


def recorded_admin(session: RecordedSession) -> KafkaAdmin:
    admin = KafkaAdmin("recorded:9092", Security())
    admin._session = session  # type: ignore[assignment]
    return admin


if __name__ == "__main__":
    main()
