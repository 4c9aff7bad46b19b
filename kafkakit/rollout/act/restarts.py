"""The operator's command that changes a broker's file and restarts the broker."""

from collections.abc import Mapping

from kafkakit.core.errors import KafkakitError
from kafkakit.execution.act.retrier import wait_until
from kafkakit.ports.clock import Clock
from kafkakit.ports.machine import Processes


class RestartCommand:
    """Runs `COMMAND BROKER KEY=VALUE...`, where a bare KEY is to be taken out of the file; output goes to `log_file`.

    It must be repeatable: a rollout that was cut runs it again. The clock keeps the lease while it runs.
    """

    def __init__(self, processes: Processes, clock: Clock, command: str, log_file: str, limit_s: float) -> None:
        self._processes, self._clock, self._command = processes, clock, command
        self._log_file, self._limit_s = log_file, limit_s

    def __call__(self, broker: int, values: Mapping[str, str | None]) -> str:
        """Run it; returns what went wrong."""
        words = [key if value is None else f"{key}={value}" for key, value in values.items()]
        try:
            record = self._processes.start([self._command, str(broker), *words], self._log_file, lambda _: None)
        except KafkakitError as error:
            return error.message
        try:
            ended = wait_until(self._clock, self._limit_s, lambda: not self._processes.is_alive(record), every_s=0.1)
        except BaseException:
            self._processes.kill([record])
            raise
        if not ended:
            self._processes.kill([record])
            return f"{self._command} took more than {self._limit_s:g} s"
        status = self._processes.wait(record, 5)
        return "" if status == 0 else f"{self._command} ended with {status}; its output is in {self._log_file}"
