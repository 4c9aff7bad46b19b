"""kafkakit's own services beside a cluster, and what brokers tell of their versions."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, MetadataVersion, ResourceKind
from kafkakit.core.findings import FailOn, Severity
from kafkakit.core.lease import Holder, LeaseRecord, Life, pacer_lease
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.leases import Lease
from kafkakit.status.act.reading import services_of
from kafkakit.status.decide.judgement import judge_cluster
from kafkakit.status.decide.surroundings import SeenService, ServiceName, version_findings
from kafkakit.status.report.objects import cluster_report
from kafkakit.status.report.status import status_report
from kafkakit.streams.client.api import GRANT_DOCUMENT, GrantDocument, GrantedPartition, GrantedTopic, grant_path
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.unit.status.test_judgement import NOW, healthy
from tests.unit.status.test_reading import cluster, read

HOLDER = Holder(host="ops-1", user="kafka", command="autothrottle run", pid=4321)


def record(**changes: Any) -> LeaseRecord:
    values: dict[str, Any] = {
        "token": 1, "beats": 2, "ttl_s": 10.0, "holder": HOLDER,
        "taken_at": NOW - timedelta(hours=3), "renewed_at": NOW - timedelta(seconds=2),
    }  # fmt: skip
    return LeaseRecord(**{**values, **changes})


ALIVE = record()
SILENT = record(renewed_at=NOW - timedelta(minutes=5))
GIVEN_BACK = record(holder=None, renewed_at=NOW - timedelta(days=2))


@pytest.mark.parametrize(
    ("found", "life", "alive"),
    [
        (ALIVE, Life.ALIVE, True),
        (ALIVE, Life.UNKNOWN, True),
        (ALIVE, Life.GONE, False),
        (SILENT, Life.UNKNOWN, False),
        (SILENT, Life.ALIVE, False),
        (GIVEN_BACK, Life.UNKNOWN, False),
        (record(renewed_at=NOW + timedelta(minutes=5)), Life.UNKNOWN, True),
        (record(ttl_s=600.0, renewed_at=NOW - timedelta(minutes=20)), Life.UNKNOWN, True),
    ],
)
def test_a_service_is_alive_while_it_renews_its_lease(found: LeaseRecord, life: Life, alive: bool) -> None:
    assert SeenService(name=ServiceName.PACER, record=found, life=life).is_alive(NOW) is alive


def text_of(*services: SeenService) -> str:
    return status_report([judge_cluster(healthy(services=services))], fail_on=FailOn.ERROR, width=80).text


def test_each_service_has_a_line_and_one_that_never_led_has_none() -> None:
    assert "services" not in text_of()
    lines = text_of(
        SeenService(name=ServiceName.MONITOR, record=ALIVE), SeenService(name=ServiceName.PACER, record=GIVEN_BACK)
    ).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("services"))
    assert lines[at].split(None, 1)[1] == f"lag monitor leads for 3h, process {HOLDER.pid} on {HOLDER.host}"
    assert lines[at + 1].strip() == "autothrottle pacer stopped: last seen 2d ago"


@pytest.mark.parametrize("name", [ServiceName.MONITOR, ServiceName.REGISTRY, ServiceName.ASSIGNER, ServiceName.PACER])
def test_a_stopped_service_that_nothing_waits_for_is_no_finding(name: ServiceName) -> None:
    assert judge_cluster(healthy(services=(SeenService(name=name, record=SILENT),))).findings == ()


@pytest.mark.parametrize(("found", "how"), [(SILENT, "vanished"), (GIVEN_BACK, "was stopped")])
def test_an_assigner_that_is_gone_while_streams_are_assigned_is_a_warning(found: LeaseRecord, how: str) -> None:
    service = SeenService(name=ServiceName.ASSIGNER, record=found, needs=("audit", "orders"))
    (finding,) = judge_cluster(healthy(services=(service,))).findings
    assert (finding.rule, finding.severity) == ("service-stopped", Severity.WARNING)
    assert how in finding.message
    assert "audit, orders" in finding.message
    assert finding.hint == "kafkakit --profile prod streams assigner show"


def test_a_pacer_is_missed_only_while_something_moves_under_its_throttles() -> None:
    found = cluster()
    found.add_broker(4, "a")
    services = (SeenService(name=ServiceName.PACER, record=SILENT, needs=("1",)),)

    def rules() -> set[str]:
        reading = replace(read(found).read(), services=services, at=NOW)
        return {f.rule for f in judge_cluster(reading).findings}

    assert "service-stopped" not in rules()
    found.reassign({TopicPartition("orders", 0): (4, 2, 3)})
    assert "service-stopped" in rules()


def take(store: FakeControlStore, clock: FakeClock, path: str) -> Lease:
    lease = Lease(store, clock, path, HOLDER, what="it", life_of=lambda _: Life.UNKNOWN, say=lambda _: None)
    lease.acquire()
    return lease


def seen(store: FakeControlStore, clock: FakeClock) -> tuple[SeenService, ...]:
    return services_of(store, clock, "c", lambda _: Life.UNKNOWN)


def test_services_are_found_by_the_leases_that_they_held() -> None:
    store, clock = FakeControlStore(), FakeClock()
    assert seen(store, clock) == ()
    take(store, clock, "lag/clusters/c")
    pacer = take(store, clock, pacer_lease("c"))
    take(store, clock, pacer_lease("another"))
    now: datetime = clock.now()
    assert {s.name: s.is_alive(now) for s in seen(store, clock)} == {
        ServiceName.MONITOR: True, ServiceName.PACER: True,
    }  # fmt: skip
    pacer.release()
    clock.advance(300)
    assert [s.is_alive(clock.now()) for s in seen(store, clock)] == [False, False]


def test_what_waits_for_an_assigner_is_read_once_it_is_gone() -> None:
    store, clock = FakeControlStore(), FakeClock()
    take(store, clock, "assigner/lease")
    topic = GrantedTopic(
        stream="orders", group="g", cluster_id="c", topic="t", topic_id="x", partitions=(GrantedPartition(0, 1),)
    )
    grant = GrantDocument(worker="w", token=1, round=1, topics=(topic,))
    store.cas(grant_path("slot"), GRANT_DOCUMENT.encode(grant), None)
    assert [s.needs for s in seen(store, clock)] == [()]
    clock.advance(300)
    assert [s.needs for s in seen(store, clock)] == [("orders",)]


V38, V39 = "3.8-IV0", "3.9-IV0"


@pytest.mark.parametrize(
    ("versions", "kafka", "has_quorum", "words"),
    [
        ({1: V39, 2: V39}, "3.9.0", True, ""),
        (
            {1: V38, 2: V39, 3: V39},
            "3.8.0",
            True,
            "3.8-IV0 on 1, 3.9-IV0 on 2, 3; a rolling upgrade",
        ),
        ({1: V38, 2: V38}, "3.9.0", False, "speak 3.8-IV0 to each other: the upgrade is not finished"),
        ({1: V38, 2: V38}, "3.9.0", True, ""),
        ({}, "4.1.0", True, ""),
        ({1: V39, 2: "4 or later"}, "3.9.0", True, "4 or later on 2"),
        ({1: "x"}, None, False, ""),
    ],
)
def test_versions_that_differ_or_are_not_used_yet_are_a_note(
    versions: dict[int, str], kafka: str | None, has_quorum: bool, words: str
) -> None:
    show = "kafkakit cluster describe"
    found = list(version_findings(versions, kafka, show, has_quorum=has_quorum, metadata={}))
    assert [(f.severity, words in f.message) for f in found] == ([(Severity.NOTE, True)] if words else [])


def test_versions_are_read_of_brokers_that_have_them() -> None:
    found = cluster()
    assert read(found).read().versions == {}
    for broker, version in (("1", V38), ("2", V39), ("3", V39)):
        key = "inter.broker.protocol.version"
        found.alter_configs(
            [ConfigChange(kind=ResourceKind.BROKER, name=broker, key=key, op=ConfigOp.SET, value=version)]
        )
    reading = read(found).read()
    assert reading.versions == {1: V38, 2: V39, 3: V39}
    assert [f.rule for f in judge_cluster(reading).findings] == ["versions"]


@pytest.mark.parametrize(
    ("in_force", "newest", "told", "line"),
    [
        ((27, 27, 27), (27, 27, 27), "", "metadata.version: level 27\n"),
        ((25, 25, 25), (27, 27, 27), "is at level 25, and all brokers know 27: the upgrade is not finished",
         "metadata.version: level 25; all brokers know 27\n"),
        ((25, 25, 25), (25, 27, 27), "up to 25 on 1, up to 27 on 2, 3; a rolling upgrade is under way",
         "metadata.version: level 25\n"),
    ],
)  # fmt: skip
def test_a_level_of_metadata_that_is_not_the_newest_is_a_note_and_the_cluster_shows_it(
    in_force: tuple[int, ...], newest: tuple[int, ...], told: str, line: str
) -> None:
    found = cluster()
    pairs = zip(in_force, newest, strict=True)
    found.metadata = {b: MetadataVersion(in_force=a, newest=n) for b, (a, n) in enumerate(pairs, start=1)}
    status = judge_cluster(read(found).read())
    assert [(f.rule, told in f.message) for f in status.findings] == ([("versions", True)] if told else [])
    text = cluster_report(status).text
    assert line in text
    assert ("upgrade --feature metadata.version=27" in text) == ("not finished" in told)


def test_a_cluster_that_tells_no_level_of_metadata_has_none() -> None:
    status = judge_cluster(read(cluster()).read())
    report = cluster_report(status)
    assert report.data["metadata_version"] is None
    assert "metadata.version" not in report.text
