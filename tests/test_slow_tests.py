"""The list of slow tests names tests that exist, and marks all parameters of a test."""

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.places import ROOT
from tests.slow_tests import LIST, mark


def test_the_list_names_tests_that_exist_each_once() -> None:
    names = LIST.read_text(encoding="utf-8").splitlines()
    assert names == sorted(set(names))
    for name in names:
        path, _, function = name.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
        owner, _, _ = function.rpartition("::")  # a class may have its tests from elsewhere
        assert re.search(rf"\b{owner or function}\b", text), f"{name} is gone: run make slow-tests"


def test_every_parameter_of_a_listed_test_is_slow() -> None:
    marked: list[str] = []

    def item(nodeid: str) -> Any:
        return SimpleNamespace(nodeid=nodeid, add_marker=lambda _: marked.append(nodeid))

    (first, *_) = LIST.read_text(encoding="utf-8").splitlines()
    items = [item(first), item(f"{first}[a-b[0]]"), item(f"{first}_2"), item("tests/test_slow_tests.py::test")]
    mark(cast("list[pytest.Item]", items))
    assert marked == [first, f"{first}[a-b[0]]"]
