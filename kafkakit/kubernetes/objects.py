"""Objects of Kubernetes as facts, read from what `kubectl get KINDS -o json` or `-o yaml` prints.

A file holds one object, a `List`, an answer of the API (`PodList`), or several YAML documents of these. Fields are
those of the API: `v1` Pod, Node, PersistentVolumeClaim, PersistentVolume, Service, Secret and ConfigMap, `apps/v1`
StatefulSet, `storage.k8s.io/v1` StorageClass, Strimzi's StrimziPodSet, Kafka and KafkaRebalance, Confluent's Kafka;
all other fields are ignored. Objects of other kinds and versions are counted in a note. A known kind of another shape
is refused with its place: line and column, or the path in a large JSON file, which is read by a faster parser that
knows no lines.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from kafkakit.core.documents import decoded_json, place_in
from kafkakit.core.errors import InputError
from kafkakit.core.quantities import count_of
from kafkakit.core.text import few_of, sanitize
from kafkakit.core.yaml_json import Document, Node, Scalar, TreeLimits, plain_value, sound_document
from kafkakit.core.yaml_json import Mapping as MappingNode
from kafkakit.core.yaml_json import Sequence as SequenceNode

MAX_OBJECTS_BYTES, MAX_YAML_BYTES = 64 << 20, 16 << 20
_FILE = TreeLimits(size=MAX_YAML_BYTES)
# A wrong JSON file up to this size is read again by the slower reader, which knows lines.
_LINES_BYTES = 4 << 20
INDEX_LABEL = "apps.kubernetes.io/pod-index"
ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""The label of a node's zone, and the one of Kubernetes before 1.17."""
_ORDINAL = re.compile(r"-([0-9]{1,9})$", re.ASCII)
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)(m|[kKMGTPE]i?)?", re.ASCII)
_UNITS = "KMGTPE"
MAX_ID = 2**31 - 1
_NOT_OBJECTS = "is not a list of pods or nodes: "
_HINT = "write it with: kubectl get pods,nodes -o json"


def quantity_bytes(text: str | float | None) -> int | None:
    """A quantity of Kubernetes (`100Gi`, `5e3` is not read) in bytes; None for none and for what is not one."""
    found = _QUANTITY.fullmatch(str(text or ""))
    if found is None:
        return None
    number, unit = float(found[1]), found[2] or ""
    if unit in ("", "m"):
        return int(number if not unit else number / 1000)
    base = 1024 if unit.endswith("i") else 1000
    return int(number * float(base) ** (_UNITS.index(unit[0].upper()) + 1))


def broker_id(given: str | int | None, first_id: int = 0) -> int | None:
    """The broker's id that a label's text or an ordinal names, counted from `first_id`; None where it names none."""
    text = "" if given is None else str(given)
    is_number = text.isascii() and text.isdigit() and len(text) <= 10
    return int(text) + first_id if is_number and int(text) + first_id <= MAX_ID else None


def ordinal_of(name: str) -> int | None:
    """The number at the end of a pod's name, None without one."""
    found = _ORDINAL.search(name)
    return int(found[1]) if found else None


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    """Fields as the API spells them."""


class _Owner(_Shape, frozen=True):
    kind: str = ""
    name: str = ""


class _Metadata(_Shape, frozen=True):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None
    deletion_timestamp: Any = None  # a text, or a moment where YAML has it without quotes


class KubernetesObject(_Shape, frozen=True):
    """What all kinds have."""

    metadata: _Metadata

    @property
    def name(self) -> str:
        """Its name, as the file has it."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Empty for objects of the whole cluster, and in files that do not say."""
        return self.metadata.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.metadata.annotations or {}

    @property
    def is_deleting(self) -> bool:
        """It was deleted, and its end is waited for."""
        return self.metadata.deletion_timestamp is not None


class _Condition(_Shape, frozen=True):
    type: str = ""
    status: str = ""


