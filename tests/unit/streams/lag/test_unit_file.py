"""The systemd unit: what it says is what the program takes, and systemd understands it."""

import configparser
from pathlib import Path

from kafkakit.cli.root import build_root, commands
from kafkakit.core.errors import ExitCode
from tests.places import ROOT
from tests.rigs.required import require_sound_units

UNIT = ROOT / "deploy" / "systemd" / "kafkakit-lag.service"


def section(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    at = ""
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            at = line.strip("[]")
        elif at == name and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_it_calls_the_program_with_options_that_exist() -> None:
    (command,) = section("Service")["ExecStart"]
    words = command.split()
    assert words[1:4] == ["streams", "lag", "serve"]
    (entry,) = (c for c in commands(build_root()) if c.words == "streams lag serve")
    known = {name for option in entry.options for name in option.names}
    assert {word for word in words if word.startswith("--")} <= known


def test_a_stop_on_request_counts_as_success_and_it_notifies() -> None:
    service = section("Service")
    assert service["SuccessExitStatus"] == [str(int(ExitCode.TERMINATED))]
    assert service["Type"] == ["notify"]
    assert "WatchdogSec" in service


def test_its_form_is_that_of_a_unit() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=False)
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    assert parser.sections() == ["Unit", "Service", "Install"]


def test_systemd_understands_it(tmp_path: Path) -> None:
    # The program is not installed where the unit expects it, so that one line is replaced.
    text = UNIT.read_text(encoding="utf-8").replace("/usr/local/bin/kafkakit", "/bin/true")
    require_sound_units({UNIT.name: text}, tmp_path)
