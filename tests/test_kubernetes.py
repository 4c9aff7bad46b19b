"""The objects of deploy/kubernetes: what two versions of Kubernetes accept, and what no schema finds."""

import json
import shutil
import subprocess
from collections.abc import Callable
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import kafkakit
from tests.invariants.kubernetes import containers_of, faults, name_of, pods_of, schema_faults
from tests.places import ROOT
from tests.rigs.chart import CHART, merged, render_chart
from tests.rigs.command_line import Home
from tests.rigs.documents import prometheus_rules
from tests.rigs.printed_commands import refusal_of
from tests.rigs.required import promtool

BASE, MONITORING = ROOT / "deploy/kubernetes/base", ROOT / "deploy/kubernetes/monitoring"
CONFIG_HASH = "kafkakit/config-hash"
GIVEN = ("Secret/kafkakit-secrets", "Secret/kafkakit-tls")
FULL: dict[str, Any] = yaml.safe_load((ROOT / "tests/cases/kubernetes/full-values.yaml").read_text("utf-8"))
FULL_GIVEN = ("Secret/prod-secrets", "Secret/prod-tls")


def base_objects(folder: Path = BASE) -> list[Any]:
    """What Kustomize makes of a folder, but for the hash in the name of the ConfigMap."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    found = [d for name in kustomization["resources"] for d in yaml.safe_load_all((folder / name).read_text("utf-8"))]
    for made in kustomization.get("configMapGenerator", ()):
        data = {name: (folder / name).read_text("utf-8") for name in made["files"]}
        metadata = {"name": made["name"], "labels": made["options"]["labels"]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return found


def without_hashes(objects: list[Any]) -> dict[str, Any]:
    """By name, without what tells a change of the configuration to the pods."""
    found = {name_of(each): deepcopy(each) for each in objects}
    for _, template in pods_of(found.values()):
        annotations = template["metadata"].get("annotations", {})
        annotations.pop(CONFIG_HASH, None)
        if not annotations:
            template["metadata"].pop("annotations", None)
    return found


def all_objects() -> list[Any]:
    return [*base_objects(), *base_objects(MONITORING)]


def test_the_base_is_sound() -> None:
    assert schema_faults(all_objects()) == []
    assert faults(all_objects(), given=GIVEN) == []


@pytest.mark.parametrize("release", ["kafkakit", "prod-eu"])
def test_the_chart_with_all_values_is_sound(release: str) -> None:
    objects = render_chart(FULL, release)
    assert schema_faults(objects) == []
    assert faults(objects, given=FULL_GIVEN) == []


def test_the_chart_by_default_is_the_base() -> None:
    assert without_hashes(render_chart()) == without_hashes(base_objects())
    assert without_hashes(render_chart({"monitoring": {"enabled": True}})) == without_hashes(all_objects())


def test_each_part_of_the_chart_can_be_left_out() -> None:
    for name in ("registry", "lag", "autothrottle", "assigner", "ui", "audits"):
        left = render_chart({name: {"enabled": False}, "monitoring": {"enabled": True}})
        assert not [
            name_of(each) for each in left if name_of(each).endswith(f"-{name}") and each["kind"] != "PrometheusRule"
        ]
        found = faults(left, given=GIVEN)
        # Its port stays in the one policy of all pods.
        assert [each for each in found if not each.startswith("NetworkPolicy/")] == []


def test_a_change_of_the_configuration_rolls_the_pods() -> None:
    config = "profiles: {a: {bootstrap_server: 'a:1'}}\n"
    for each, template in pods_of(render_chart({"config": config})):
        if each["kind"] == "Deployment":
            assert template["metadata"]["annotations"][CONFIG_HASH] == sha256(config.encode()).hexdigest()


def test_two_releases_share_nothing_that_they_make() -> None:
    one, other = (render_chart(FULL, release) for release in ("one", "one-b"))
    assert not {name_of(each) for each in one} & {name_of(each) for each in other}
    assert faults([*one, *other], given=FULL_GIVEN) == []
    for each in one:
        for labels in [template["metadata"]["labels"] for _, template in pods_of([each])]:
            assert labels["app.kubernetes.io/instance"] == "one"


def test_a_release_may_be_named_by_a_number() -> None:
    assert schema_faults(render_chart({}, "123"), ["1.37"]) == []


def test_each_pod_runs_a_command_that_the_tool_takes() -> None:
    for each, template in pods_of([*all_objects(), *render_chart(FULL, "prod")]):
        for container in containers_of(template["spec"]):
            assert "command" not in container, "the image's entry point is the tool"
            assert refusal_of(container["args"]) == "", name_of(each)


def test_versions_are_that_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert {chart["version"], chart["appVersion"]} == {kafkakit.__version__}
    images = {c["image"] for _, template in pods_of(base_objects()) for c in template["spec"]["containers"]}
    assert images == {f"kafkakit:{kafkakit.__version__}", f"kafkakit-audits:{kafkakit.__version__}"}


def test_the_rules_are_those_of_prometheus(tmp_path: Path) -> None:
    assert {path: path.read_text("utf-8") for path in prometheus_rules()} == prometheus_rules(), "make docs"
    files = sorted((ROOT / "deploy/prometheus").glob("*.rules.yaml"))
    groups = [group for path in files for group in yaml.safe_load(path.read_text("utf-8"))["groups"]]
    (rule,) = (each for each in base_objects(MONITORING) if each["kind"] == "PrometheusRule")
    assert rule["spec"] == {"groups": groups} == yaml.safe_load((CHART / "rules.yaml").read_text("utf-8"))
    written = tmp_path / "rules.yaml"
    written.write_text(yaml.safe_dump(rule["spec"]), encoding="utf-8")
    assert "SUCCESS" in promtool("check", "rules", written)


def test_the_configuration_is_one_that_the_tool_reads(tmp_path: Path) -> None:
    """As a ConfigMap is mounted: a link to a folder that is replaced as a whole."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026/config.yaml").write_text((BASE / "config.yaml").read_text("utf-8"), encoding="utf-8")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    ran = Home(tmp_path / "home").run("--config", str(tmp_path / "config.yaml"), "profile", "show")
    assert ran.code == 0, ran.stderr
    assert "/run/secrets/kafkakit/password" in ran.stdout


