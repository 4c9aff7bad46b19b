"""What holds for every test: Ctrl-C reaches the processes that tests start."""

import signal


def pytest_configure() -> None:
    """Undo an ignored SIGINT, which shells give to background jobs and children inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
