"""Objects of Kubernetes: the schemas of its versions and of Prometheus' operator, and what no schema finds."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema
import kubernetes_validate

from tests.places import ROOT

VERSIONS = ("1.30", "1.37")
CASES = ROOT / "tests" / "cases" / "kubernetes"
CUSTOM = {"PodMonitor": "pod-monitor", "PrometheusRule": "prometheus-rule"}
LIVE_PATH = "/livez"
Object = Mapping[str, Any]


def schema_faults(objects: Iterable[Object], versions: Sequence[str] = VERSIONS) -> list[str]:
    """What the schemas refuse, names that they do not know included."""
    found = []
    for each in objects:
        name = name_of(each)
        if each["kind"] in CUSTOM:
            schema = json.loads((CASES / f"{CUSTOM[each['kind']]}.schema.json").read_text("utf-8"))
            found += [f"{name}: {error.message}" for error in jsonschema.Draft202012Validator(schema).iter_errors(each)]
            continue
        for version in versions:
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except (kubernetes_validate.ValidationError, jsonschema.ValidationError) as error:
                found.append(f"{name}: {version}: {getattr(error, 'message', error)}")
            except kubernetes_validate.SchemaNotFoundError as error:
                found.append(f"{name}: {version}: {error}")
    return found


def name_of(each: Object) -> str:
    return f"{each['kind']}/{each['metadata']['name']}"


def faults(objects: Sequence[Object], *, given: Iterable[str] = ()) -> list[str]:
    """What is wrong in objects that belong together; `given` are `Kind/name` that somebody else makes."""
    names = [name_of(each) for each in objects]
    found = [f"{name}: is there twice" for name in sorted({name for name in names if names.count(name) > 1})]
    known = {*names, *given}
    pods = list(pods_of(objects))
    for each, template in pods:
        name = name_of(each)
        found += [f"{name}: {fault}" for fault in pod_faults(template["spec"], known, objects)]
        if each["kind"] == "Deployment":
            found += [f"{name}: {fault}" for fault in deployment_faults(each, template)]
        else:
            found += [f"{name}: {fault}" for fault in cron_job_faults(each["spec"], template["spec"])]
    for each in objects:
        found += [f"{name_of(each)}: {fault}" for fault in reference_faults(each, pods)]
    return found


def pods_of(objects: Iterable[Object]) -> Iterator[tuple[Object, Any]]:
    """The objects that make pods, with the template of these."""
    for each in objects:
        if each["kind"] == "Deployment":
            yield each, each["spec"]["template"]
        elif each["kind"] == "CronJob":
            yield each, each["spec"]["jobTemplate"]["spec"]["template"]


def containers_of(spec: Any) -> list[Any]:
    return [*spec.get("initContainers", ()), *spec["containers"]]


def pod_faults(spec: Any, known: set[str], objects: Sequence[Object]) -> Iterator[str]:
    """Of any pod: rights, places, resources, and where its secrets are."""
    if spec.get("automountServiceAccountToken") is not False:
        yield "a token for Kubernetes is mounted"
    if spec.get("enableServiceLinks") is not False:
        yield "variables of services are set, such as KAFKAKIT_UI_PORT"
    account = spec.get("serviceAccountName")
    if account is not None and f"ServiceAccount/{account}" not in known:
        yield f"there is no ServiceAccount {account}"
    context = spec.get("securityContext", {})
    if context.get("runAsNonRoot") is not True or not context.get("runAsUser"):
        yield "may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield f"has {key}"
    if spec.get("terminationGracePeriodSeconds", 0) < 30:
        yield "has less than 30 s to end"
    yield from volume_faults(spec, known, objects)
    for container in containers_of(spec):
        yield from container_faults(container)


def container_faults(container: Any) -> Iterator[str]:
    context = container.get("securityContext", {})
    if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
        yield "may gain rights"
    if context.get("capabilities") != {"drop": ["ALL"]}:
        yield "has capabilities"
    if context.get("readOnlyRootFilesystem") is not True:
        yield "may write to its root"
    resources = container.get("resources", {})
    if set(resources.get("requests", ())) != {"cpu", "memory"} or "memory" not in resources.get("limits", ()):
        yield "names no resources"
    tag = container["image"].rpartition("/")[2].partition(":")[2]
    if not tag or tag == "latest":
        yield f"the image {container['image']} has no version"
    if any("secretRef" in each for each in container.get("envFrom", ())):
        yield "has a Secret in its environment"
    if any("secretKeyRef" in each.get("valueFrom", ()) for each in container.get("env", ())):
        yield "has a Secret in its environment"
    if {"name": "HOME", "value": "/tmp"} not in container.get("env", ()):
        yield "has no home that it may write to"


def volume_faults(spec: Any, known: set[str], objects: Sequence[Object]) -> Iterator[str]:
    """Volumes exist, are mounted as files that change with their source, and hold what the command line names."""
    volumes = {each["name"]: each for each in spec.get("volumes", ())}
    for name, volume in volumes.items():
        for kind, key, of in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
            if key in volume and f"{kind}/{volume[key][of]}" not in known:
                yield f"there is no {kind} {volume[key][of]}"
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim is not None and f"PersistentVolumeClaim/{claim}" not in known:
            yield f"there is no PersistentVolumeClaim {claim}"
        if "secret" in volume and volume["secret"].get("defaultMode", 0o644) & 0o007:
            yield f"all users may read the secret {name}"
    for container in containers_of(spec):
        places = {}
        for mount in container.get("volumeMounts", ()):
            if mount["name"] not in volumes:
                yield f"there is no volume {mount['name']}"
                continue
            volume = places[mount["mountPath"]] = volumes[mount["name"]]
            is_changing = "secret" in volume or "configMap" in volume
            if is_changing and "subPath" in mount:
                yield f"{mount['mountPath']} is a subPath, which never changes"
            if is_changing and not mount.get("readOnly"):
                yield f"{mount['mountPath']} may be written"
        if "emptyDir" not in places.get("/tmp", ()):
            yield "has no /tmp"
        yield from path_faults(container, places, objects)


def path_faults(container: Any, places: Mapping[str, Any], objects: Sequence[Object]) -> Iterator[str]:
    """Files that the command line and config.yaml name lie on a volume, and it has them."""
    maps = {each["metadata"]["name"]: each.get("data", {}) for each in objects if each["kind"] == "ConfigMap"}
    texts = [*container.get("command", ()), *container.get("args", ())]
    for volume in places.values():
        texts += maps.get(volume.get("configMap", {}).get("name"), {}).values()
    named = {path for text in texts for path in re.findall(r"(?<![\w./])/(?:etc|run|var)/[\w./-]*\w", text)}
    for path in sorted(named):
        mount = max((place for place in places if f"{path}/".startswith(f"{place}/")), key=len, default=None)
        if mount is None:
            yield f"{path} is on no volume"
            continue
        volume, rest = places[mount], path[len(mount) + 1 :]
        items = volume.get("secret", volume.get("configMap", {})).get("items")
        if items is not None and rest and rest not in {item["path"] for item in items}:
            yield f"{path} is not among the keys of its volume"
        keys = maps.get(volume.get("configMap", {}).get("name"))
        if keys is not None and rest and rest not in keys:
            yield f"{path} is no key of its ConfigMap"


def deployment_faults(each: Object, template: Any) -> Iterator[str]:
    spec = each["spec"]
    if not matches(spec["selector"], template["metadata"]["labels"]):
        yield "its selector does not match its pods"
    for container in template["spec"]["containers"]:
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
        probes = [container.get(name) for name in ("startupProbe", "livenessProbe", "readinessProbe")]
        if None in probes:
            yield "lacks a probe"
            continue
        asked = [probe["httpGet"] for probe in probes]
        if len({get["path"] for get in asked}) != len(asked):
            yield "has two probes of one path"
        if asked[1]["path"] != LIVE_PATH:
            yield f"its life depends on {asked[1]['path']}"
        if not {get["port"] for get in asked} <= set(ports):
            yield "a probe asks a port that it does not have"
        listens = [word for word in container.get("args", container.get("command", ())) if word.startswith("0.0.0.0:")]
        if sorted(listens) != sorted(f"0.0.0.0:{port}" for port in ports.values()):
            yield f"listens on {listens} and has the ports {ports}"


def cron_job_faults(spec: Any, pod: Any) -> Iterator[str]:
    wanted = {"concurrencyPolicy": "Forbid"}
    if any(spec.get(key) != value for key, value in wanted.items()):
        yield "two runs may overlap"
    job = spec["jobTemplate"]["spec"]
    needed = ("startingDeadlineSeconds", "timeZone", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    for key in needed:
        if key not in spec:
            yield f"has no {key}"
    if "activeDeadlineSeconds" not in job:
        yield "may run for ever"
    if job.get("backoffLimit") != 0 or pod.get("restartPolicy") != "Never":
        yield "is repeated when it fails"


def matches(selector: Any, labels: Mapping[str, str]) -> bool:
    return bool(selector["matchLabels"]) and selector["matchLabels"].items() <= labels.items()


def reference_faults(each: Object, pods: Sequence[tuple[Object, Any]]) -> Iterator[str]:
    """What selects pods selects some, and names ports that these have."""
    kind, spec = each["kind"], each.get("spec", {})
    if kind == "Service":
        selector: Any = {"matchLabels": spec["selector"]}
        wanted = [port["targetPort"] for port in spec["ports"]]
    elif kind == "PodDisruptionBudget":
        selector, wanted = spec["selector"], []
    elif kind == "PodMonitor":
        selector, wanted = spec["selector"], [endpoint["port"] for endpoint in spec["podMetricsEndpoints"]]
    elif kind == "NetworkPolicy":
        selector = spec["podSelector"]
        wanted = [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
    else:
        return
    chosen = [(owner, pod) for owner, pod in pods if matches(selector, pod["metadata"]["labels"])]
    if not chosen:
        yield "selects no pods"
    ports = {port["name"] for _, pod in chosen for c in pod["spec"]["containers"] for port in c.get("ports", ())}
    for name in wanted:
        if name not in ports:
            yield f"no pod that it selects has the port {name}"
    if kind == "PodDisruptionBudget":
        if spec.get("maxUnavailable") != 1:
            yield "lets more than one pod go at once, or none"
        if any(owner["kind"] != "Deployment" or owner["spec"]["replicas"] < 2 for owner, _ in chosen):
            yield "holds a single pod fast: its node cannot be drained"
    if kind == "NetworkPolicy" and set(spec["policyTypes"]) != {"Ingress", "Egress"}:
        yield "leaves a direction open"
