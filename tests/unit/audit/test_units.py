"""A schedule as systemd units, a cron line and a CronJob: each runs the same commands, whatever the names are."""

import configparser
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.audit.decide.launch import DailySchedule, Scheduler
from kafkakit.audit.report.exports import cron_job, cron_text, systemd_files, unit_report
from kafkakit.cli.command_classes import shared_params
from kafkakit.cli.root import build_root, commands
from kafkakit.core.errors import UsageError
from tests.invariants.kubernetes import faults, schema_faults
from tests.rigs.required import require_sound_units

HOSTILE = "/srv/a b'\"\\ %h %% $HOME ${X} $(id) `id` ; & | # * ü"
STUB = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done >> "$0.log"
[ "$2" != collect ] || exit "$(cat "$0.code")"
[ "$2" = metrics ] || exit 0
"""


def schedule(program: str = "/usr/local/bin/kafkakit", place: str = HOSTILE, **more: Any) -> DailySchedule:
    return DailySchedule(
        fleet=place, store=place, results="s3://b/results", image="registry.example.org:5000/kit:1",
        metrics_file="/var/lib/metrics/kafkakit.prom", program=program, **more,
    )  # fmt: skip


def systemd_script(made: DailySchedule) -> str:
    """The argument of /bin/sh as systemd hands it on (systemd.service(5), "Command lines"; systemd.unit(5))."""
    (line,) = re.findall(
        r"^ExecStart=/bin/sh -c \"(.*)\"$", systemd_files(made)["kafkakit-audits.service"], re.MULTILINE
    )
    return re.sub(r"%%|\$\$|\\(.)", lambda m: m[1] or m[0][0], line)


def cron_script(made: DailySchedule) -> str:
    """What cron hands to the shell (crontab(5)): the sixth field, with \\% as %, and nothing behind a bare %."""
    (line,) = cron_text(made).splitlines()
    assert re.search(r"(?<!\\)%", line) is None
    return line.split(" ", 5)[5].replace("\\%", "%")


def kubernetes_script(made: DailySchedule) -> str:
    document = next(yaml.safe_load_all(cron_job(made)))
    (container,) = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    shell, flag, script = container["command"]
    assert (shell, flag) == ("/bin/sh", "-c")
    assert re.search(r"(?<!\$)\$\(", script) is None, "Kubernetes would put a variable there"
    return str(script).replace("$$(", "$(")


FORMS = [systemd_script, cron_script, kubernetes_script]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("collected", "code", "steps"), [(0, 0, 3), (1, 1, 3), (2, 2, 1), (75, 75, 1)])
def test_the_commands_run_with_the_words_given(
    form: Any, collected: int, code: int, steps: int, tmp_path: Path
) -> None:
    stub = tmp_path / "kit's $1 %n"
    stub.write_text(STUB)
    stub.chmod(0o755)
    Path(f"{stub}.code").write_text(str(collected))
    ran = subprocess.run(["/bin/sh", "-c", form(schedule(str(stub)))], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", "")
    words = [
        ["fleet", "collect", "--fleet", HOSTILE, "--to", HOSTILE],
        ["audit", "all", "--input", HOSTILE, "--output", "s3://b/results", "--fail-on", "never"],
        ["audit", "metrics", "s3://b/results", "--output-file", "/var/lib/metrics/kafkakit.prom"],
    ]
    assert Path(f"{stub}.log").read_text().splitlines() == [word for step in words[:steps] for word in step]


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=30))
@settings(max_examples=60)
def test_any_name_survives_each_form(name: str) -> None:
    place = f"/{name}"
    if not place.isprintable():
        with pytest.raises(UsageError):
            schedule(place=place)
        return
    made = schedule(place=place)
    assert [form(made) for form in FORMS] == [made.script] * 3
    assert shlex.split(made.script)[4] == place


def test_the_commands_and_options_exist() -> None:
    known = {c.words: {n for o in c.options for n in o.names} for c in commands(build_root())}
    shared = {name for param in shared_params() for name in param.opts}
    for step in schedule(place="/a").script.split("; "):
        words = [word.rstrip(";") for word in shlex.split(step) if "=" not in word]
        if words and words[0].endswith("kafkakit"):
            name = " ".join(words[1:3])
            assert {word for word in words if word.startswith("--")} <= known[name] | shared, name


@pytest.mark.parametrize(
    "wrong",
    [
        {"place": "relative"}, {"at": "24:00"}, {"at": "3:30"}, {"name": "Upper"}, {"name": "a/b"}, {"namespace": ""},
        {"secret": "a b"}, {"place": "/a\nb"},
    ],
)  # fmt: skip
def test_what_cannot_be_scheduled_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        schedule(**wrong)


def test_a_cron_job_needs_an_image_and_takes_variables_from_a_secret() -> None:
    with pytest.raises(UsageError, match="needs an image"):
        cron_job(DailySchedule(profiles="a", store="/a", results="/b"))
    document = next(yaml.safe_load_all(cron_job(schedule(secret="fleet-access", namespace="kafka", at="23:05"))))
    assert schema_faults([document]) == []
    assert document["spec"]["schedule"] == "5 23 * * *"
    pod = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "fleet-access"}}]


def test_the_schema_refuses_what_kubernetes_does() -> None:
    document, claim = yaml.safe_load_all(cron_job(schedule()))
    document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    assert faults([document, claim], given=K8S) == ["CronJob/kafkakit-audits: is repeated when it fails"]
    document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolcy"] = "Never"
    assert schema_faults([document])


K8S = ("ConfigMap/kafkakit-config", "Secret/kafkakit-secrets")
DAILY = DailySchedule(
    fleet="/etc/kafkakit/fleet.yaml", store="/srv/fleet", results="/srv/audits", metrics_file="/srv/m/x", image="k:1"
)


@pytest.mark.parametrize("made", [DAILY, replace(DAILY, store="s3://a/b", results="s3://c", metrics_file=None)])
def test_the_objects_of_kubernetes_are_sound(made: DailySchedule) -> None:
    objects = list(yaml.safe_load_all(cron_job(made)))
    assert [each["kind"] for each in objects[1:]] == ["PersistentVolumeClaim"] * (made is DAILY)
    assert schema_faults(objects) == []
    assert faults(objects, given=K8S) == []
    mounts = objects[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    places = {each["mountPath"]: each["subPath"] for each in mounts if "subPath" in each}
    wanted = {place: place[1:] for place in ("/srv/fleet", "/srv/audits", "/srv/m")}
    assert places == (wanted if made is DAILY else {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ""),
        ({"fleet": "/srv/fleet.yaml"}, "/srv/fleet.yaml must be in the image"),
        ({"store": "/"}, "/ cannot be the place of a volume"),
        ({"results": "/srv/../x"}, "/srv/../x cannot be the place"),
        ({"results": "/srv/a:b"}, "/srv/a:b cannot be the place"),
    ],
)
def test_what_a_pod_would_not_find_is_told(given: dict[str, str], said: str) -> None:
    warnings = unit_report(replace(DAILY, **given), Scheduler.K8S).warnings
    assert [said in each for each in warnings] == [True] * (said != "")
    assert unit_report(replace(DAILY, **given), Scheduler.CRON).warnings == ()


def test_the_places_of_this_host_can_be_written_to() -> None:
    unit = systemd_files(schedule(place="/srv/a%b $x"))["kafkakit-audits.service"]
    assert re.findall("^ReadWritePaths=(.*)$", unit, re.MULTILINE) == ['"/srv/a%%b $x"', '"/var/lib/metrics"']


def test_the_timer_fires_once_a_day() -> None:
    files = systemd_files(schedule())
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(files["kafkakit-audits.timer"])
    assert parser["Timer"]["OnCalendar"] == "*-*-* 03:30:00 UTC"
    assert set(files) == {"kafkakit-audits.service", "kafkakit-audits.timer"}


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    require_sound_units(systemd_files(schedule()), tmp_path)
