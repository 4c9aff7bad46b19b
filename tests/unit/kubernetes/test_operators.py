"""Who is at work on a cluster, by files of kubectl and of Cruise Control, and what Strimzi accepts."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.kubernetes.operators import (
    OperatorFile,
    parse_target,
    read_operators,
    removal_command,
    require_quiet,
    strimzi_plan,
)

SCHEMA = json.loads((Path(__file__).parents[2] / "cases/strimzi/kafkarebalance.schema.json").read_text())
ID = "abc"


def listed(*items: dict[str, Any]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def rebalance(
    state: str | None, name: str = "r", cluster: str | None = "prod", version: str = "v1", **annotations: str
) -> dict[str, Any]:
    labels = {} if cluster is None else {"strimzi.io/cluster": cluster}
    notes = {f"strimzi.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": f"kafka.strimzi.io/{version}",
        "kind": "KafkaRebalance",
        "metadata": {"name": name, "namespace": "ns", "labels": labels, "annotations": notes},
        "status": {} if state is None else {"conditions": [{"type": state, "status": "True"}]},
    }


def kafka(name: str = "prod", cluster_id: str | None = ID, auto: str | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {} if cluster_id is None else {"clusterId": cluster_id}
    status |= {} if auto is None else {"autoRebalance": {"state": auto}}
    return {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "Kafka",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {},
        "status": status,
    }


def pod(name: str, owner: str = "StrimziPodSet", **metadata: Any) -> dict[str, Any]:
    conditions = metadata.pop("conditions", [])
    meta = {"name": name, "namespace": "ns", "ownerReferences": [{"kind": owner, "name": "s"}], **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"conditions": conditions}}


def read(*items: dict[str, Any], cluster: str = "") -> OperatorFile:
    return read_operators(listed(*items), "f.json", ID, cluster)


@pytest.mark.parametrize(
    ("state", "approved", "is_busy"),
    [
        ("Rebalancing", False, True),
        ("Ready", True, False),
        ("Stopped", True, False),
        ("NotReady", True, False),
        ("PendingProposal", False, False),
        ("PendingProposal", True, True),
        ("ProposalReady", False, False),
        ("ProposalReady", True, True),
        (None, False, False),
        (None, True, True),
        ("Rebuilding", False, True),  # a state of a later version is not known to be quiet
    ],
)
def test_a_rebalance_is_at_work_when_it_moves_or_will_by_itself(
    state: str | None, approved: bool, is_busy: bool
) -> None:
    for notes in ({"rebalance_auto_approval": "true"}, {"rebalance": "approve"}):
        found = read(kafka(), rebalance(state, **(notes if approved else {})))
        assert bool(found.busy) is is_busy
    waits = not is_busy and state in ("PendingProposal", "ProposalReady")
    assert any("do not approve it" in note for note in found.notes) is waits


def test_what_is_at_work_is_named_with_its_state_age_and_the_way_to_pause_it() -> None:
    found = read_operators(listed(kafka(), rebalance("Rebalancing", "nightly")), "f.json", ID, age_s=12.0)
    with pytest.raises(TryLaterError) as caught:
        require_quiet([found])
    assert caught.value.message == (
        "another tool is at work on this cluster: KafkaRebalance nightly is in state Rebalancing (f.json, 12s old)"
    )
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(": kubectl annotate kafkarebalance nightly -n ns strimzi.io/rebalance=stop")
    require_quiet([read(kafka(), rebalance("Ready"), rebalance("Rebalancing", "template", rebalance_template="true"))])


@pytest.mark.parametrize(
    ("item", "words", "pause"),
    [
        (
            kafka(auto="RebalanceOnScaleDown"),
            "the auto-rebalance of Kafka prod is in state RebalanceOnScaleDown",
            "kubectl annotate kafka prod -n ns strimzi.io/pause-reconciliation=true",
        ),
        (
            pod("p-0", annotations={"strimzi.io/manual-rolling-update": "true"}),
            "pod p-0 is to be restarted by Strimzi (a drain of its node, or by hand)",
            "kubectl annotate pod p-0 -n ns strimzi.io/manual-rolling-update-",
        ),
        (
            pod("p-1", "StatefulSet", conditions=[{"type": "DisruptionTarget", "status": "True"}]),
            "pod p-1 is being evicted",
            "kubectl get pod p-1 -n ns",
        ),
        (
            pod("p-2", deletionTimestamp="2026-01-01T00:00:00Z"),
            "pod p-2 is being deleted",
            "kubectl get pod p-2 -n ns",
        ),
    ],
)
def test_others_that_move_or_restart_brokers_are_seen(item: dict[str, Any], words: str, pause: str) -> None:
    items = [item] if item["kind"] == "Kafka" else [kafka(), item]
    (busy,) = read(*items).busy
    assert (busy.words, busy.pause) == (words, pause)
    other = pod("web-0", "ReplicaSet", annotations={"strimzi.io/manual-rolling-update": "true"})
    elsewhere = pod("q-0", labels={"strimzi.io/cluster": "b"}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert read(kafka(auto="Idle"), other, pod("p-3")).busy == ()
    assert read(kafka(), kafka("b", "xyz"), elsewhere, rebalance("Rebalancing", cluster="b")).busy == ()


def test_what_is_not_known_is_never_quiet() -> None:
    later = read(kafka(), rebalance("Ready", version="v2"))
    assert [busy.state for busy in later.busy] == ["not read: this version is not known"]
    unlabelled = read(kafka(), rebalance("Rebalancing", cluster=None))
    assert len(unlabelled.busy) == 1
    for data in (listed(), listed(pod("p-0")), b"{}", b"", b"[1]", b"{", b'{"version": 1}'):
        with pytest.raises(InputError):
            read_operators(data, "f.json", ID)


def test_the_cluster_is_found_by_its_id_or_has_to_be_named() -> None:
    two = kafka(), kafka("b", "xyz"), rebalance("Rebalancing", cluster="b")
    assert read(*two).busy == ()
    unknown = kafka(cluster_id=None), kafka("b", None), rebalance("Rebalancing", cluster="b")
    with pytest.raises(UsageError, match="holds 2 Kafka clusters: b, prod") as caught:
        read(*unknown)
    assert caught.value.hint == "say which: --operators-cluster b"
    assert (len(read(*unknown, cluster="b").busy), len(read(*unknown, cluster="prod").busy)) == (1, 0)
    with pytest.raises(UsageError, match="no Kafka is called 'c'"):
        read(*unknown, cluster="c")
    with pytest.raises(UsageError, match="Kafka prod is cluster other, not abc"):
        read(kafka(cluster_id="other"))


def test_cruise_control_is_at_work_in_every_state_but_one() -> None:
    def answer(**state: Any) -> OperatorFile:
        return read_operators(json.dumps({"version": 1, **state}).encode(), "cc.json", ID)

    assert answer(ExecutorState={"state": "NO_TASK_IN_PROGRESS"}).busy == ()
    for state in ("INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS", "STOPPING_EXECUTION", "SOMETHING_NEW"):
        with pytest.raises(TryLaterError, match=f"Cruise Control is in state {state}") as caught:
            require_quiet([answer(ExecutorState={"state": state})])
        assert str(caught.value.hint).endswith("POST /kafkacruisecontrol/stop_proposal_execution")
    answers: list[dict[str, Any]] = [{"MonitorState": {}}, {"ExecutorState": {}}, {"ExecutorState": []}]
    for wrong in (*answers, {"errorMessage": "no \x1b[2J"}):
        with pytest.raises(InputError) as refused:
            answer(**wrong)
        assert refused.value.message.isprintable()


def refusal_of(*items: dict[str, Any]) -> KafkakitError | None:
    try:
        require_quiet([read(*items)])
    except KafkakitError as error:
        return error
    return None


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_hostile_names_move_no_cursor_and_break_no_command(name: str, state: str, cluster: str) -> None:
    refused = refusal_of(kafka(cluster or "k"), rebalance(state, name, cluster or "k"))
    if isinstance(refused, TryLaterError):
        assert refused.message.isprintable()
        assert str(refused.hint).isprintable()


names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)


@given(names, names, st.none() | names, st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=30, unique=True))
def test_strimzi_accepts_what_is_printed(cluster: str, pool: str, namespace: str | None, brokers: list[int]) -> None:
    target = parse_target("/".join(filter(None, (namespace, cluster, pool))), "--strimzi")
    for mode in ("remove-brokers", "add-brokers"):
        document = yaml.safe_load(strimzi_plan(target, brokers, mode))
        jsonschema.validate(document, SCHEMA)
        assert (document["spec"], document["metadata"]["labels"]) == (
            {"mode": mode, "brokers": brokers},
            {"strimzi.io/cluster": cluster},
        )
        assert document["metadata"].get("namespace") == namespace
    assert removal_command(target, brokers).startswith(f"kubectl annotate kafkanodepool {pool}")
    for text in ("prod", "Prod/x", "a/b/c/d", "a//b", "a/b\n", "-a/b", "/"):
        with pytest.raises(UsageError):
            parse_target(text, "--strimzi")
