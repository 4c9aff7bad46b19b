"""Kubernetes' labels as tags of brokers: the forms that kubectl prints, and what cannot be meant."""

import json
from typing import Any

import pytest
import yaml

from kafkakit.core.errors import InputError, UsageError
from kafkakit.kubernetes.objects import read_objects
from kafkakit.registry.decide.desired_tags import LabelImport, import_labels, parse_label_map
from kafkakit.registry.decide.tags import ObjectKind


def pod(name: str, node: str = "", **labels: str) -> dict[str, Any]:
    # Fields beside those that are read stand for the hundreds that kubectl prints.
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "uid": "u"},
        "spec": {"nodeName": node, "containers": [{"name": "kafka"}]},
        "status": {"phase": "Running"},
    }


def tags(items: list[dict[str, Any]], **given: Any) -> dict[str, list[Any]]:
    request = LabelImport(**{"tag_of": {"zone": "z"}, **given})
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    rules = import_labels(read_objects(data, "f"), request).rules[ObjectKind.BROKER]
    return {",".join(f"{k}:{v}" for k, v in rule.tags.items()): list(rule.names) for rule in rules}


def test_yaml_and_json_and_a_single_object_are_read_alike() -> None:
    single = pod("kafka-2", zone="a")
    listed = {"apiVersion": "v1", "kind": "List", "items": [single, {"kind": "Service", "metadata": {"name": "s"}}]}
    forms = [json.dumps(single), json.dumps(listed), yaml.safe_dump(single), yaml.safe_dump(listed)]
    assert len({str(read_objects(form.encode(), "f").pods) for form in forms}) == 1


def test_the_broker_is_the_ordinal_the_index_label_or_a_label() -> None:
    assert tags([pod("kafka-0", zone="a"), pod("kafka-12", zone="b")], first_id=100) == {"z:a": [100], "z:b": [112]}
    indexed = pod("odd", zone="a", **{"apps.kubernetes.io/pod-index": "3"})
    assert tags([indexed]) == {"z:a": [3]}
    assert tags([pod("x", zone="a", id="1007")], id_label="id", first_id=5) == {"z:a": [1007]}


def test_labels_of_the_node_stand_below_those_of_the_pod() -> None:
    nodes = [{"kind": "Node", "metadata": {"name": "n", "labels": {"zone": "far", "disk": "ssd"}}}]
    wanted = {"zone": "z", "disk": "disk"}
    found = tags([pod("k-0", "n", zone="near"), pod("k-1", "n"), pod("k-2", "gone"), *nodes], tag_of=wanted)
    assert found == {"disk:ssd,z:near": [0], "disk:ssd,z:far": [1]}


def test_nodes_alone_need_a_label_with_the_id() -> None:
    nodes = [{"kind": "Node", "metadata": {"name": "n", "labels": {"zone": "a", "broker": "7"}}}]
    assert tags(nodes, id_label="broker") == {"z:a": [7]}
    with pytest.raises(InputError, match="node n names no broker"):
        tags(nodes)


@pytest.mark.parametrize(
    ("items", "given", "message"),
    [
        ([], {}, "holds no pods or nodes"),
        ([pod("kafka-0")], {}, "no pod or node has a label of zone"),
        ([pod("kafka", zone="a")], {}, "pod kafka has no ordinal at the end of its name"),
        ([pod("a-0", zone="a"), pod("b-0", zone="a")], {}, "a-0 and b-0 are both broker 0"),
        ([pod("a-0", zone="a")], {"id_label": "id"}, "pod a-0 has no broker id in the label id"),
        ([pod("a-0", zone="a", id="x")], {"id_label": "id"}, "pod a-0 has no broker id in the label id"),
        ([pod("a-999999999", zone="a")], {"first_id": 2**31 - 1}, "pod a-999999999 has no ordinal"),
    ],
)
def test_a_pod_whose_broker_is_not_known_is_named(items: list[Any], given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tags(items, **given)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"items": 1}', b"a: [", b'{"kind": 1, "metadata": {}}', b"\xff"])
def test_what_is_no_output_of_kubectl_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^f(:\d+:\d+)?: (is not a list of pods or nodes|not valid (YAML|UTF-8))"):
        read_objects(data, "f")


def test_the_map_of_labels() -> None:
    assert parse_label_map(["a/b=zone", "c"]) == {"a/b": "zone", "c": "c"}
    for given in (["=x"], ["a=b", "a=c"], [""]):
        with pytest.raises(UsageError, match="--map"):
            parse_label_map(given)
