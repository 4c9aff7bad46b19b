"""Objects of Kubernetes that run a command of kafkakit, as the `unit` commands print them.

A pod has the profiles of a ConfigMap below /etc/kafkakit and the files of a Secret below /run/secrets/kafkakit; it may
write to /tmp and to its own volumes, and nowhere else. It has no rights in Kubernetes. `deploy/kubernetes` has more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

CONFIG_FOLDER = "/etc/kafkakit"
SECRET_FOLDER = "/run/secrets/kafkakit"
CONFIG_MAP, SECRET = "kafkakit-config", "kafkakit-secrets"
"""The names that `deploy/kubernetes` has too."""
_USER = 10001
_GRACE_S = 30
_SECURITY: Mapping[str, object] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_STARTUP_S, _LIFE_S, _READY_S = 5, 20, 10
Body = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPod:
    """A pod of one container named `component`, which is part of the object `name`.

    `arguments` go to the image's entry point, `command` takes its place. `port` is where a service answers probes.
    `variables` is a Secret whose keys become environment variables. `volumes` are folders by the name of the claim that
    holds them.
    """

    name: str
    component: str
    image: str
    arguments: Sequence[str] = ()
    command: Sequence[str] = ()
    namespace: str | None = None
    cpu: str
    memory: str
    memory_limit: str
    port: int | None = None
    config_map: str = CONFIG_MAP
    secret: str = SECRET
    variables: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """By which what belongs to the pod finds it."""
        return {"app.kubernetes.io/name": self.name, "app.kubernetes.io/component": self.component}

    def metadata(self) -> Body:
        """Of an object with the pod's name."""
        place = {} if self.namespace is None else {"namespace": self.namespace}
        return {"name": self.name, **place, "labels": self.labels}


def deployment(pod: CommandPod, replicas: int) -> Body:
    """A service whose pods may run at once."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": pod.metadata(),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": pod.labels},
            "template": {"metadata": {"labels": pod.labels}, "spec": _pod_spec(pod)},
        },
    }


def disruption_budget(pod: CommandPod) -> Body:
    """One pod at a time may go when nodes are drained; those that are not ready may always."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": pod.metadata(),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": pod.labels},
        },
    }


def cron_job(pod: CommandPod, schedule: str, *, start_within_s: int, limit_s: int) -> Body:
    """Runs at times in UTC, one at a time and never again by itself: the exit code says what is to be done."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": pod.metadata(),
        "spec": {
            "schedule": schedule,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": start_within_s,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {
                "spec": {
                    "activeDeadlineSeconds": limit_s,
                    "backoffLimit": 0,
                    "template": {
                        "metadata": {"labels": pod.labels},
                        "spec": {"restartPolicy": "Never", **_pod_spec(pod)},
                    },
                }
            },
        },
    }


def volume_claims(pod: CommandPod, size: str) -> list[Body]:
    """Claims for the pod's volumes."""
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {**pod.metadata(), "name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
        }
        for name in pod.volumes
    ]


def manifest(*objects: Body) -> str:
    """The objects as YAML for `kubectl apply -f`."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


class _Dumper(yaml.SafeDumper):
    """Writes what is there twice twice: kubectl reads anchors, people do not."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _pod_spec(pod: CommandPod) -> Body:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(pod)],
        "volumes": [
            {"name": "config", "configMap": {"name": pod.config_map}},
            {"name": "secrets", "secret": {"secretName": pod.secret, "defaultMode": 0o440}},
            *({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in pod.volumes),
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
    }


def _container(pod: CommandPod) -> Body:
    # Kubernetes replaces $(NAME) in command lines; two dollars stand for one.
    lines = {"command": pod.command, "args": pod.arguments}
    variables = {"HOME": "/tmp", **pod.environment}
    return {
        "name": pod.component,
        "image": pod.image,
        **{key: [word.replace("$(", "$$(") for word in words] for key, words in lines.items() if words},
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        **({"envFrom": [{"secretRef": {"name": pod.variables}}]} if pod.variables is not None else {}),
        **(_probes(pod.port) if pod.port is not None else {}),
        "resources": {"requests": {"cpu": pod.cpu, "memory": pod.memory}, "limits": {"memory": pod.memory_limit}},
        "securityContext": dict(_SECURITY),
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
            {"name": "secrets", "mountPath": SECRET_FOLDER, "readOnly": True},
            *(
                {"name": name, "mountPath": place, "subPath": place.strip("/")}
                for name, places in pod.volumes.items()
                for place in places
            ),
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _probes(port: int) -> Body:
    """What every service answers (`core.rpc.ServiceProbes`); no outage of Kafka ends a pod."""
    asked = (
        ("startupProbe", "/startupz", _STARTUP_S, 36),
        ("livenessProbe", "/livez", _LIFE_S, 3),
        ("readinessProbe", "/readyz", _READY_S, 3),
    )
    probes = {
        name: {
            "httpGet": {"path": path, "port": "api"},
            "periodSeconds": period,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        }
        for name, path, period, failures in asked
    }
    return {"ports": [{"name": "api", "containerPort": port}], **probes}
