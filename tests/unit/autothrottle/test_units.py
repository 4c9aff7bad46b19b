"""The files that run the pacer: systemd and Kubernetes understand them, and the program takes their options."""

import shlex
from pathlib import Path

import pytest
import yaml

from kafkakit.autothrottle.units import NAME, Runner, unit_report
from kafkakit.cli.root import build_root, commands
from kafkakit.core.errors import UsageError
from tests.rigs.required import require_sound_units

PROGRAM = ("/bin/true", "--profile", "prod 100%$HOME")
OPTIONS = ("--rate", "40MB", "--sample", "1s")


def files(runner: Runner, image: str | None = None) -> dict[str, str]:
    found = unit_report(PROGRAM, OPTIONS, (), runner, 2, image=image).data["files"]
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


def test_the_deployment_has_two_pods_and_no_secret() -> None:
    body = yaml.safe_load(files(Runner.K8S, "example.org/kafkakit:1")[f"{NAME}.yaml"])
    assert (body["kind"], body["spec"]["replicas"]) == ("Deployment", 2)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [*PROGRAM, "autothrottle", "run", *OPTIONS]
    assert body["spec"]["selector"]["matchLabels"] == body["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize(("options", "runner"), [(("--rate", "1\n"), Runner.CRON), (OPTIONS, Runner.K8S)])
def test_what_no_file_can_hold_is_refused(options: tuple[str, ...], runner: Runner) -> None:
    with pytest.raises(UsageError):
        unit_report(PROGRAM, options, (), runner, 1, image=None)


def test_options_of_the_service_are_not_for_once() -> None:
    of_run = ("--interval", "5s")
    made = unit_report(PROGRAM, OPTIONS, of_run, Runner.SYSTEMD, 1, image=None).data["files"]
    assert isinstance(made, dict)
    assert '"--sample" "1s" "--interval" "5s"\n' in made[f"{NAME}.service"]
    for runner in (Runner.TIMER, Runner.CRON):
        with pytest.raises(UsageError, match="runs `once`, which has no --interval"):
            unit_report(PROGRAM, OPTIONS, of_run, runner, 1, image=None)
