"""What holds for every test: Ctrl-C reaches the processes that tests start, and examples are the same in every run."""

import signal

import pytest
from hypothesis import HealthCheck, settings

# The same examples however busy the machine is; `pytest --hypothesis-profile=default` tries new ones.
settings.register_profile("suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_configure() -> None:
    """Undo an ignored SIGINT, which shells give to background jobs and children inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded as `summary`, such as how many states were explored."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, words in report.user_properties:
            if name == "summary":
                terminalreporter.write_line(str(words))
