"""Objects of Kubernetes: every form that kubectl prints, facts of each kind, and what is refused with its place."""

import json
from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.errors import InputError
from kafkakit.kubernetes.objects import (
    ConfluentKafka,
    KubernetesService,
    PersistentVolume,
    SecretObject,
    StatefulSet,
    StorageClass,
    StrimziKafka,
    StrimziPodSet,
    VolumeClaim,
    quantity_bytes,
    read_objects,
)

GIB = 2**30


def item(kind: str, name: str, version: str = "v1", /, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "kafka", "uid": "u", **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


POD = item(
    "Pod",
    "kafka-2",
    metadata={"ownerReferences": [{"kind": "StatefulSet", "name": "kafka"}], "labels": {"app": "kafka"}},
    spec={
        "nodeName": "n2",
        "containers": [{"name": "k", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}, {"name": "sidecar"}],
        "volumes": [{"name": "tmp"}, {"name": "data", "persistentVolumeClaim": {"claimName": "data-kafka-2"}}],
    },
    status={"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
)
CLAIM = item(
    "PersistentVolumeClaim",
    "data-kafka-2",
    spec={"storageClassName": "ssd", "volumeName": "pv-2", "resources": {"requests": {"storage": "200Gi"}}},
    status={
        "phase": "Bound",
        "capacity": {"storage": "100Gi"},
        "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
    },
)
REST = [
    item("Node", "n2", metadata={"labels": {"topology.kubernetes.io/zone": "eu-1a"}}),
    item("PersistentVolume", "pv-2", spec={"capacity": {"storage": "100Gi"}}, status={"phase": "Bound"}),
    item("StorageClass", "ssd", "storage.k8s.io/v1", provisioner="x", allowVolumeExpansion=True),
    item("StorageClass", "hdd", "storage.k8s.io/v1", provisioner="x"),
    item(
        "StatefulSet",
        "kafka",
        "apps/v1",
        spec={
            "replicas": 3,
            "serviceName": "kafka-headless",
            "ordinals": {"start": 1},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        },
    ),
    item("StrimziPodSet", "c-brokers", "core.strimzi.io/v1beta2", spec={"pods": [{"metadata": {"name": "c-b-4"}}]}),
    item("Service", "kafka-headless", spec={"clusterIP": "None", "ports": [{"name": "tcp", "port": 9092}]}),
    item("Secret", "ops", data={"password": b64encode(b"s3cret").decode()}, stringData={"user": "ops"}),
    item("Kafka", "c", "kafka.strimzi.io/v1", status={"listeners": [{"name": "tls", "bootstrapServers": "h:9093"}]}),
    item("Kafka", "k", "platform.confluent.io/v1beta1", spec={"listeners": {"internal": {}}}),
]
ITEMS = [POD, CLAIM, *REST]
LISTED = {"apiVersion": "v1", "kind": "List", "items": ITEMS}
FORMS = {
    "list as JSON": json.dumps(LISTED),
    "list as YAML": yaml.safe_dump(LISTED),
    "documents": yaml.safe_dump_all(ITEMS),
    "lists in documents": yaml.safe_dump_all([{**LISTED, "items": ITEMS[:2]}, {**LISTED, "items": REST}]),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_holds_the_same_facts(form: str) -> None:
    found = read_objects(FORMS[form].encode(), "f")
    assert found.notes == ()
    (pod,), (claim,), (volume,) = found.pods, found.of(VolumeClaim), found.of(PersistentVolume)
    assert (pod.namespace, pod.name, pod.node, pod.phase, pod.is_ready) == ("kafka", "kafka-2", "n2", "Running", False)
    assert (pod.owner, pod.ordinal, pod.claims) == (("StatefulSet", "kafka"), 2, {"data-kafka-2": ("/data",)})
    assert (claim.requested_bytes, claim.capacity_bytes, claim.is_resizing) == (200 * GIB, 100 * GIB, True)
    assert (claim.phase, claim.volume, claim.storage_class) == ("Bound", "pv-2", "ssd")
    assert (volume.phase, volume.capacity_bytes) == ("Bound", 100 * GIB)
    assert {each.name: each.allows_expansion for each in found.of(StorageClass)} == {"ssd": True, "hdd": False}
    assert found.nodes["n2"].zone == "eu-1a"
    (owner,), (pods,), (service,) = found.of(StatefulSet), found.of(StrimziPodSet), found.of(KubernetesService)
    assert (owner.pod_names, owner.service) == (("kafka-1", "kafka-2", "kafka-3"), "kafka-headless")
    assert owner.claim_templates == ("data",)
    assert pods.pod_names == ("c-b-4",)
    assert (service.is_headless, service.ports) == (True, (("tcp", 9092),))
    (secret,) = found.of(SecretObject)
    assert [secret.value(key, "f") for key in ("password", "user", "x")] == [b"s3cret", b"ops", None]
    assert "s3cret" not in repr(found)
    assert b64encode(b"s3cret").decode() not in repr(found)
    assert [each.name for shape in (StrimziKafka, ConfluentKafka) for each in found.of(shape)] == ["c", "k"]


def test_items_of_an_answer_of_the_api_have_the_kind_of_their_list() -> None:
    bare = {key: value for key, value in POD.items() if key not in ("kind", "apiVersion")}
    answer = json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [bare]})
    assert [each.name for each in read_objects(answer.encode(), "f").pods] == ["kafka-2"]
    with pytest.raises(InputError, match=r"f:1:1: is an error of the API server: pods is forbidden\\x1b"):
        read_objects(b'{"kind": "Status", "message": "pods is forbidden\\u001b"}', "f")


def test_other_kinds_and_versions_are_counted_not_read() -> None:
    old = item("StatefulSet", "kafka", "apps/v1beta2", spec={"replicas": "three"})
    odd = item("Widget\x1b[2J", "w", "example.com/v1")
    found = read_objects(json.dumps({"kind": "List", "items": [POD, old, odd, odd]}).encode(), "f")
    assert [each.name for each in found.objects] == ["kafka-2"]
    said = "StatefulSet of apps/v1beta2 (1), Widget\\x1b[2J of example.com/v1 (2)"
    assert found.notes == (f"not read: 3 objects of other kinds or versions: {said}",)


def test_an_object_given_twice_counts_once_unless_it_differs() -> None:
    assert len(read_objects(yaml.safe_dump_all([POD, POD]).encode(), "f").pods) == 1
    other = {**POD, "spec": {"nodeName": "n3"}}
    with pytest.raises(InputError, match="f: kafka/kafka-2 is in it twice, with different content"):
        read_objects(yaml.safe_dump_all([POD, other]).encode(), "f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind": "List", "items": [\n {"kind": "Pod", "metadata": {"name": 7}}]}', r"f:2:39: .*`str`, got `int`"),
        ("kind: List\nitems:\n- kind: Pod\n  metadata: {labels: {}}\n", r"f:4:13: .*required field `name`"),
        ("kind: Pod\nmetadata: {name: a, labels: {a: [1]}}\n", r"f:2:29: .*got `array`"),
        ("kind: List\nitems: 3\n", "f:2:8: .*items is not a list"),
        ("a: 1\n---\nb: [\n", "f:4:1: not valid YAML"),
        ("[" * 200, "nested deeper than 100 levels"),
        ('{"a":' * 2000, "nested deeper than 100 levels"),
        ("\x7fELF\x00\x01", "f:1:1: a character"),
    ],
)
def test_a_wrong_shape_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_objects(text.encode(), "f")


