"""The record of a fault of kafkakit itself: the traceback goes into a private file, never to the terminal."""

import os
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from kafkakit import __version__
from kafkakit.config.read.environment import read_environment
from kafkakit.config.read.folders import find_folders
from kafkakit.config.security import MASK, Secret

SUMMARY_CHARACTERS = 200


def write_crash_report(error: BaseException, secrets: Iterable[Secret]) -> tuple[str, Path | None]:
    """Write the traceback (0600, secrets masked).

    Gives a one-line summary and the file, None when the file cannot be written.
    """
    known = [secret.reveal() for secret in secrets if secret.reveal()]
    summary = _masked(f"{type(error).__name__}: {' '.join(str(error).split())}", known)[:SUMMARY_CHARACTERS]
    body = f"kafkakit {__version__}\n{''.join(traceback.format_exception(error))}"
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = find_folders(read_environment()).state / "crashes" / f"{now}-{os.getpid()}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(_masked(body, known))
    except OSError:
        return summary, None
    return summary, path


def _masked(text: str, known: Iterable[str]) -> str:
    for value in known:
        text = text.replace(value, MASK)
    return text
