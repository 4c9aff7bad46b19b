"""The tests that `make check` leaves out, kept in one list: those that took more than `LIMIT_S` of CPU.

`make slow-tests` runs the tests that `make check` chooses from, measures each, and writes the list anew.
"""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT_S = 0.1
LIST = Path(__file__).with_suffix(".txt")


def function_of(nodeid: str) -> str:
    """A test without its parameters: all of them are slow when one is."""
    return nodeid.partition("[")[0]


def mark(items: list[pytest.Item]) -> None:
    """Mark what the list names as slow."""
    slow = set(LIST.read_text(encoding="utf-8").split())
    for item in items:
        if function_of(item.nodeid) in slow:
            item.add_marker(pytest.mark.slow)


class Measuring:
    """Measures each test's own call, its processes included, and writes the list when all have passed."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        before = _cpu_s()
        try:
            return (yield)
        finally:
            item.user_properties.append(("cpu_s", _cpu_s() - before))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, seconds in report.user_properties:
            if report.when == "call" and name == "cpu_s" and isinstance(seconds, float):
                function = function_of(report.nodeid)
                self.found[function] = max(self.found.get(function, 0.0), seconds)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK and not hasattr(session.config, "workerinput"):
            slow = sorted(name for name, seconds in self.found.items() if seconds > LIMIT_S)
            LIST.write_text("".join(f"{name}\n" for name in slow), encoding="utf-8")


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)