def _holds(conditions: Sequence[_Condition] | None, kind: str) -> bool | None:
    """None for a condition that is not among them, or Unknown."""
    said = [each.status for each in conditions or () if each.type == kind]
    return {"True": True, "False": False}.get(said[-1]) if said else None


class _ClaimSource(_Shape, frozen=True):
    claim_name: str = ""


class _PodVolume(_Shape, frozen=True):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None


class _Mount(_Shape, frozen=True):
    name: str = ""
    mount_path: str = ""


class _Container(_Shape, frozen=True):
    volume_mounts: tuple[_Mount, ...] | None = None


class _PodSpec(_Shape, frozen=True):
    node_name: str | None = None
    containers: tuple[_Container, ...] | None = None
    volumes: tuple[_PodVolume, ...] | None = None


class _PodStatus(_Shape, frozen=True):
    phase: str | None = None
    conditions: tuple[_Condition, ...] | None = None


class Pod(KubernetesObject, frozen=True):
    """What is read of a pod: where it runs, whose it is, whether it is ready."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def node(self) -> str | None:
        """The name of its node, None before it has one."""
        return self.spec.node_name or None

    @property
    def phase(self) -> str | None:
        """`Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`, None where the file does not say."""
        return self.status.phase

    @property
    def is_ready(self) -> bool | None:
        """Its condition Ready; None where the file does not say."""
        return _holds(self.status.conditions, "Ready")

    @property
    def is_evicted(self) -> bool:
        """Its condition DisruptionTarget: it is about to be ended for a drain of its node, or the like."""
        return bool(_holds(self.status.conditions, "DisruptionTarget"))

    @property
    def owner(self) -> tuple[str, str] | None:
        """Kind and name of the StatefulSet or StrimziPodSet that made it, None for any other pod."""
        for each in self.metadata.owner_references or ():
            if each.kind in ("StatefulSet", "StrimziPodSet"):
                return each.kind, each.name
        return None

    @property
    def ordinal(self) -> int | None:
        """The number of its index label, or the one at the end of its name, None without either."""
        text = self.labels.get(INDEX_LABEL)
        return broker_id(text) if text else ordinal_of(self.name)

    @property
    def claims(self) -> dict[str, tuple[str, ...]]:
        """Its claims of volumes by name, in its namespace, each with the paths where its containers have it."""
        paths: dict[str, list[str]] = {}
        for container in self.spec.containers or ():
            for mount in container.volume_mounts or ():
                paths.setdefault(mount.name, []).append(mount.mount_path)
        return {
            volume.persistent_volume_claim.claim_name: tuple(dict.fromkeys(paths.get(volume.name, ())))
            for volume in self.spec.volumes or ()
            if volume.persistent_volume_claim is not None
        }


class _NodeStatus(_Shape, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class _NodeSpec(_Shape, frozen=True):
    unschedulable: bool | None = None


class KubernetesNode(KubernetesObject, frozen=True):
    """A node, a machine that runs pods."""

    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()

    @property
    def zone(self) -> str | None:
        """The zone that its label names."""
        return self.labels.get(self.zone_label) or None

    @property
    def zone_label(self) -> str:
        """The label that names its zone; the one of today where none does."""
        return next((label for label in ZONE_LABELS if self.labels.get(label)), ZONE_LABELS[0])

    @property
    def is_ready(self) -> bool | None:
        """Its condition Ready; None where the file does not say."""
        return _holds(self.status.conditions, "Ready")


_Quantities = dict[str, str | int | float]


class _Resources(_Shape, frozen=True):
    requests: _Quantities | None = None


class _ClaimSpec(_Shape, frozen=True):
    storage_class_name: str | None = None
    volume_name: str | None = None
    resources: _Resources | None = None


class _ClaimStatus(_Shape, frozen=True):
    phase: str | None = None
    capacity: _Quantities | None = None
    conditions: tuple[_Condition, ...] | None = None


class VolumeClaim(KubernetesObject, frozen=True):
    """A PersistentVolumeClaim."""

    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()

    @property
    def phase(self) -> str | None:
        """`Bound`, `Pending` or `Lost`, None where the file does not say."""
        return self.status.phase

    @property
    def volume(self) -> str | None:
        """The name of its volume, None before it has one."""
        return self.spec.volume_name or None

    @property
    def storage_class(self) -> str | None:
        """The name of its StorageClass, None where the file does not say."""
        return self.spec.storage_class_name or None

    @property
    def requested_bytes(self) -> int | None:
        """The size that is asked for, None where the file does not say."""
        resources = self.spec.resources
        return quantity_bytes((resources.requests or {}).get("storage")) if resources is not None else None

    @property
    def capacity_bytes(self) -> int | None:
        """The size that it has, None before it has one."""
        return quantity_bytes((self.status.capacity or {}).get("storage"))

    @property
    def is_resizing(self) -> bool:
        """A larger size was asked for, and the volume or its file system is growing."""
        return any(_holds(self.status.conditions, kind) for kind in ("Resizing", "FileSystemResizePending"))


class _ClaimName(_Shape, frozen=True):
    name: str = ""
    namespace: str = ""


class _VolumeSpec(_Shape, frozen=True):
    capacity: _Quantities | None = None
    storage_class_name: str | None = None
    claim_ref: _ClaimName | None = None


class _VolumeStatus(_Shape, frozen=True):
    phase: str | None = None


class PersistentVolume(KubernetesObject, frozen=True):
    """What is read of a volume: its size, and what became of it."""

    spec: _VolumeSpec = _VolumeSpec()
    status: _VolumeStatus = _VolumeStatus()

    @property
    def phase(self) -> str | None:
        """`Available`, `Bound`, `Released`, `Failed` or `Pending`, None where the file does not say."""
        return self.status.phase

    @property
    def capacity_bytes(self) -> int | None:
        """Its size, None where the file does not say."""
        return quantity_bytes((self.spec.capacity or {}).get("storage"))


class StorageClass(KubernetesObject, frozen=True):
    """How volumes are made."""

    provisioner: str = ""
    allow_volume_expansion: bool | None = None

    @property
    def allows_expansion(self) -> bool:
        """Claims may be made larger; the API leaves the field out where they may not."""
        return bool(self.allow_volume_expansion)


class _Ordinals(_Shape, frozen=True):
    start: int = 0


class _Template(_Shape, frozen=True):
    metadata: _Metadata


class _SetSpec(_Shape, frozen=True):
    replicas: int | None = None
    service_name: str | None = None
    ordinals: _Ordinals | None = None
    volume_claim_templates: tuple[_Template, ...] | None = None


class StatefulSet(KubernetesObject, frozen=True):
    """A StatefulSet."""

    spec: _SetSpec = _SetSpec()

    @property
    def service(self) -> str | None:
        """The name of its headless service."""
        return self.spec.service_name or None

    @property
    def pod_names(self) -> tuple[str, ...]:
        """The names of the pods that it is to have; one pod where it does not say how many."""
        replicas = 1 if self.spec.replicas is None else self.spec.replicas
        start = self.spec.ordinals.start if self.spec.ordinals is not None else 0
        return tuple(f"{self.name}-{ordinal}" for ordinal in range(start, start + min(max(replicas, 0), 100_000)))

    @property
    def claim_templates(self) -> tuple[str, ...]:
        """Names of the templates of its claims: the claim of a pod is called `TEMPLATE-POD`."""
        return tuple(each.metadata.name for each in self.spec.volume_claim_templates or ())


class _PodSetSpec(_Shape, frozen=True):
    pods: tuple[_Template, ...] | None = None  # the labels of a pod are in its template


class StrimziPodSet(KubernetesObject, frozen=True):
    """Strimzi's set of pods."""

    spec: _PodSetSpec = _PodSetSpec()

    @property
    def pod_names(self) -> tuple[str, ...]:
        """The names of the pods that it is to have."""
        return tuple(self.labels_of_pods)

    @property
    def labels_of_pods(self) -> dict[str, Mapping[str, str]]:
        """The labels of each pod that it is to have."""
        return {each.metadata.name: each.metadata.labels or {} for each in self.spec.pods or ()}


