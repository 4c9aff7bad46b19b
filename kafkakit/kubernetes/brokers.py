"""Which pod is which broker, with its node, zone, claims and volumes, and how much larger a volume may become.

A pod's broker is known by a label that is named, by Strimzi's and Koperator's labels, or by the ordinal of a pod of a
StatefulSet; nothing is guessed. Pods of several clusters need a name to choose one, and two pods of one broker are
refused. What a file does not hold is not known.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kafkakit.core.errors import InputError
from kafkakit.core.model import LogDir
from kafkakit.core.quantities import count_of, format_rough_time
from kafkakit.core.text import few_of, kubectl_command, quote, sanitize
from kafkakit.kubernetes.objects import (
    ConfluentKafka,
    KubernetesNode,
    KubernetesObject,
    KubernetesObjects,
    PersistentVolume,
    Pod,
    StatefulSet,
    StorageClass,
    StrimziPodSet,
    VolumeClaim,
    broker_id,
    ordinal_of,
)

STRIMZI_CLUSTER = "strimzi.io/cluster"
STRIMZI_POOL = "strimzi.io/pool-name"
STRIMZI_BROKER = "strimzi.io/broker-role"
STRIMZI_TYPE = "strimzi.io/component-type"
STRIMZI_NAME = "strimzi.io/name"
KOPERATOR_CLUSTER, KOPERATOR_ID = "kafka_cr", "brokerId"
CONFLUENT_TYPE = "platform.confluent.io/type"
CONFLUENT_FIRST_ID = "platform.confluent.io/broker-id-offset"
OLD_S = 600.0
"""After so long a file of pods is said to be old."""
LASTS_S = 30 * 86400.0
"""A larger volume has room for what comes in so long, if that is not more than doubles it."""
FULL_SHARE = 0.85
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChoice:
    """Which pods are the brokers: of which cluster (`NAME` or `NAMESPACE/NAME`), and how an id is known."""

    cluster: str | None = None
    id_label: str | None = None
    first_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerVolume:
    """A claim of a broker's pod with what is known of it; `paths` are those in its containers.

    `claim` and `volume` are None where the file does not hold them, `allows_expansion` where it does not hold the
    StorageClass.
    """

    name: str
    paths: tuple[str, ...]
    claim: VolumeClaim | None = None
    volume: PersistentVolume | None = None
    allows_expansion: bool | None = None

    @property
    def state(self) -> str | None:
        """`Bound`, `Pending` or `Lost`; `Failed` or `Released` of a volume that its claim still names."""
        if self.volume is not None and self.volume.phase in ("Failed", "Released"):
            return self.volume.phase
        return self.claim.phase if self.claim is not None else None

    @property
    def size_bytes(self) -> int | None:
        """The size that it has."""
        of_claim = self.claim.capacity_bytes if self.claim is not None else None
        return of_claim if of_claim is not None or self.volume is None else self.volume.capacity_bytes

    @property
    def requested_bytes(self) -> int | None:
        """The size that its claim asks for."""
        return self.claim.requested_bytes if self.claim is not None else None

    @property
    def is_growing(self) -> bool:
        """It is smaller than its claim asks for."""
        has, wants = self.size_bytes, self.requested_bytes
        return (self.claim is not None and self.claim.is_resizing) or (
            has is not None and wants is not None and has < wants
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPod:
    """A broker's pod; `node` is None before it has one, and where the file does not hold it."""

    broker: int
    pod: Pod
    node: KubernetesNode | None = None
    volumes: tuple[BrokerVolume, ...] = ()

    @property
    def zone(self) -> str | None:
        """The zone of its node, None where it is not known."""
        return self.node.zone if self.node is not None else None

    @property
    def state(self) -> str:
        """How it is in a word or two; `?` where the file does not say."""
        if self.pod.is_deleting:
            return "being deleted"
        if self.pod.is_ready:
            return "ready"
        phase = self.pod.phase
        return "?" if self.pod.is_ready is None and phase in (None, "Running") else sanitize(f"{phase}, not ready"[:60])

    def volume_at(self, path: str) -> BrokerVolume | None:
        """The volume that holds a log dir, by the longest path that is above it."""
        above = [
            (len(mount.rstrip("/")), volume)
            for volume in self.volumes
            for mount in volume.paths
            if mount and f"{path.rstrip('/')}/".startswith(f"{mount.rstrip('/')}/")
        ]
        return max(above, key=lambda pair: pair[0])[1] if above else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPod:
    """A pod that its set is to have and that is not in the file; `broker` is None where only a label tells it."""

    name: str
    owner: str
    broker: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeGrowth:
    """A larger size for a broker's volume: what to say, and the command that asks for it."""

    size_bytes: int
    words: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPods:
    """The pods of one cluster by broker; `written_at` is when the file was written, None where that is not known."""

    source: str
    namespace: str
    name: str
    pods: Mapping[int, BrokerPod]
    missing: tuple[MissingPod, ...] = ()
    notes: tuple[str, ...] = ()
    written_at: datetime | None = None

    @property
    def title(self) -> str:
        """`NAMESPACE/NAME`, printable."""
        return _title(self.namespace, self.name)

    def growth(self, broker: int, place: LogDir, left_s: float | None) -> VolumeGrowth | None:
        """The larger size for the volume of a log dir; None where it is not known, may not grow, or is about to.

        `left_s` is after how many seconds the dir is full at its rate, None where it is not known. The size has room
        for 30 days below 85 %, is at least a quarter and at most twice as large as today, and is rounded up.
        """
        pod = self.pods.get(broker)
        volume = pod.volume_at(place.path) if pod is not None else None
        if pod is None or volume is None or place.total_bytes is None or place.usable_bytes is None:
            return None
        if not volume.allows_expansion or volume.is_growing or volume.state != "Bound":
            return None
        today = max(volume.size_bytes or 0, volume.requested_bytes or 0, place.total_bytes)
        used = place.total_bytes - place.usable_bytes
        rate = place.usable_bytes / left_s if left_s else 0.0
        size = rounded_size(min(max((used + rate * LASTS_S) / FULL_SHARE, 1.25 * today), 2.0 * today))
        lasts = f", enough for {format_rough_time((size - used) / rate)} at this rate" if rate > 0 else ""
        quantity, pool = f"{size // GIB}Gi", pod.pod.labels.get(STRIMZI_POOL)
        if pool is not None:  # Strimzi sets the size of claims itself
            words = f"set the storage size of pool {sanitize(pool[:100])} to {quantity}{lasts}"
            return VolumeGrowth(
                size_bytes=size, words=words, command=kubectl_command("edit kafkanodepool", pool, pod.pod.namespace)
            )
        patch = json.dumps({"spec": {"resources": {"requests": {"storage": quantity}}}}, separators=(",", ":"))
        command = f"{kubectl_command('patch pvc', volume.name, pod.pod.namespace)} -p {quote(patch)}"
        return VolumeGrowth(size_bytes=size, words=f"its volume may grow to {quantity}{lasts}", command=command)

    def age_words(self, now: datetime) -> str:
        """What is to be said about the file's age; empty where nothing is.

        Clocks of the host that wrote it and of this one may differ.
        """
        if self.written_at is None:
            return ""
        age_s = (now - self.written_at).total_seconds()
        if age_s < -60:
            ahead = format_rough_time(-age_s)
            return f"{sanitize(self.source)} was written {ahead} after now by this host's clock: its age is not known"
        if age_s > OLD_S:
            return f"{sanitize(self.source)} is {format_rough_time(age_s)} old: pods may have changed since"
        return ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A pod that may be a broker: its cluster, and its id where that is known."""

    namespace: str
    cluster: str
    pod: Pod
    broker: int | None


def pods_of_cluster(
    found: KubernetesObjects, choice: PodChoice = PodChoice(), *, written_at: datetime | None = None
) -> ClusterPods:
    """The pods of one cluster by their brokers.

    `InputError` for pods of several clusters without a choice, for a pod whose id is not known, for two of one broker.
    """
    if not found.pods:
        raise InputError(found.source, "holds no pods", hint="write it with: kubectl get pods,nodes,pvc,pv -o json")
    first_ids = _first_ids(found)
    candidates = [each for pod in found.pods if (each := _candidate(pod, choice, first_ids)) is not None]
    if choice.id_label is not None:
        with_label = {(each.namespace, each.cluster) for each in candidates if each.broker is not None}
        candidates = [each for each in candidates if (each.namespace, each.cluster) in with_label]
    namespace, name = _chosen_cluster(candidates, found, choice)
    pods: dict[int, BrokerPod] = {}
    disks = _Disks(found)
    for each in candidates:
        if (each.namespace, each.cluster) != (namespace, name):
            continue
        if each.broker is None:
            raise InputError(found.source, f"the broker of pod {_object_title(each.pod)} is not known", hint=_ID_HINT)
        if each.broker in pods:
            both = f"{_object_title(pods[each.broker].pod)} and {_object_title(each.pod)}"
            raise InputError(found.source, f"pods {both} are both broker {each.broker}", hint=_ID_HINT)
        node = found.nodes.get(each.pod.node or "")
        pods[each.broker] = BrokerPod(broker=each.broker, pod=each.pod, node=node, volumes=tuple(disks.of(each.pod)))
    left = len(found.pods) - len(pods)
    notes = (*found.notes, f"{count_of(left, 'pod')} of other workloads left out") if left else found.notes
    return ClusterPods(
        source=found.source,
        namespace=namespace,
        name=name,
        pods=dict(sorted(pods.items())),
        missing=tuple(_missing_pods(found, namespace, name, choice, first_ids)),
        notes=notes,
        written_at=written_at,
    )


_ID_HINT = "name the label that has the broker's id: --id-label; or a selector: kubectl get pods -l"


def _object_title(each: KubernetesObject) -> str:
    return _title(each.namespace, each.name)


def _title(namespace: str, name: str) -> str:
    return sanitize(f"{namespace}/{name}".lstrip("/")[:200])


def _candidate(pod: Pod, choice: PodChoice, first_ids: Mapping[tuple[str, str], int]) -> _Candidate | None:
    """A pod that may be a broker; None for one that its labels say is something else, and for one of no set."""
    cluster = _cluster_of(pod.labels, pod.owner)
    if cluster is None or not _may_be_broker(pod.labels):
        return None
    return _Candidate(pod.namespace, cluster, pod, _id_of(pod, choice, first_ids))


def _cluster_of(labels: Mapping[str, str], owner: tuple[str, str] | None) -> str | None:
    return labels.get(STRIMZI_CLUSTER) or labels.get(KOPERATOR_CLUSTER) or (owner[1] if owner is not None else None)


def _may_be_broker(labels: Mapping[str, str]) -> bool:
    """False where an operator's labels say that it is something else."""
    if STRIMZI_CLUSTER in labels:
        of_kafka = labels.get(STRIMZI_NAME) == f"{labels[STRIMZI_CLUSTER]}-kafka"
        is_kafka = labels[STRIMZI_TYPE] == "kafka" if STRIMZI_TYPE in labels else of_kafka
        return is_kafka and labels.get(STRIMZI_BROKER, "true") == "true"
    return labels.get(CONFLUENT_TYPE, "kafka") == "kafka" and (
        KOPERATOR_CLUSTER not in labels or KOPERATOR_ID in labels
    )


