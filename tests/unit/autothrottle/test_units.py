"""The files that run the pacer: systemd and Kubernetes understand them, and the program takes their options."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkakit.autothrottle.units import NAME, KubernetesPlace, Runner, unit_report
from kafkakit.cli.root import build_root, commands
from kafkakit.core.errors import UsageError
from tests.invariants.kubernetes import faults, pods_of, schema_faults
from tests.places import ROOT
from tests.rigs.printed_commands import refusal_of
from tests.rigs.required import require_sound_units

PROGRAM = ("/bin/true", "--profile", "prod 100%$HOME")
OPTIONS = ("--rate", "40MB", "--sample", "1s")


def files(runner: Runner, image: str | None = None) -> dict[str, str]:
    found = unit_report(PROGRAM, OPTIONS, (), runner, 2, place=KubernetesPlace(image=image)).data["files"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("runner", [Runner.SYSTEMD, Runner.TIMER])
def test_systemd_understands_them(runner: Runner, tmp_path: Path) -> None:
    require_sound_units(files(runner), tmp_path)


def test_the_service_notifies_and_a_stop_is_a_success() -> None:
    lines = files(Runner.SYSTEMD)[f"{NAME}.service"].splitlines()
    assert {"Type=notify", "SuccessExitStatus=143", "Restart=on-failure"} <= set(lines)
    assert '"prod 100%%$$HOME" "autothrottle" "run" "--rate" "40MB"' in next(
        x for x in lines if x.startswith("ExecStart")
    )


def test_the_cron_line_runs_once_with_options_that_exist() -> None:
    line = files(Runner.CRON)[f"{NAME}.cron"]
    words = shlex.split(line.replace("\\%", "%"))[5:]
    assert words == [*PROGRAM, "autothrottle", "once", *OPTIONS]
    for command in ("autothrottle once", "autothrottle run"):
        (entry,) = (c for c in commands(build_root()) if c.words == command)
        known = {name for option in entry.options for name in option.names}
        assert {word for word in OPTIONS if word.startswith("--")} <= known


def k8s_objects(*words: str) -> list[Any]:
    text = unit_report(PROGRAM, (*OPTIONS, *words), SERVED, Runner.K8S, 1, place=PLACE).data["files"]
    assert isinstance(text, dict)
    return list(yaml.safe_load_all(text[f"{NAME}.yaml"]))


SERVED = ("--listen", "0.0.0.0:8080", "--token-file", "/run/secrets/kafkakit/autothrottle-token")
PLACE = KubernetesPlace(image="example.org/kafkakit:1")
GIVEN = ("ConfigMap/kafkakit-config", "Secret/kafkakit-secrets")


def test_the_objects_are_sound_and_the_pods_run_the_command() -> None:
    objects = k8s_objects("--prometheus-selector", "a=$(HOME)")
    assert [each["kind"] for each in objects] == ["Deployment", "PodDisruptionBudget"]
    assert schema_faults(objects) == []
    assert faults(objects, given=GIVEN) == []
    (container,) = objects[0]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["/bin/true"]
    rest = ["autothrottle", "run", *OPTIONS, "--prometheus-selector", "a=$$(HOME)", *SERVED]
    assert container["args"] == [*PROGRAM[1:], *rest]
    assert refusal_of([word.replace("$$", "$") for word in container["args"]]) == ""


def test_the_pods_are_those_of_the_base() -> None:
    """But for the name of the account, the items of the Secret, and the store, which there the profile names."""
    (printed,) = (template for _, template in pods_of(k8s_objects()))
    base = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/base/autothrottle.yaml").read_text("utf-8")))
    (shipped,) = (template for _, template in pods_of(base))
    for template in (printed, shipped):
        for key in ("serviceAccountName", "topologySpreadConstraints"):
            template["spec"].pop(key, None)
        (container,) = template["spec"]["containers"]
        for key in ("args", "command", "image", "imagePullPolicy"):
            container.pop(key, None)
        container["env"] = container["env"][:1]
        for volume in template["spec"]["volumes"]:
            volume.get("secret", {}).pop("items", None)
    assert printed["spec"] == shipped["spec"]


@pytest.mark.parametrize("given", [{"config_map": "A_b"}, {"secret": "-a"}, {"image": ""}, {"image": "a\nb"}])
def test_what_is_not_a_name_of_kubernetes_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is not"):
        KubernetesPlace(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("options", "runner"), [(("--rate", "1\n"), Runner.CRON), (OPTIONS, Runner.K8S)])
def test_what_no_file_can_hold_is_refused(options: tuple[str, ...], runner: Runner) -> None:
    with pytest.raises(UsageError):
        unit_report(PROGRAM, options, (), runner, 1, place=KubernetesPlace())


def test_options_of_the_service_are_not_for_once() -> None:
    of_run = ("--interval", "5s")
    made = unit_report(PROGRAM, OPTIONS, of_run, Runner.SYSTEMD, 1, place=KubernetesPlace()).data["files"]
    assert isinstance(made, dict)
    assert '"--sample" "1s" "--interval" "5s"\n' in made[f"{NAME}.service"]
    for runner in (Runner.TIMER, Runner.CRON):
        with pytest.raises(UsageError, match="runs `once`, which has no --interval"):
            unit_report(PROGRAM, OPTIONS, of_run, runner, 1, place=KubernetesPlace())
