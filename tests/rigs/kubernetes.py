"""Objects of Kubernetes as kubectl prints them, for tests of what reads them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

Thing = dict[str, Any]


def thing(kind: str, name: str, version: str = "v1", /, **fields: Any) -> Thing:
    metadata = {"name": name, "namespace": "kafka", "uid": "u", **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def pod(name: str, owner: str | None = "kafka", node: str = "", *, ready: bool = True, **changes: Any) -> Thing:
    """A pod of a StatefulSet with its claim `data-NAME` at /data."""
    owners = [{"kind": "StatefulSet", "name": owner}] if owner else []
    metadata = {"ownerReferences": owners, "labels": {}, **changes}
    return thing(
        "Pod",
        name,
        metadata=metadata,
        spec={
            "nodeName": node,
            "containers": [{"name": "kafka", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}],
        },
        status={"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]},
    )


def claim(name: str, size: str = "100Gi", asked: str | None = None, phase: str = "Bound") -> Thing:
    return thing(
        "PersistentVolumeClaim",
        name,
        spec={
            "storageClassName": "ssd",
            "volumeName": f"pv-{name}",
            "resources": {"requests": {"storage": asked or size}},
        },
        status={"phase": phase, "capacity": {"storage": size}},
    )


def stateful(name: str, replicas: int, **spec: Any) -> Thing:
    return thing("StatefulSet", name, "apps/v1", spec={"replicas": replicas, "serviceName": f"{name}-headless", **spec})


def node(name: str, zone: str) -> Thing:
    return thing("Node", name, metadata={"namespace": "", "labels": {"topology.kubernetes.io/zone": zone}})


def storage_class(*, expands: bool) -> Thing:
    return thing("StorageClass", "ssd", "storage.k8s.io/v1", provisioner="x", allowVolumeExpansion=expands)


def cluster(zones: Sequence[str] = "abc", name: str = "kafka", *, first: int = 0, expands: bool = True) -> list[Thing]:
    """A StatefulSet with a pod and a claim in each zone: pods `NAME-0`, nodes `n0` and so on."""
    found = [stateful(name, len(zones), ordinals={"start": first}), storage_class(expands=expands)]
    for number, zone in enumerate(zones, first):
        found += [pod(f"{name}-{number}", name, f"n{number}"), claim(f"data-{name}-{number}"), node(f"n{number}", zone)]
    return found


def strimzi_pod(cluster_name: str, pool: str, number: int, *, broker: bool = True, kind: str = "kafka") -> Thing:
    labels = {
        "strimzi.io/cluster": cluster_name,
        "strimzi.io/pool-name": pool,
        "strimzi.io/component-type": kind,
        "strimzi.io/broker-role": str(broker).lower(),
    }
    owners = [{"kind": "StrimziPodSet", "name": f"{cluster_name}-{pool}"}]
    return pod(f"{cluster_name}-{pool}-{number}", None, labels=labels, ownerReferences=owners)


def printed(items: Iterable[Thing]) -> bytes:
    """As `kubectl get ... -o json` prints them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}).encode()