def _id_of(pod: Pod, choice: PodChoice, first_ids: Mapping[tuple[str, str], int]) -> int | None:
    labels = pod.labels
    if choice.id_label is not None:
        return broker_id(labels.get(choice.id_label))
    if KOPERATOR_CLUSTER in labels:
        return broker_id(labels.get(KOPERATOR_ID))
    if STRIMZI_CLUSTER in labels:  # CLUSTER-POOL-ID: ids are counted over all pools
        return ordinal_of(pod.name)
    owner = pod.owner[1] if pod.owner is not None else ""
    first = first_ids.get((pod.namespace, owner), 0) if choice.first_id is None else choice.first_id
    return broker_id(pod.ordinal, first)


def _first_ids(found: KubernetesObjects) -> dict[tuple[str, str], int]:
    """Where Confluent's operator lets ids begin, by namespace and name of what has its annotation."""
    known: dict[tuple[str, str], int] = {}
    for each in (*found.of(ConfluentKafka), *found.of(StatefulSet)):
        first = broker_id(each.annotations.get(CONFLUENT_FIRST_ID))
        if first is not None:
            known[each.namespace, each.name] = first
    return known


def _chosen_cluster(candidates: Sequence[_Candidate], found: KubernetesObjects, choice: PodChoice) -> tuple[str, str]:
    clusters: dict[tuple[str, str], int] = {}
    for each in candidates:
        clusters[each.namespace, each.cluster] = clusters.get((each.namespace, each.cluster), 0) + 1
    told = [
        f"{sanitize(f'{ns}/{name}'.lstrip('/')[:200])} ({count_of(n, 'pod')})" for (ns, name), n in clusters.items()
    ]
    if choice.cluster is not None:
        fitting = [key for key in clusters if choice.cluster in (key[1], f"{key[0]}/{key[1]}")]
        if not fitting:
            raise InputError(
                found.source, f"no pods of {choice.cluster[:100]!r} are brokers", hint=f"it has: {few_of(told)}"
            )
    else:
        fitting = list(clusters)
    if not fitting:
        said = "no pod is of a StatefulSet or an operator" if choice.id_label is None else "no pod has the label"
        raise InputError(found.source, f"{said}, so no broker is known", hint=_ID_HINT)
    if len(fitting) > 1:
        raise InputError(
            found.source,
            f"has pods of {len(fitting)} clusters or workloads: {few_of(told)}",
            hint=f"choose one: --pods-of {quote('/'.join(fitting[0]).lstrip('/'))}",
        )
    return fitting[0]