def test_a_wrong_shape_in_a_large_file_has_its_path() -> None:
    wrong = {"kind": "Pod", "metadata": {"name": "a", "labels": {"b": 1}}}
    items = [item("Widget", f"w{number}", note="x" * 1000) for number in range(5000)]
    data = json.dumps({"kind": "List", "items": [*items, wrong]}).encode()
    with pytest.raises(InputError, match=r"^f: is not .*got `int` - at `\$\.items\[5000\]\.metadata\."):
        read_objects(data, "f")
    with pytest.raises(InputError, match="holds more than 67,108,864 bytes"):
        read_objects(b" " * (64 << 20) + b"{}", "f")
    with pytest.raises(InputError, match="more than 16,777,216 bytes that are not JSON; kubectl prints JSON with -o"):
        read_objects(b"#" * (17 << 20), "f")


def test_a_secret_that_is_not_base64_is_refused_without_its_value() -> None:
    found = read_objects(json.dumps(item("Secret", "ops", data={"password": "s3cret!"})).encode(), "f")
    (secret,) = found.of(SecretObject)
    with pytest.raises(InputError, match=r"^f: password of secret ops is not base64$"):
        secret.value("password", "f")


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6)
)
JUNK = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_junk_anywhere_is_read_alike_or_refused(data: st.DataObject) -> None:
    document = json.loads(json.dumps({**LISTED, "items": [POD, CLAIM]}))
    *above, last = data.draw(st.sampled_from([path for path in places(document) if path]))
    inner = document
    for step in above:
        inner = inner[step]
    inner[last] = data.draw(JUNK)
    answers = []
    for text in (json.dumps(document), yaml.safe_dump(document)):
        try:
            answers.append(str(read_objects(text.encode(), "f").notes))
        except InputError as error:
            answers.append("refused" if error.message.isprintable() else "raw")
    assert "raw" not in answers
    assert answers[0] == answers[1]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.binary(max_size=200))
def test_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(InputError):
        read_objects(data, "f")
    with suppress(InputError):
        read_objects(b"{" + data, "f")


@pytest.mark.parametrize(
    ("text", "size"),
    [("100Gi", 100 * GIB), ("1.5Ti", 3 * 2**39), ("10G", 10**10), (1024, 1024), ("500m", 0), ("", None), ("1e3", None),
     ("-1Gi", None), ("9Gib", None), ("x", None), (None, None)],
)  # fmt: skip
def test_quantities(text: str | int | None, size: int | None) -> None:
    assert quantity_bytes(text) == size
