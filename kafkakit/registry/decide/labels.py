"""Tags of brokers from Kubernetes' labels: what `kubectl get pods,nodes -o json` or `-o yaml` prints.

Fields are those of Kubernetes' API (`v1` List, Pod and Node); all others are ignored.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.printable import printable
from kafkakit.registry.decide.desired import DesiredTags, rules_of_brokers
from kafkakit.registry.decide.tags import Kind, Tags

T = TypeVar("T")

MAX_FILE_BYTES = 64 << 20
INDEX_LABEL = "apps.kubernetes.io/pod-index"
_ORDINAL = re.compile(r"-([0-9]{1,9})$", re.ASCII)
MAX_ID = 2**31 - 1


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class LabelledObject(msgspec.Struct, frozen=True):
    """A pod or a node."""

    kind: str
    metadata: _Metadata
    spec: _Spec = _Spec()

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.metadata.labels or {}


class _List(msgspec.Struct, frozen=True):
    items: list[LabelledObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelImport:
    """Which label becomes which tag, and how a pod's broker is known: by a label, or by its ordinal plus `first_id`."""

    tag_of: Mapping[str, str]
    id_label: str | None = None
    first_id: int = 0


def parse_label_map(given: Sequence[str]) -> dict[str, str]:
    """`label=tag` texts, or `label` alone for a tag of the same name; `UsageError` for others."""
    found: dict[str, str] = {}
    for text in given:
        label, _, tag = text.partition("=")
        if not label.strip() or label in found:
            raise UsageError(f"--map: {printable(text[:80])!r} names no label of its own", hint="write LABEL=TAG")
        found[label.strip()] = tag.strip() or label.strip()
    return found


def _decoded_yaml(data: bytes, shape: type[T]) -> T:
    return msgspec.yaml.decode(data, type=shape)


def read_objects(data: bytes, source: str) -> list[LabelledObject]:
    """The pods and nodes of a file; `InputError` where it holds something else."""
    decode = decoded_json if data.lstrip()[:1] == b"{" else _decoded_yaml
    try:
        try:
            found = decode(data, _List).items
        except msgspec.ValidationError as error:
            if "required field `items`" not in str(error):
                raise
            found = [decode(data, LabelledObject)]
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InputError(
            source,
            f"is no list of pods or nodes: {' '.join(str(error).split())[:200]}",
            hint="kubectl get pods -o json",
        ) from None
    return [each for each in found if each.kind in ("Pod", "Node")]


def import_labels(objects: Sequence[LabelledObject], request: LabelImport, source: str) -> DesiredTags:
    """The tags of brokers: labels of a pod, and those of its node below them, where both are given.

    Without pods each node is a broker, known by `id_label`. Raises `InputError` for a pod or node whose broker is not
    known, and for two of one broker.
    """
    nodes = {each.metadata.name: each.labels for each in objects if each.kind == "Node"}
    pods = [each for each in objects if each.kind == "Pod"]
    if not objects:
        raise InputError(source, "holds no pods or nodes")
    found: dict[int, Tags] = {}
    names: dict[int, str] = {}
    for each in pods or objects:
        labels = {**nodes.get(each.spec.node_name, {}), **each.labels}
        broker = _broker_of(each, labels, request, source)
        if broker in found:
            problem = f"{names[broker]} and {each.metadata.name} are both broker {broker}"
            raise InputError(source, problem, hint="choose pods with kubectl get pods -l, or give --id-label")
        tags = {tag: labels[label] for label, tag in request.tag_of.items() if labels.get(label)}
        found[broker], names[broker] = tags, printable(each.metadata.name[:200])
    rules = tuple(rules_of_brokers({broker: tags for broker, tags in found.items() if tags}))
    if not rules:
        raise InputError(source, f"no pod or node has a label of {', '.join(request.tag_of)}")
    return DesiredTags(source=source, rules={Kind.BROKER: rules})


def _broker_of(each: LabelledObject, labels: Mapping[str, str], request: LabelImport, source: str) -> int:
    if request.id_label is not None:
        text = labels.get(request.id_label, "")
        problem = f"has no broker id in the label {request.id_label}"
    elif each.kind == "Node":
        raise InputError(source, f"node {printable(each.metadata.name[:200])} names no broker", hint="give --id-label")
    else:
        ordinal = _ORDINAL.search(each.metadata.name)
        text = labels.get(INDEX_LABEL) or (ordinal[1] if ordinal else "")
        problem = "has no ordinal at the end of its name"
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) + request.first_id > MAX_ID:
        raise InputError(
            source, f"{each.kind.lower()} {printable(each.metadata.name[:200])} {problem}", hint="give --id-label"
        )
    return int(text) + (0 if request.id_label is not None else request.first_id)
