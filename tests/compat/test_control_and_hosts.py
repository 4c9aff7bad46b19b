"""Control documents, operation records, sandbox records and small notes, all written by the version before."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.control_kafka import KEY_PREFIX, LogView
from kafkakit.adapters.files import write_file
from kafkakit.broker.act.operation_files import Records
from kafkakit.broker.decide.operation import BrokerOperationKind, OperationPlanState, Stage
from kafkakit.cli import completion
from kafkakit.core.lease import (
    LEASE_DOCUMENT,
    Holder,
    LeaseGrant,
    LeaseRefusal,
    LeaseWait,
    Life,
    VersionedValue,
    decide,
    watch,
)
from kafkakit.execution.act.leases import Lease, lease_path
from kafkakit.execution.decide.runs import ANSWER_DOCUMENT, decode_control_request
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.sandbox.decide.spec import ClientSecurity, MetadataMode, Phase
from kafkakit.sandbox.decide.spec import decode_state as decode_sandbox
from tests.compat.recorded import CLUSTER, FOLDER
from tests.fakes.admin import FakeClock
from tests.rigs.command_line import Home

MB = 1_000_000
HOLDER = Holder(host="ops-1", user="operator", command="reassign apply p.json", pid=4711, started_ticks=123456,
                machine="boot-1/pid:1")  # fmt: skip


def control(name: str) -> bytes:
    return (FOLDER / "control" / name).read_bytes()


def test_a_held_lease_is_waited_for_and_one_given_back_is_taken() -> None:
    held, back = (LEASE_DOCUMENT.decode(control(f"lease-{name}.json"), name) for name in ("held", "given-back"))
    assert (held.token, held.ttl_s, held.holder) == (1, 15.0, HOLDER)
    seen, now = VersionedValue(value=control("lease-held.json"), version=1), held.renewed_at + timedelta(seconds=10)
    first = later = watch(None, seen, ttl_s=15, asked_s=99.0, now_s=100.0)
    assert isinstance(decide(held, first, first, now, Life.UNKNOWN), LeaseWait)
    assert isinstance(decide(held, first, first, now, Life.ALIVE), LeaseRefusal)
    for asked_s in (105.0, 110.0, 115.0):
        later = watch(later, seen, ttl_s=15, asked_s=asked_s, now_s=asked_s)
    assert decide(held, later, first, now, Life.ALIVE) == LeaseGrant(2, 1)
    assert (back.holder, decide(back, first, first, now, Life.UNKNOWN)) == (None, LeaseGrant(2, 1))


def test_control_requests_and_answers_mean_what_they_meant() -> None:
    paused = decode_control_request(control("wish-pause.json"), "w")
    assert (paused.token, paused.by, paused.paused, paused.abort, paused.rates) == (
        1,
        "operator on ops-1",
        True,
        False,
        None,
    )
    rates = decode_control_request(control("wish-rates.json"), "w").rates
    assert rates == BrokerRates(into=3 * MB, out=4 * MB, inside=5 * MB, into_of={1: MB, 3: 2 * MB}, out_of={2: 7})
    aborted = decode_control_request(control("wish-abort-no-throttle.json"), "w")
    assert (aborted.abort, aborted.paused, aborted.rates) == (True, False, BrokerRates())
    answers = [ANSWER_DOCUMENT.decode(control(name), name) for name in ("wish-answer-refused.json", "wish-answer.json")]
    assert [(a.token, a.version, a.refused) for a in answers] == [(1, 2, "below what the logs take in"), (1, 3, "")]


def test_a_folder_as_control_store_is_continued(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "control" / "file-store", tmp_path / "control")
    store, clock = FileControl(tmp_path / "control", write_file), FakeClock(datetime(2026, 11, 22, tzinfo=UTC))
    assert store.children("clusters/fake-cluster") == ("lease", "wish", "wish-answer")
    found = store.get(lease_path(CLUSTER))
    assert found is not None
    assert (found.value, found.version) == (control("lease-given-back.json"), 2)
    lease = Lease(store, clock, lease_path(CLUSTER), HOLDER, what="cluster", life_of=lambda _: Life.UNKNOWN,
                  say=lambda _: None)  # fmt: skip
    assert lease.acquire() == 2


def test_records_of_the_kafka_store_are_read() -> None:
    view = LogView("log")
    view.add(3, KEY_PREFIX + b"0", control("kafka-change.record"))
    assert view.document("clusters/fake-cluster/lease") == VersionedValue(value=b'{"a":1}', version=3)
    view.add(12, KEY_PREFIX + b"1", control("kafka-confirmation.record"))
    assert view.document("clusters/fake-cluster/lease") == VersionedValue(value=b'{"a":2}', version=9)


@pytest.mark.parametrize(
    ("folder", "kind", "stage", "onto", "legs"),
    [
        ("drain-done", BrokerOperationKind.DRAIN, Stage.DONE, None, [OperationPlanState.DONE, OperationPlanState.DONE]),
        ("replace-interrupted", BrokerOperationKind.REPLACE, Stage.MOVING, 4, [OperationPlanState.OPEN]),
        (
            "decommission-undone",
            BrokerOperationKind.DECOMMISSION,
            Stage.UNDONE,
            None,
            [OperationPlanState.UNDONE, OperationPlanState.UNDONE],
        ),
    ],
)
def test_an_operation_is_found_with_its_plans(
    tmp_path: Path,
    folder: str,
    kind: BrokerOperationKind,
    stage: Stage,
    onto: int | None,
    legs: list[OperationPlanState],
) -> None:
    shutil.copytree(FOLDER / "broker-operation" / folder, tmp_path / "operations")
    records = Records(tmp_path / "operations", write_file, FakeClock())
    brokers = (2,) if kind is BrokerOperationKind.DECOMMISSION else (1,)
    found = records.last_on(brokers)
    assert (found.kind, found.stage, found.onto, found.number, found.cluster_id) == (kind, stage, onto, 1, CLUSTER)
    assert [leg.state for leg in found.legs] == legs
    assert all(records.plan_path(leg).is_file() for leg in found.legs)
    assert records.newest(kind, brokers, onto) == found
    assert found.next_leg == (0 if stage is Stage.MOVING else None)
    assert found.throttle == (None if kind is BrokerOperationKind.DECOMMISSION else "5MB")


@pytest.mark.parametrize(
    ("name", "mode", "secure", "brokers"),
    [
        ("kraft", MetadataMode.KRAFT, ClientSecurity.NONE, 3),
        ("zookeeper", MetadataMode.ZOOKEEPER, ClientSecurity.NONE, 1),
        ("scram-tls", MetadataMode.KRAFT, ClientSecurity.SCRAM_TLS, 2),
    ],
)
def test_a_running_sandbox_is_recognised(name: str, mode: MetadataMode, secure: ClientSecurity, brokers: int) -> None:
    state = decode_sandbox((FOLDER / "sandbox-state" / f"{name}.json").read_bytes(), name)
    assert (state.spec.mode, state.spec.secure, state.spec.brokers, state.phase) == (mode, secure, brokers, Phase.UP)
    assert [node.id for node in state.layout.brokers] == [1001 + n for n in range(brokers)]
    for record in state.nodes:
        assert record.process is not None
        assert record.process.marker == f"-Dkafkakit.sandbox.node={record.node.folder}"


@pytest.mark.parametrize("name", ["kraft", "zookeeper", "scram-tls"])
def test_a_profile_that_a_sandbox_wrote_is_a_profile(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path)
    home.write_config((FOLDER / "sandbox-state" / f"{name}.profile.yaml").read_text(), "profiles.d/box.yaml")
    ran = home.run("profile", "list", "-o", "json")
    (profile,) = ran.json["profiles"]
    assert (profile["name"], profile["bootstrap_server"].startswith("127.0.0.1:200")) == ("box", True)
    shown = home.run("profile", "show", "box", "-o", "json")
    assert (shown.code, shown.json["values"]["cluster_id"]["value"]) == (0, "the-real-id"), shown.stderr


def test_the_profile_in_use_stays_in_use(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_config("bootstrap_server: fake:1\n", "profiles.d/p.yaml")
    home.write_config("bootstrap_server: fake:2\n", "profiles.d/q.yaml")
    home.state.mkdir(parents=True)
    shutil.copy(FOLDER / "notes" / "current-profile", home.state)
    assert [p["name"] for p in home.run("profile", "list", "-o", "json").json["profiles"] if p["current"]] == ["p"]


def test_topic_names_kept_for_completion_are_read(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    shutil.copyfile(FOLDER / "notes" / "topic-names.json", path)
    os.utime(path)
    assert completion._read_cache(path) == ["orders", "pay.ments_v-2"]
