"""Which pod is which broker: every way to know it, what is refused, and what is found wrong with pods and volumes."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import InputError
from kafkakit.core.model import Broker, LogDir
from kafkakit.core.text import shell_command
from kafkakit.kubernetes.brokers import (
    ClusterPods,
    PodChoice,
    pods_of_cluster,
    rounded_size,
)
from kafkakit.kubernetes.objects import read_objects
from kafkakit.status.decide.surroundings import POD_CHECKS, pod_findings
from tests.rigs.kubernetes import Thing, claim, cluster, node, pod, printed, stateful, strimzi_pod, thing

GIB = 2**30
NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)


def pods_in(items: list[Thing], **choice: Any) -> ClusterPods:
    return pods_of_cluster(read_objects(printed(items), "f"), PodChoice(**choice))


def names(found: ClusterPods) -> dict[int, str]:
    return {broker: each.pod.name for broker, each in found.pods.items()}


def brokers(*ids: int, racks: str = "abc") -> dict[int, Broker]:
    return {b: Broker(id=b, rack=rack, host=f"kafka-{b}.kafka-headless") for b, rack in zip(ids, racks, strict=False)}


def told(found: ClusterPods, known: dict[int, Broker]) -> dict[str, list[tuple[str, str]]]:
    """Message and command of each finding by its rule."""
    by_rule: dict[str, list[tuple[str, str]]] = {}
    for each in pod_findings(found, known, show=lambda *words, **options: str(shell_command(*words, **options))):
        by_rule.setdefault(each.rule, []).append((each.message, each.hint))
    return by_rule


def with_claims(*claims: Thing) -> list[Thing]:
    """Three brokers whose claims are these only."""
    return [*(each for each in cluster() if each["kind"] != "PersistentVolumeClaim"), *claims]


# -- ids


def test_ordinals_labels_and_operators_tell_the_broker() -> None:
    assert names(pods_in(cluster())) == {0: "kafka-0", 1: "kafka-1", 2: "kafka-2"}
    assert list(names(pods_in(cluster(), first_id=1000))) == [1000, 1001, 1002]
    assert list(names(pods_in([pod("kafka-0", labels={"id": "7"})], id_label="id"))) == [7]
    koperator = {"app": "kafka", "kafka_cr": "k", "brokerId": "101"}
    assert names(pods_in([pod("k-101-x7fq", None, labels=koperator)])) == {101: "k-101-x7fq"}
    assert names(pods_in([strimzi_pod("c", "a", 0), strimzi_pod("c", "b", 12)])) == {0: "c-a-0", 12: "c-b-12"}


def test_confluents_annotation_says_where_ids_begin() -> None:
    offset = {"annotations": {"platform.confluent.io/broker-id-offset": "100"}}
    owner = thing("Kafka", "kafka", "platform.confluent.io/v1beta1", metadata=offset)
    labels = {"platform.confluent.io/type": "kafka"}
    keeper = pod("zk-0", "zk", labels={"platform.confluent.io/type": "zookeeper"})
    items = [owner, stateful("kafka", 2), pod("kafka-0", labels=labels), keeper]
    found = pods_in(items)
    assert names(found) == {100: "kafka-0"}
    assert [each.broker for each in found.missing] == [101]
    assert names(pods_in(items, first_id=5)) == {5: "kafka-0"}


def test_controllers_and_other_workloads_are_left_out() -> None:
    others = [
        strimzi_pod("c", "controllers", 3, broker=False),
        strimzi_pod("c", "connect", 0, kind="kafka-connect"),
        pod("kafka-ui-5d8f7", None),
    ]
    found = pods_in([strimzi_pod("c", "brokers", 0), *others])
    assert names(found) == {0: "c-brokers-0"}
    assert found.notes == ("3 pods of other workloads left out",)


def test_two_clusters_need_a_choice() -> None:
    items = [*cluster("ab"), *cluster("ab", "other")[2:]]
    with pytest.raises(
        InputError,
        match=r"2 clusters or workloads: kafka/kafka \(2 pods\), kafka/other \(2 pods\); .*--pods-of kafka/kafka",
    ):
        pods_in([each for each in items if each["kind"] in ("Pod", "StatefulSet")])
    pods = [each for each in items if each["kind"] == "Pod"]
    assert names(pods_in(pods, cluster="other")) == {0: "other-0", 1: "other-1"}
    assert names(pods_in(pods, cluster="kafka/kafka")) == {0: "kafka-0", 1: "kafka-1"}
    with pytest.raises(InputError, match="no pods of 'x' are brokers"):
        pods_in(pods, cluster="x")


@pytest.mark.parametrize(
    ("items", "choice", "message"),
    [
        ([], {}, "f: holds no pods"),
        ([node("n", "a")], {}, "f: holds no pods"),
        ([pod("kafka-0", None)], {}, "no pod is of a StatefulSet or an operator"),
        ([pod("kafka-0")], {"id_label": "id"}, "no pod has the label"),
        ([pod("kafka-0", labels={"id": "1"}), pod("kafka-1")], {"id_label": "id"}, "of pod kafka/kafka-1 is not"),
        ([pod("kafka-0", labels={"id": "1"}), pod("kafka-1", labels={"id": "1"})], {"id_label": "id"},
         "pods kafka/kafka-0 and kafka/kafka-1 are both broker 1"),
        ([strimzi_pod("c", "a", 1), strimzi_pod("c", "b", 1)], {}, "kafka/c-a-1 and kafka/c-b-1 are both broker 1"),
        ([pod("kafka-x\x1b[2J")], {}, r"the broker of pod kafka/kafka-x\\x1b\[2J is not known"),
        ([pod("kafka-9")], {"first_id": 2**31 - 2}, "the broker of pod kafka/kafka-9 is not known"),
    ],
)  # fmt: skip
def test_nothing_is_guessed(items: list[Thing], choice: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pods_in(items, **choice)


@given(
    st.sets(st.integers(0, 8)), st.integers(1, 9), st.integers(0, 2), st.integers(0, 500), st.sets(st.integers(0, 12))
)
def test_each_pod_is_one_broker_and_each_absent_one_is_told(
    present: set[int], replicas: int, start: int, first: int, registered: set[int]
) -> None:
    ordinals = {start + number for number in present}
    items = [stateful("kafka", replicas, ordinals={"start": start}), *(pod(f"kafka-{n}") for n in sorted(ordinals))]
    if not ordinals:
        with pytest.raises(InputError):
            pods_in(items)
        return
    found = pods_in(items, first_id=first)
    assert names(found) == {first + n: f"kafka-{n}" for n in sorted(ordinals)}
    absent = [n for n in range(start, start + replicas) if n not in ordinals]
    assert [(each.name, each.broker) for each in found.missing] == [(f"kafka-{n}", first + n) for n in absent]
    known = {first + n: Broker(id=first + n) for n in registered}
    lacking, extra = known.keys() - found.pods.keys(), found.pods.keys() - known.keys()
    by_rule = told(found, known)
    if known and len(lacking) == len(known):
        assert list(by_rule) == ["pod-missing"]
    else:
        # What its set lacks is told as well, whether or not it is a broker by now.
        assert len(by_rule.get("pod-missing", ())) == len(lacking | {first + n for n in absent})
        assert len(by_rule.get("pod-without-broker", ())) == len(extra)


# -- findings


def test_a_sound_cluster_has_no_finding() -> None:
    assert told(pods_in(cluster()), brokers(0, 1, 2)) == {}


def test_half_a_stateful_set_is_told_by_its_pods() -> None:
    items = [each for each in cluster() if each["metadata"]["name"] not in ("kafka-1", "kafka-2")]
    found = told(pods_in(items), brokers(0, 1, 2))
    describe = "kubectl describe statefulset kafka -n kafka"
    assert found == {
        "pod-missing": [
            ("1: pod kafka-1 of StatefulSet kafka is missing", describe),
            ("2: pod kafka-2 of StatefulSet kafka is missing", describe),
        ]
    }


def test_a_strimzi_set_lacks_brokers_and_never_its_controllers() -> None:
    labels = {"strimzi.io/cluster": "c", "strimzi.io/component-type": "kafka"}
    sets = [
        thing("StrimziPodSet", f"c-{pool}", "core.strimzi.io/v1", metadata={"labels": labels}, spec={"pods": [
            {"metadata": {"name": f"c-{pool}-{n}", "labels": {**labels, "strimzi.io/broker-role": role}}}
            for n in numbers
        ]})
        for pool, numbers, role in (("brokers", (0, 1), "true"), ("controllers", (2, 3), "false"))
    ]  # fmt: skip
    found = pods_in([strimzi_pod("c", "brokers", 0), *sets])
    assert [(each.name, each.owner, each.broker) for each in found.missing] == [
        ("c-brokers-1", "StrimziPodSet c-brokers", 1)
    ]


def test_brokers_and_pods_that_do_not_meet_are_told() -> None:
    found = told(pods_in([pod("kafka-0"), pod("kafka-5")]), brokers(0, 1))
    assert found["pod-missing"] == [("1 has no pod in f", "kubectl get pods -n kafka")]
    assert found["pod-without-broker"] == [
        ("pod kafka-5 is not a broker of the cluster", "kubectl describe pod kafka-5 -n kafka")
    ]
    other = told(pods_in(cluster()), brokers(101, 102))
    assert other == {
        "pod-missing": [
            (
                "no pod of kafka/kafka has the id of a broker (101, 102): another cluster's pods?",
                "kubectl get pods -n kafka",
            )
        ]
    }


def test_addresses_contradict_wrong_ids() -> None:
    known = {b: replace(each, host=f"kafka-{b - 1}.kafka-headless") for b, each in brokers(1, 2, 3).items()}
    wrong = told(pods_in(cluster()), known)
    assert [message.partition(",")[0] for message, _ in wrong["pod-id"]] == [
        "1 has the address of pod kafka-0",
        "2 has the address of pod kafka-1",
    ]
    assert told(pods_in(cluster(), first_id=1), known) == {}


def test_a_pod_that_is_not_ready_and_a_rack_of_another_zone() -> None:
    items = cluster()
    items[2] = pod("kafka-0", node="n0", ready=False)
    items[5] = pod("kafka-1", node="n1", deletionTimestamp="2026-11-30T00:00:00Z")
    found = told(pods_in(items), brokers(0, 1, 2, racks="axc"))
    assert found["pod-not-ready"] == [
        ("0: pod kafka-0 on node n0 is Running, not ready", "kubectl describe pod kafka-0 -n kafka"),
        ("1: pod kafka-1 on node n1 is being deleted", "kubectl describe pod kafka-1 -n kafka"),
    ]
    assert found["rack-zone"] == [
        ("1 has broker.rack x, and its node n1 is in zone b", "kubectl get node n1 -L topology.kubernetes.io/zone")
    ]
    bare = {0: Broker(id=0), 1: Broker(id=1, rack="b"), 2: Broker(id=2, rack="c")}
    assert told(pods_in(cluster()), bare)["rack-zone"][0][0] == "0 has no broker.rack, and its node n0 is in zone a"


def test_claims_that_are_lost_waiting_or_growing() -> None:
    lost, pending = claim("data-kafka-0", phase="Lost"), claim("data-kafka-1", phase="Pending")
    items = with_claims(lost, pending, claim("data-kafka-2", asked="200Gi"))
    found = told(pods_in(items), brokers(0, 1, 2))
    assert found["volume"] == [
        (
            "0: claim data-kafka-0 is Lost: the broker lost what it held",
            "kafkakit topicmappr repair --brokers 0 --plan repair.json",
        ),
        ("1: claim data-kafka-1 is Pending", "kubectl describe pvc data-kafka-1 -n kafka"),
    ]
    assert found["volume-resize"] == [
        ("2: claim data-kafka-2 has 100 GiB of 200 GiB that it asks for: a resize is pending",
         "kubectl describe pvc data-kafka-2 -n kafka")
    ]  # fmt: skip
    failed = [
        *cluster(),
        thing("PersistentVolume", "pv-data-kafka-0", metadata={"namespace": ""}, status={"phase": "Failed"}),
    ]
    assert told(pods_in(failed), brokers(0, 1, 2))["volume"][0][0] == (
        "0: the volume of claim data-kafka-0 is Failed: the broker lost what it held"
    )


def test_what_the_file_lacks_is_no_finding() -> None:
    bare = [{**each, "status": {}} for each in cluster() if each["kind"] == "Pod"]
    found = pods_in(bare)
    assert told(found, brokers(0, 1, 2)) == {}
    assert [each.state for each in found.pods.values()] == ["?"] * 3
    assert [volume.state for each in found.pods.values() for volume in each.volumes] == [None] * 3


def test_hostile_names_stay_on_their_line() -> None:
    evil = "x\x1b]0;t\x07; rm -rf /-0"
    items = [pod(evil, "s\n1", evil), node(evil, "z\x1b[2J"), claim(f"data-{evil}", phase="Lost")]
    for message, command in [each for found in told(pods_in(items), {0: Broker(id=0)}).values() for each in found]:
        assert message.isprintable()
        assert command.isprintable()
        assert "; rm" not in re.sub(r"\$'(?:[^'\\]|\\.)*'", "NAME", command)


def test_the_age_of_the_file_is_told_unless_clocks_differ() -> None:
    found = pods_in(cluster())
    assert found.age_words(NOW) == ""
    assert replace(found, written_at=NOW - timedelta(minutes=9)).age_words(NOW) == ""
    assert (
        replace(found, written_at=NOW - timedelta(hours=3)).age_words(NOW) == "f is 3h old: pods may have changed since"
    )
    ahead = replace(found, written_at=NOW + timedelta(hours=2)).age_words(NOW)
    assert ahead == "f was written 2h after now by this host's clock: its age is not known"


# -- larger volumes


def place(used: int, total: int = 100, path: str = "/data/kafka") -> LogDir:
    return LogDir(path=path, total_bytes=total * GIB, usable_bytes=(total - used) * GIB)


def test_a_full_volume_grows_by_what_comes_in() -> None:
    found = pods_in(cluster())
    # 10 GiB are left for 10 days: 30 days more fit in 150 GiB below 85 %.
    growth = found.growth(0, place(90), 10 * 86400.0)
    assert growth is not None
    assert (growth.size_bytes, growth.words) == (150 * GIB, "its volume may grow to 150Gi, enough for 60d at this rate")
    patch = '\'{"spec":{"resources":{"requests":{"storage":"150Gi"}}}}\''
    assert growth.command == f"kubectl patch pvc data-kafka-0 -n kafka -p {patch}"
    burst = found.growth(0, place(90), 3600.0)
    assert burst is not None
    assert burst.size_bytes == 200 * GIB
    unknown = found.growth(0, place(90), None)
    assert unknown is not None
    assert (unknown.size_bytes, unknown.words) == (130 * GIB, "its volume may grow to 130Gi")


def test_strimzi_sets_the_size_of_its_claims_itself() -> None:
    items = [strimzi_pod("c", "brokers", 0), claim("data-c-brokers-0"), cluster()[1]]
    growth = pods_in(items).growth(0, place(90), None)
    assert growth is not None
    assert growth.words == "set the storage size of pool brokers to 130Gi"
    assert growth.command == "kubectl edit kafkanodepool brokers -n kafka"


@pytest.mark.parametrize(
    ("items", "where"),
    [
        (cluster(expands=False), place(90)),
        ([each for each in cluster() if each["kind"] != "StorageClass"], place(90)),
        (with_claims(), place(90)),
        (cluster(), place(90, path="/elsewhere")),
        (cluster(), place(90, path="/database")),
        (cluster(), LogDir(path="/data/kafka")),
        (
            with_claims(claim("data-kafka-0", asked="200Gi")),
            place(90),
        ),
        ([*cluster("")[:2], pod("kafka-7")], place(90)),
    ],
)
def test_no_larger_size_is_proposed_where_it_is_not_known_to_work(items: list[Thing], where: LogDir) -> None:
    assert pods_in(items).growth(0, where, 3600.0) is None


@given(st.integers(1, 20_000), st.floats(0.0, 1.0), st.one_of(st.none(), st.floats(1.0, 1e9)))
def test_a_larger_size_is_larger_and_at_most_about_double(total: int, share: float, left_s: float | None) -> None:
    items = with_claims(claim("data-kafka-0", f"{total}Gi"))
    where = LogDir(path="/data", total_bytes=total * GIB, usable_bytes=round(total * GIB * share))
    growth = pods_in(items).growth(0, where, left_s)
    assert growth is not None
    assert 1.25 * total * GIB <= growth.size_bytes < 2 * total * GIB + 100 * GIB
    assert growth.size_bytes % GIB == 0


@pytest.mark.parametrize(
    ("size", "rounded"), [(1, 1), (99.5, 100), (100.5, 110), (1023, 1030), (1031, 1100), (2000, 2000)]
)
def test_sizes_are_rounded_up(size: float, rounded: int) -> None:
    assert rounded_size(size * GIB) == rounded * GIB


def test_every_check_has_a_name_of_its_own() -> None:
    assert len({check.name for check in POD_CHECKS}) == len(POD_CHECKS) == 7