class _Disks:
    """The claims, volumes and classes of a file by name."""

    def __init__(self, found: KubernetesObjects) -> None:
        self._claims = {(each.namespace, each.name): each for each in found.of(VolumeClaim)}
        self._volumes = {each.name: each for each in found.of(PersistentVolume)}
        self._classes = {each.name: each for each in found.of(StorageClass)}

    def of(self, pod: Pod) -> Iterator[BrokerVolume]:
        for name, paths in pod.claims.items():
            claim = self._claims.get((pod.namespace, name))
            storage_class = self._classes.get(claim.storage_class or "") if claim is not None else None
            yield BrokerVolume(
                name=name,
                paths=paths,
                claim=claim,
                volume=self._volumes.get(claim.volume or "") if claim is not None else None,
                allows_expansion=storage_class.allows_expansion if storage_class is not None else None,
            )


def _missing_pods(
    found: KubernetesObjects,
    namespace: str,
    cluster: str,
    choice: PodChoice,
    first_ids: Mapping[tuple[str, str], int],
) -> Iterator[MissingPod]:
    """The pods that sets of the cluster are to have and that the file lacks."""
    present = {pod.name for pod in found.pods if pod.namespace == namespace}
    for owner in found.of(StatefulSet):
        if owner.namespace == namespace and _cluster_of(owner.labels, ("StatefulSet", owner.name)) == cluster:
            first = first_ids.get((namespace, owner.name), 0) if choice.first_id is None else choice.first_id
            for name in owner.pod_names:
                if name not in present:
                    number = None if choice.id_label is not None else broker_id(ordinal_of(name), first)
                    yield MissingPod(name=name, owner=f"StatefulSet {owner.name}", broker=number)
    for pods in found.of(StrimziPodSet):
        if pods.namespace == namespace and pods.labels.get(STRIMZI_CLUSTER) == cluster:
            for name, labels in pods.labels_of_pods.items():
                if name not in present and _may_be_broker({**pods.labels, **labels}):
                    yield MissingPod(name=name, owner=f"StrimziPodSet {pods.name}", broker=ordinal_of(name))


def rounded_size(size: float) -> int:
    """Up to whole GiB; from 100 GiB on to tens, from 1 TiB on to hundreds of them."""
    step = GIB if size < 100 * GIB else 10 * GIB if size < 1024 * GIB else 100 * GIB
    return -int(-size // step) * step