class _ServicePort(_Shape, frozen=True):
    port: int
    name: str = ""


class _ServiceSpec(_Shape, frozen=True):
    type: str = "ClusterIP"
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    ports: tuple[_ServicePort, ...] | None = None


class KubernetesService(KubernetesObject, frozen=True):
    """What is read of a Service: whether it is headless, its ports and its pods."""

    spec: _ServiceSpec = _ServiceSpec()

    @property
    def is_headless(self) -> bool:
        """Each of its pods has a name of its own in DNS."""
        return self.spec.cluster_ip == "None"

    @property
    def ports(self) -> tuple[tuple[str, int], ...]:
        """Name and number of each port."""
        return tuple((each.name, each.port) for each in self.spec.ports or ())


class SecretObject(KubernetesObject, frozen=True):
    """A Secret; what prints it shows its keys only."""

    data: dict[str, str] | None = None
    string_data: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"SecretObject({self.name!r}, keys={sorted(self.keys)!r})"

    @property
    def keys(self) -> frozenset[str]:
        """The names of what it holds."""
        return frozenset({*(self.data or {}), *(self.string_data or {})})

    def value(self, key: str, source: str) -> bytes | None:
        """What it holds under a key, decoded; `InputError` without the value for what is not base64."""
        plain = (self.string_data or {}).get(key)
        if plain is not None:
            return plain.encode("utf-8", "replace")
        text = (self.data or {}).get(key)
        if text is None:
            return None
        try:
            return b64decode("".join(text.split()), validate=True)
        except (Base64Error, ValueError):
            where = f"{key[:60]} of secret {self.name[:200]}"
            raise InputError(source, f"{sanitize(where)} is not base64") from None


