"""Dependencies are bounded, and the lock file pins all that `make venv` installs, without naming a registry."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
EXTRAS = PROJECT["project"]["optional-dependencies"]
BASE = PROJECT["project"]["dependencies"]
DECLARED = [*BASE, *PROJECT["build-system"]["requires"], *(item for extra in EXTRAS.values() for item in extra)]


def pins() -> dict[str, Version]:
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, _, version in (line.partition("==") for line in lines)}


def installed_by_make() -> list[Requirement]:
    found = re.search(r"^EXTRAS := (.+)$", MAKEFILE, re.MULTILINE)
    assert found
    wanted = [
        *BASE,
        *PROJECT["build-system"]["requires"],
        *(item for name in found[1].split(",") for item in EXTRAS[name]),
    ]
    return [Requirement(item) for item in wanted]


@pytest.mark.parametrize("declared", sorted(set(DECLARED)))
def test_each_dependency_has_both_bounds(declared: str) -> None:
    operators = {item.operator for item in Requirement(declared).specifier}
    assert operators == {">=", "<"}, f"{declared} needs a lower bound and an upper one"


def test_the_lock_pins_what_make_installs_and_what_that_brings_along() -> None:
    pinned, waiting, seen = pins(), installed_by_make(), set[str]()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{name} is not in requirements.lock: make lock"
        assert requirement.specifier.contains(pinned[name], prereleases=True), f"{requirement} against {pinned[name]}"
        if f"{name}{sorted(requirement.extras)}" in seen:
            continue
        seen.add(f"{name}{sorted(requirement.extras)}")
        try:
            brought = distribution(name).requires or []
        except PackageNotFoundError:  # the build's, which pip installs in a place of its own
            continue
        for item in map(Requirement, brought):
            if item.marker is None or any(item.marker.evaluate({"extra": e}) for e in ("", *requirement.extras)):
                waiting.append(item)
    assert len(seen) > 50


def test_the_lock_names_versions_alone() -> None:
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
    assert "://" not in LOCK
    assert lines == sorted(lines, key=lambda line: line.partition("==")[0].lower())  # the order of pip freeze


def test_make_and_so_ci_install_from_the_lock() -> None:
    assert "LOCK ?= requirements.lock" in MAKEFILE
    assert "PIP_CONSTRAINT=$(LOCK) PIP_BUILD_CONSTRAINT=$(LOCK)" in MAKEFILE
    assert "$(STAMP): pyproject.toml $(LOCK)" in MAKEFILE
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == "exec make test"


def test_tests_with_real_parts_are_where_make_looks_for_them() -> None:
    """The parts of `make test` with real parts collect only some places; a mark elsewhere would never run."""
    (named,) = re.findall(r"^REAL := (.+)$", MAKEFILE, re.MULTILINE)
    places = [ROOT / each for each in named.split()]
    marks = re.compile(r"mark\.(kafka|zookeeper|network|spark|timed)\b")
    files = (path for path in sorted((ROOT / "tests").rglob("*.py")) if marks.search(path.read_text(encoding="utf-8")))
    strays = [path for path in files if not any(path == place or place in path.parents for place in places)]
    assert strays == []
