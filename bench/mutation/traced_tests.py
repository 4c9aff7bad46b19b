"""Which tests run which line of the modules that a mutation run changes."""

import ast
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@cache
def imports(path: str) -> frozenset[str]:
    """The modules of this repository that a file imports, also inside functions, as paths."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = (f"{name.replace('.', '/')}.py" for name in names if name.partition(".")[0] in ("kafkakit", "tests"))
    return frozenset(path for path in paths if (ROOT / path).is_file())


def reached(test: str) -> dict[str, int]:
    """The modules that a test file reaches, and over how many imports."""
    found, edge, distance = {test: 0}, {test}, 0
    while edge:
        distance += 1
        edge = {other for path in edge for other in imports(path)} - found.keys()
        found |= dict.fromkeys(edge, distance)
    return found


class Recorder:
    """A pytest plugin: which lines of the modules each test runs (in any thread), and the seconds it takes."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._files = {str(ROOT / path): path for path in modules}
        self._lines: set[tuple[str, int]] = set()
        self.tests: dict[str, Traced] = {}

    def _trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., object] | None:
        if frame.f_code.co_filename not in self._files:
            return None
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._lines, began = set(), time.monotonic()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            lines = [(self._files[name], line) for name, line in self._lines]
            self.tests[item.nodeid] = Traced(time.monotonic() - began, lines)


class Traced(NamedTuple):
    """One test: its seconds (under the tracer) and the lines that it ran."""

    seconds: float
    lines: list[tuple[str, int]]


class Coverage:
    """Which tests run which line; lines that run on import alone belong to the tests nearest to their module."""

    def __init__(self, tests: Mapping[str, Traced], most: int) -> None:
        self._tests, self._most = tests, most
        self._far = {file: reached(file) for file in {test.partition("::")[0] for test in tests}}
        self._of_line: dict[tuple[str, int], list[str]] = {}
        for test, traced in tests.items():
            for line in traced.lines:
                self._of_line.setdefault((line[0], line[1]), []).append(test)

    def tests_of(self, path: str, lines: range, *, is_import: bool) -> tuple[str, ...]:
        """At most `most` tests: those of the nearest files first, and the quickest of these."""
        if is_import:
            found = {test for test in self._tests if path in self._far[test.partition("::")[0]]}
        else:
            found = {test for line in lines for test in self._of_line.get((path, line), ())}
        order = sorted(found, key=lambda t: (self._far[t.partition("::")[0]].get(path, 99), self._tests[t].seconds, t))
        return tuple(order[: self._most])

    def seconds(self, tests: Iterable[str]) -> float:
        return sum(self._tests[test].seconds for test in tests)
