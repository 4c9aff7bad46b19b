"""A real Prometheus server, and an exporter of the metrics of a sandbox's brokers for it to scrape."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from kafkakit.adapters.host import process_stat
from kafkakit.adapters.processes import LocalProcesses
from kafkakit.sandbox.decide.processes import marker
from kafkakit.sandbox.decide.spec import SandboxState
from tests.places import ROOT
from tests.rigs.required import missing, part
from tests.rigs.waiting import until

_TOTAL = re.compile(r'brokertopicmetrics_(\w+)_total\{broker_id="(\d+)"\} (\S+)')
EXPORTER = ROOT / "tests" / "rigs" / "ServeBrokerMetrics.java"


class PrometheusServer:
    """Scrapes `HOST:PORT` targets each second and keeps its data in `folder`; it can be killed and started again."""

    def __init__(self, folder: Path, targets: tuple[str, ...]) -> None:
        # No client's connection gets one of these before the server is up.
        (port,) = LocalProcesses(process_stat).free_ports(1)
        self._address = f"127.0.0.1:{port}"
        self.url = f"http://{self._address}"
        self._folder, self._program = folder, part("prometheus")
        scrape = {"job_name": "kafka", "scrape_interval": "1s", "static_configs": [{"targets": targets}]}
        (folder / "p.yml").write_text(json.dumps({"scrape_configs": [scrape]}))

    def start(self) -> None:
        """Start it and wait until it answers."""
        words = [self._program, f"--config.file={self._folder}/p.yml", f"--storage.tsdb.path={self._folder}/data",
                 f"--web.listen-address={self._address}"]  # fmt: skip
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log)
        self.wait_for("vector(1)", 1)

    def wait_for(self, expression: str, series: int) -> None:
        """Wait until the expression gives at least so many series."""
        log = (self._folder / "log").read_text
        until(lambda: self._process.poll() is not None or len(self.ask(expression)) >= series, expression, seen=log)
        assert self._process.poll() is None, log()

    def ask(self, expression: str) -> list[Any]:
        """The series of an instant vector as the server gives them, none while it does not answer."""
        with suppress(OSError), urlopen(f"{self.url}/api/v1/query?query={quote(expression)}", timeout=60) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
        return []

    def kill(self) -> None:
        """SIGKILL it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def prometheus_server(folder: Path, *targets: str) -> Iterator[PrometheusServer]:
    """A server that runs while the block does; skips the test where there is none."""
    made = PrometheusServer(folder, targets)
    made.start()
    try:
        yield made
    finally:
        made.kill()


@contextmanager
def broker_metrics(state: SandboxState) -> Iterator[str]:
    """The address of an exporter of all brokers of a sandbox; skips the test where Java has no compiler."""
    brokers = [f"{node.id}={marker(node)}" for node in state.layout.brokers]
    command = [state.java, "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", str(EXPORTER), *brokers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            if not (port := process.stdout.readline().strip()):
                missing("jdk", process.stderr.read()[-1000:])
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def broker_totals(exporter: str) -> dict[tuple[str, str], float]:
    """What brokers have sent and received since they were started, bytes by broker and kind (`bytesin`)."""
    with urlopen(f"http://{exporter}/metrics", timeout=120) as answer:
        found = _TOTAL.findall(answer.read().decode())
    return {(broker, kind): float(value) for kind, broker, value in found}