class ConfigMapObject(KubernetesObject, frozen=True):
    """A ConfigMap."""

    data: dict[str, str] | None = None


class _Listener(_Shape, frozen=True):
    name: str = ""
    bootstrap_servers: str = ""
    certificates: tuple[str, ...] | None = None


class _AutoRebalance(_Shape, frozen=True):
    state: str = ""


class _KafkaStatus(_Shape, frozen=True):
    listeners: tuple[_Listener, ...] | None = None
    cluster_id: str | None = None
    auto_rebalance: _AutoRebalance | None = None


class _ListenerLogin(_Shape, frozen=True):
    type: str = ""


class _ListenerSpec(_Shape, frozen=True):
    name: str = ""
    type: str = ""
    tls: bool = False
    authentication: _ListenerLogin | None = None


class _BrokersSpec(_Shape, frozen=True):
    listeners: tuple[_ListenerSpec, ...] | None = None


class _KafkaSpec(_Shape, frozen=True):
    kafka: _BrokersSpec = _BrokersSpec()


class StrimziKafka(KubernetesObject, frozen=True):
    """Strimzi's Kafka: a cluster with its listeners."""

    spec: _KafkaSpec = _KafkaSpec()
    status: _KafkaStatus = _KafkaStatus()


class _RebalanceStatus(_Shape, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class KafkaRebalance(KubernetesObject, frozen=True):
    """Strimzi's KafkaRebalance: a rebalance that Cruise Control proposes and carries out."""

    status: _RebalanceStatus = _RebalanceStatus()

    @property
    def conditions(self) -> tuple[str, ...]:
        """The types of the conditions that hold; its state is one of these."""
        return tuple(each.type for each in self.status.conditions or () if each.status == "True")


class ConfluentKafka(KubernetesObject, frozen=True):
    """Kafka of Confluent for Kubernetes: brokers, of which the ids begin at an annotation."""


Found = TypeVar("Found", bound=KubernetesObject)

_STRIMZI = ("v1", "v1beta2")
_SHAPES: dict[tuple[str, str], type[KubernetesObject]] = {
    ("v1", "Pod"): Pod,
    ("v1", "Node"): KubernetesNode,
    ("v1", "PersistentVolumeClaim"): VolumeClaim,
    ("v1", "PersistentVolume"): PersistentVolume,
    ("v1", "Service"): KubernetesService,
    ("v1", "Secret"): SecretObject,
    ("v1", "ConfigMap"): ConfigMapObject,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("storage.k8s.io/v1", "StorageClass"): StorageClass,
    **{(f"core.strimzi.io/{version}", "StrimziPodSet"): StrimziPodSet for version in _STRIMZI},
    **{(f"kafka.strimzi.io/{version}", "Kafka"): StrimziKafka for version in _STRIMZI},
    **{(f"kafka.strimzi.io/{version}", "KafkaRebalance"): KafkaRebalance for version in _STRIMZI},
    ("platform.confluent.io/v1beta1", "Kafka"): ConfluentKafka,
}
# What a file without versions can mean.
_UNVERSIONED = {kind: shape for (version, kind), shape in _SHAPES.items() if version == "v1" or kind == "StatefulSet"}


@dataclass(frozen=True)
class KubernetesObjects:
    """The objects of a file in its order, and what was passed over: kinds with versions, in words."""

    source: str
    objects: tuple[KubernetesObject, ...]
    notes: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    def of(self, shape: type[Found]) -> tuple[Found, ...]:
        """Those of one kind."""
        return tuple(each for each in self.objects if type(each) is shape)

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """Its pods."""
        return self.of(Pod)

    @cached_property
    def nodes(self) -> dict[str, KubernetesNode]:
        """Its nodes by name."""
        return {each.name: each for each in self.of(KubernetesNode)}


class _Header(_Shape, frozen=True):
    kind: str = ""
    api_version: str = ""
    message: str | None = None


class _Root(_Header, frozen=True):
    items: tuple[msgspec.Raw, ...] | msgspec.UnsetType | None = msgspec.UNSET


def read_objects(data: bytes, source: str) -> KubernetesObjects:
    """The objects of a file; `InputError` where it holds something else, and for two different objects of one name."""
    if len(data) > MAX_OBJECTS_BYTES:
        raise InputError(source, f"holds more than {MAX_OBJECTS_BYTES:,} bytes", hint="kubectl get pods -n NAMESPACE")
    passed: Counter[str] = Counter()
    if data.lstrip()[:1] == b"{":
        try:
            found = list(_of_json(data, source, passed))
        except InputError:
            if len(data) > _LINES_BYTES:
                raise
            passed.clear()
            found = list(_of_trees(data, source, passed))
    else:
        found = list(_of_trees(data, source, passed))
    objects = _distinct(found, source)
    return KubernetesObjects(source=source, objects=objects, notes=_notes(passed), passed=tuple(passed))


def _of_json(data: bytes, source: str, passed: Counter[str]) -> Iterator[KubernetesObject]:
    def decode(part: bytes | msgspec.Raw, shape: type[Any], path: str) -> Any:
        try:
            return decoded_json(bytes(part), shape)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            said = " ".join(str(error).split())[:200].replace("at `$", f"at `${path}")
            raise InputError(source, f"{_NOT_OBJECTS}{said}", hint=_HINT) from None

    root: _Root = decode(data, _Root, "")
    parts: Sequence[bytes | msgspec.Raw] = (data,) if isinstance(root.items, msgspec.UnsetType) else root.items or ()
    _refuse_other(root, source, is_list=not isinstance(root.items, msgspec.UnsetType))
    for number, part in enumerate(parts):
        path = "" if isinstance(part, bytes) else f".items[{number}]"
        shape = _shape_of(decode(part, _Header, path), root.kind, passed)
        if shape is not None:
            yield decode(part, shape, path)


def _of_trees(data: bytes, source: str, passed: Counter[str]) -> Iterator[KubernetesObject]:
    if len(data) > MAX_YAML_BYTES:
        hint = "kubectl prints JSON with -o json, which is read in a fraction of the time"
        raise InputError(source, f"holds more than {MAX_YAML_BYTES:,} bytes that are not JSON", hint=hint)
    document = sound_document(data, source, _FILE, several=True)
    roots = [root for root in document.roots if not (isinstance(root, Scalar) and root.is_null)]
    for root in roots or (document.root,):
        header = _convert(document, root, _Header)
        items = root.entries.get("items") if isinstance(root, MappingNode) else None
        _refuse_other(header, document.position(root.start), is_list=items is not None)
        if items is None:
            nodes: Sequence[Node] = (root,)
        elif isinstance(items.value, SequenceNode):
            nodes = items.value.items
        elif isinstance(root, MappingNode) and root.get("items") is None:
            nodes = ()
        else:
            raise InputError(document.position(items.value.start), f"{_NOT_OBJECTS}items is not a list", hint=_HINT)
        for node in nodes:
            shape = _shape_of(_convert(document, node, _Header), header.kind, passed)
            if shape is not None:
                yield _convert(document, node, shape)


_T = TypeVar("_T")


def _convert(document: Document, node: Node, shape: type[_T]) -> _T:
    try:
        return msgspec.convert(_read_part(document, node, shape), shape)
    except msgspec.ValidationError as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(place_in(document, said, node), f"{_NOT_OBJECTS}{said}", hint=_HINT) from None
    except RecursionError:  # aliases of aliases
        raise InputError(document.path, f"{_NOT_OBJECTS}nested too deeply", hint=_HINT) from None


def _read_part(document: Document, node: Node, shape: type[Any]) -> object:
    """Only the fields that a shape has: what else an object holds may be anything."""
    if not isinstance(node, MappingNode):
        return plain_value(document, node=node)
    names = {field.encode_name for field in msgspec.structs.fields(shape)}
    entries = {name: entry for name, entry in node.entries.items() if name in names}
    return plain_value(document, node=node._replace(entries=entries))


def _shape_of(header: _Header, list_kind: str, passed: Counter[str]) -> type[KubernetesObject] | None:
    """The shape of an object; one of an answer of the API has the kind of its list."""
    is_answer = not header.kind and list_kind.endswith("List")
    kind = list_kind.removesuffix("List") if is_answer else header.kind
    shape = _SHAPES.get((header.api_version, kind)) if header.api_version else _UNVERSIONED.get(kind)
    if shape is None:
        version = f" of {header.api_version}" if header.api_version else ""
        passed[sanitize(f"{kind or 'an object without a kind'}{version}"[:100])] += 1
    return shape


def _refuse_other(header: _Header, source: str, *, is_list: bool) -> None:
    if not header.kind and not is_list:
        raise InputError(source, f"{_NOT_OBJECTS}it has no kind", hint=_HINT)
    if header.kind == "Status":
        said = sanitize((header.message or "no reason is given")[:200])
        raise InputError(source, f"is an error of the API server: {said}", hint=_HINT)


def _distinct(found: Sequence[KubernetesObject], source: str) -> tuple[KubernetesObject, ...]:
    known: dict[tuple[type[KubernetesObject], str, str], KubernetesObject] = {}
    for each in found:
        before = known.setdefault((type(each), each.namespace, each.name), each)
        if before != each:
            name = sanitize(f"{each.namespace}/{each.name}".lstrip("/")[:200])
            problem = f"{name} is in it twice, with different content"
            raise InputError(source, problem, hint="give one output of kubectl, not several put together")
    return tuple(known.values())


def _notes(passed: Counter[str]) -> tuple[str, ...]:
    if not passed:
        return ()
    kinds = few_of(f"{kind} ({number})" for kind, number in passed.items())
    return (f"not read: {count_of(sum(passed.values()), 'object')} of other kinds or versions: {kinds}",)
