"""What holds for every test: Ctrl-C reaches its processes, its examples are the same in every run, a list says if it is
slow.
"""

import signal

import pytest
from hypothesis import HealthCheck, settings

from tests import slow_tests
from tests.rigs.broker_logs import BrokerLogs
from tests.rigs.run_folder import RunPlugin

# The same examples however busy the machine is; `pytest --hypothesis-profile=default` tries new ones.
settings.register_profile("suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


LONGEST = ("test_exploration.py", "test_replan.py", "test_streams_client.py", "test_storage_rebuild.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of `make slow-tests`."""
    parser.addoption("--list-slow", action="store_true", help="measure the tests and write tests/slow_tests.txt anew")


def pytest_configure(config: pytest.Config) -> None:
    """Undo an ignored SIGINT, which shells give to background jobs and children inherit; measure when asked to."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run = RunPlugin(config)
    config.pluginmanager.register(run)
    config.pluginmanager.register(BrokerLogs(run.folder))
    if config.getoption("list_slow"):
        config.pluginmanager.register(slow_tests.Measuring())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests before any are left out; what takes minutes begins first: no worker ends with it alone."""
    slow_tests.mark(items)
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(scope="session", autouse=True)
def printed_commands_are_parsed() -> None:
    """A command that a message names is parsed by the command line when a test makes it."""
    from tests.rigs.printed_commands import parse_when_made

    parse_when_made()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded as `summary`, such as how many states were explored."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, words in report.user_properties:
            if name == "summary":
                terminalreporter.write_line(str(words))
