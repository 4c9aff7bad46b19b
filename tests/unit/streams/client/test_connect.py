"""Which profile and config file the client of applications takes."""

from pathlib import Path

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.streams.client.connect import connect


@pytest.mark.parametrize(
    ("profile", "variables", "named"),
    [
        (None, {"KAFKAKIT_PROFILE": "of-variable"}, "of-variable"),
        ("of-argument", {"KAFKAKIT_PROFILE": "of-variable"}, "of-argument"),
        ("of-argument", {}, "of-argument"),
        (None, {"KAFKAKIT_CONFIG": "/missing/of-variable.yaml"}, "/missing/of-variable.yaml"),
        (None, {"KAFKAKIT_PROFILE": "", "KAFKAKIT_CONFIG": ""}, "no Kafka address is configured"),
    ],
)
def test_an_argument_is_stronger_than_its_variable(
    profile: str | None, variables: dict[str, str], named: str, tmp_path: Path
) -> None:
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CONFIG", "STATE", "CACHE")}
    with pytest.raises(UsageError, match=named):
        connect(profile, environment={**folders, "HOME": str(tmp_path), "KAFKAKIT_CONTROL_STORE": "kafka", **variables})


def test_an_argument_names_the_config_file(tmp_path: Path) -> None:
    missing = tmp_path / "of-argument.yaml"
    with pytest.raises(UsageError, match=r"of-argument\.yaml"):
        connect(config=missing, environment={"HOME": str(tmp_path), "KAFKAKIT_CONFIG": "/missing/of-variable.yaml"})