def the(objects: list[Any], name: str) -> Any:
    (found,) = (each for each in objects if name_of(each) == name)
    return found


def pod(objects: list[Any], name: str = "Deployment/kafkakit-registry") -> Any:
    (found,) = (template for each, template in pods_of(objects) if name_of(each) == name)
    return found["spec"]


def container(objects: list[Any], name: str = "Deployment/kafkakit-registry") -> Any:
    return pod(objects, name)["containers"][0]


def secret_volume(objects: list[Any]) -> Any:
    return next(each["secret"] for each in pod(objects)["volumes"] if each["name"] == "secrets")


REGISTRY, AUDITS = "Deployment/kafkakit-registry", "CronJob/kafkakit-audits"
Break = Callable[[list[Any]], object]
BROKEN: dict[str, tuple[Break, str]] = {
    "twice": (lambda o: o.append(deepcopy(o[0])), "is there twice"),
    "selector": (lambda o: the(o, REGISTRY)["spec"]["selector"]["matchLabels"].update(a="b"), "does not match"),
    "no probe": (lambda o: container(o).pop("startupProbe"), "lacks a probe"),
    "one path": (lambda o: container(o)["readinessProbe"]["httpGet"].update(path="/livez"), "two probes of one"),
    "life by kafka": (lambda o: container(o)["livenessProbe"]["httpGet"].update(path="/healthz"), "its life"),
    "probe port": (lambda o: container(o)["livenessProbe"]["httpGet"].update(port="web"), "it does not have"),
    "loopback": (lambda o: container(o)["args"].__setitem__(3, "127.0.0.1:8080"), "listens on"),
    "root": (lambda o: pod(o)["securityContext"].pop("runAsNonRoot"), "may run as root"),
    "seccomp": (lambda o: pod(o)["securityContext"].pop("seccompProfile"), "no seccomp profile"),
    "host": (lambda o: pod(o).update(hostNetwork=True), "has hostNetwork"),
    "escalation": (lambda o: container(o)["securityContext"].pop("allowPrivilegeEscalation"), "may gain rights"),
    "capabilities": (lambda o: container(o)["securityContext"].pop("capabilities"), "has capabilities"),
    "writable": (lambda o: container(o)["securityContext"].pop("readOnlyRootFilesystem"), "may write to its root"),
    "resources": (lambda o: container(o)["resources"].pop("limits"), "names no resources"),
    "latest": (lambda o: container(o).update(image="a.example:5000/kafkakit:latest"), "has no version"),
    "no tag": (lambda o: container(o).update(image="a.example:5000/kafkakit"), "has no version"),
    "env secret": (lambda o: container(o)["env"].append({"name": "P", "valueFrom": {"secretKeyRef": {}}}), "a Secret"),
    "env from": (lambda o: container(o).update(envFrom=[{"secretRef": {"name": "a"}}]), "Secret in its environment"),
    "home": (lambda o: container(o)["env"].clear(), "no home that it may write to"),
    "token": (lambda o: pod(o).pop("automountServiceAccountToken"), "a token for Kubernetes is mounted"),
    "links": (lambda o: pod(o).pop("enableServiceLinks"), "variables of services are set"),
    "account": (lambda o: pod(o).update(serviceAccountName="other"), "there is no ServiceAccount other"),
    "grace": (lambda o: pod(o).update(terminationGracePeriodSeconds=5), "less than 30 s to end"),
    "sub path": (lambda o: container(o)["volumeMounts"][1].update(subPath="password"), "is a subPath"),
    "written": (lambda o: container(o)["volumeMounts"][0].pop("readOnly"), "may be written"),
    "no volume": (lambda o: container(o)["volumeMounts"][0].update(name="conf"), "there is no volume conf"),
    "no tmp": (lambda o: container(o)["volumeMounts"].pop(), "has no /tmp"),
    "no map": (lambda o: o.remove(the(o, "ConfigMap/kafkakit-config")), "there is no ConfigMap kafkakit-config"),
    "no secret": (lambda o: secret_volume(o).update(secretName="other"), "there is no Secret other"),
    "no claim": (lambda o: o.remove(the(o, "PersistentVolumeClaim/kafkakit-audits")), "no PersistentVolumeClaim"),
    "mode": (lambda o: secret_volume(o).pop("defaultMode"), "all users may read"),
    "no key": (lambda o: secret_volume(o)["items"].pop(), "registry-callers.yaml is not among the keys"),
    "key of config": (lambda o: secret_volume(o)["items"].pop(1), "password is not among the keys"),
    "map key": (lambda o: container(o)["args"].append("/etc/kafkakit/fleet.yaml"), "fleet.yaml is no key"),
    "no mount": (lambda o: container(o)["args"].append("/var/lib/x"), "/var/lib/x is on no volume"),
    "overlap": (lambda o: the(o, AUDITS)["spec"].pop("concurrencyPolicy"), "two runs may overlap"),
    "late start": (lambda o: the(o, AUDITS)["spec"].pop("startingDeadlineSeconds"), "no startingDeadlineSeconds"),
    "zone": (lambda o: the(o, AUDITS)["spec"].pop("timeZone"), "has no timeZone"),
    "history": (lambda o: the(o, AUDITS)["spec"].pop("failedJobsHistoryLimit"), "has no failedJobsHistoryLimit"),
    "for ever": (lambda o: the(o, AUDITS)["spec"]["jobTemplate"]["spec"].pop("activeDeadlineSeconds"), "for ever"),
    "again": (lambda o: the(o, AUDITS)["spec"]["jobTemplate"]["spec"].pop("backoffLimit"), "repeated when it fails"),
    "restart": (lambda o: pod(o, AUDITS).update(restartPolicy="OnFailure"), "repeated when it fails"),
    "single": (lambda o: the(o, REGISTRY)["spec"].update(replicas=1), "holds a single pod fast"),
    "budget": (lambda o: the(o, "PodDisruptionBudget/kafkakit-registry")["spec"].update(maxUnavailable=0), "or none"),
    "service": (lambda o: the(o, "Service/kafkakit-registry")["spec"]["selector"].update(a="b"), "selects no pods"),
    "port": (lambda o: the(o, "Service/kafkakit-ui")["spec"]["ports"][0].update(targetPort="http"), "the port http"),
    "monitor": (lambda o: the(o, "PodMonitor/kafkakit-lag")["spec"]["podMetricsEndpoints"][0].update(port="x"), "x"),
    "policy": (lambda o: the(o, "NetworkPolicy/kafkakit")["spec"]["policyTypes"].pop(), "leaves a direction open"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_fault_that_no_schema_finds_is_found(case: str) -> None:
    change, expected = BROKEN[case]
    objects = all_objects()
    change(objects)
    found = faults(objects, given=GIVEN)
    assert [each for each in found if expected in each], found


MISSPELT: dict[str, Break] = {
    "field": lambda o: container(o).update(livenesProbe={}),
    "type": lambda o: the(o, REGISTRY)["spec"].update(replicas="two"),
    "required": lambda o: the(o, AUDITS)["spec"].pop("schedule"),
    "version": lambda o: the(o, AUDITS).update(apiVersion="batch/v1beta1"),
    "interval": lambda o: the(o, "PodMonitor/kafkakit-lag")["spec"]["podMetricsEndpoints"][0].update(interval="30"),
    "rule": lambda o: the(o, "PrometheusRule/kafkakit-lag")["spec"]["groups"][0]["rules"][0].update(exp="1"),
}


@pytest.mark.parametrize("case", MISSPELT)
def test_what_a_schema_refuses_is_found(case: str) -> None:
    before, objects = all_objects(), all_objects()
    MISSPELT[case](objects)
    changed = [each for each in objects if each not in before]
    assert schema_faults(changed, ["1.30"])
    assert schema_faults(changed, ["1.37"])


def accepted(values: Any) -> bool:
    """Whether the chart's schema takes these values over its own."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    return bool(jsonschema.Draft7Validator(schema).is_valid(merged(defaults, values)))


@pytest.mark.parametrize(
    "values",
    [
        {"registry": {"replicas": "2"}},
        {"registry": {"replicas": -1}},
        {"regsitry": {"enabled": False}},
        {"lag": {"args": "--skew 2s"}},
        {"lag": {"resources": {"requests": {"cpu": 1}, "limits": None}}},
        {"image": {"tag": "latest"}},
        {"image": {"repository": "Kafka Kit"}},
        {"secrets": {"name": "A_b"}},
        {"secrets": {"keys": ["../etc"]}},
        {"audits": {"schedule": "daily"}},
        {"audits": {"storage": {"size": "many"}}},
        {"networkPolicy": {"ports": []}},
        {"networkPolicy": {"ports": [{"port": 70000}]}},
        {"monitoring": {"enabled": "yes"}},
        {"config": {"profiles": {}}},
    ],
    ids=str,
)
def test_values_of_a_wrong_kind_are_refused(values: Any) -> None:
    assert accepted({})
    assert accepted(FULL)
    assert not accepted(values)


def program(name: str) -> str:
    """A program that is at hand; skips, or fails where it is required, without."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on the PATH")
    return found


def output_of(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout


def test_kustomize_makes_the_same_of_the_base(tmp_path: Path) -> None:
    kubectl = program("kubectl")
    overlay = tmp_path / "overlay"
    shutil.copytree(ROOT / "deploy/kubernetes", tmp_path / "kubernetes")
    overlay.mkdir()
    text = "resources: [../kubernetes/base]\ncomponents: [../kubernetes/monitoring]\nnamespace: kafka-tools\n"
    (overlay / "kustomization.yaml").write_text(text, encoding="utf-8")
    made = list(yaml.safe_load_all(output_of(kubectl, "kustomize", str(overlay))))
    assert {each["metadata"].pop("namespace") for each in made} == {"kafka-tools"}
    (config,) = (each["metadata"]["name"] for each in made if each["kind"] == "ConfigMap")
    assert config.startswith("kafkakit-config-"), "a change of its content rolls the pods"
    plain = json.loads(json.dumps(made).replace(config, "kafkakit-config"))
    assert without_hashes(plain) == without_hashes(all_objects())


def test_the_page_shows_an_overlay_that_works(tmp_path: Path) -> None:
    kubectl = program("kubectl")
    page = (ROOT / "docs/install.md").read_text("utf-8").partition("\n## Kubernetes\n")[2]
    lines = page.partition("```sh\n")[2].partition("```")[0]
    shutil.copytree(ROOT / "deploy/kubernetes", tmp_path / "deploy/kubernetes")
    path = f"{Path(kubectl).parent}:/usr/bin:/bin"
    words = ["bash", "-euc", lines]
    ran = subprocess.run(words, cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    made = list(yaml.safe_load_all(ran.stdout))
    assert schema_faults(made, ["1.37"]) == []
    assert faults(made, given=GIVEN) == []
    images = {c["image"] for _, template in pods_of(made) for c in template["spec"]["containers"]}
    names = ("kafkakit", "kafkakit-audits")
    assert images == {f"registry.example.org/{name}:{kafkakit.__version__}" for name in names}


KUBE_VERSION = ("--kube-version", "1.30.0")  # a helm that is not a release knows only an old one
VALUES = {"default": None, "full": ROOT / "tests/cases/kubernetes/full-values.yaml"}


def recorded(name: str) -> Path:
    """What helm 3.22 printed; the header of each document names its template."""
    return ROOT / f"tests/cases/kubernetes/helm-{name}.yaml"


def helm_template(name: str) -> str:
    values = VALUES[name]
    more = [] if values is None else ["--values", str(values)]
    return output_of(program("helm"), "template", "kafkakit", str(CHART), *KUBE_VERSION, *more)


@pytest.mark.parametrize("name", VALUES)
def test_our_renderer_makes_what_helm_does(name: str) -> None:
    made = {name_of(each): each for each in yaml.safe_load_all(recorded(name).read_text("utf-8")) if each}
    ours = render_chart(FULL if name == "full" else None)
    assert {name_of(each): each for each in ours} == made


@pytest.mark.parametrize("name", VALUES)
def test_helm_prints_what_is_recorded(name: str) -> None:
    assert helm_template(name) == recorded(name).read_text("utf-8"), "record it again"


def test_helm_finds_nothing_to_say_and_refuses_wrong_values() -> None:
    helm = program("helm")
    for values in VALUES.values():
        output_of(helm, "lint", "--strict", str(CHART), *([] if values is None else ["--values", str(values)]))
    words = [helm, "template", "x", str(CHART), *KUBE_VERSION, "--set-string", "registry.replicas=two"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, "replicas" in ran.stderr) == (1, True)
