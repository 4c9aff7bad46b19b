"""What brokers logged while a test ran, in the report of one that fails."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.rigs.run_folder import RunFolder

LAST, LOUD, WIDTH = 15, 25, 400
MOST = 2_000_000
MARKS = (" WARN ", " ERROR ", " FATAL ", "Exception")


class BrokerLogs:
    """Notes where the logs of all clusters of the run end when a test begins; reads on from there when it fails."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._ends: dict[int, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Note the ends of logs by inode: a broker that starts again has a new log, which is read from its start."""
        path = self._folder.path
        found = [*path.glob("sandbox/*/*/output.log"), *self._logs()]
        self._ends = {(stat := file.stat()).st_ino: stat.st_size for file in found if file.exists()}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            report.sections += [(f"{name} since the test began", text) for name, text in self.logged().items()]
        return report

    def logged(self) -> dict[str, str]:
        """What is new, by cluster, node and file."""
        texts = {"/".join(file.parts[-3:]): self._since(file) for file in self._logs()}
        return {name: text for name, text in texts.items() if text}

    def _logs(self) -> list[Path]:
        """Logs of the clusters that this process's files have: those leased, which are links, and those started."""
        pattern = "state/kafkakit/sandbox/*/*/output.log*"
        return sorted(file for home in self._folder.homes for file in home.glob(pattern))

    def _since(self, file: Path) -> str:
        """The loud lines that a log has got since the test began, and the last ones."""
        try:
            with file.open("rb") as opened:
                stat = file.stat()
                opened.seek(max(self._ends.get(stat.st_ino, 0), stat.st_size - MOST))
                lines = opened.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        loud = [line for line in lines[:-LAST] if any(mark in line for mark in MARKS)]
        left = len(loud) - LOUD
        shown = [*([f"({left} more warnings and errors before)"] if left > 0 else []), *loud[-LOUD:], *lines[-LAST:]]
        return "\n".join(line[:WIDTH] for line in shown)
