"""This process's environment, streams and folders, and the record of a fault of kafkakit itself.

Environment and streams are read as far as they decide on output and questions. Folders hold configuration, state,
caches and sockets: XDG's, or systemd's. The traceback of a fault goes into a private file, never to the terminal, with
known secrets masked.
"""

import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from kafkakit import __version__
from kafkakit.config.security import MASK, Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The facts about streams and environment that decide on colour, animation and questions."""

    stdin_is_terminal: bool
    stderr_is_terminal: bool
    is_ci: bool
    is_github_actions: bool
    is_dumb: bool
    no_color: bool

    @classmethod
    def now(cls) -> Self:
        """Look at this process."""
        environment = read_environment()
        return cls(
            stdin_is_terminal=_is_terminal(sys.stdin),
            stderr_is_terminal=_is_terminal(sys.stderr),
            is_ci=environment.get("CI", "").lower() not in ("", "0", "false"),
            is_github_actions=environment.get("GITHUB_ACTIONS", "") == "true",
            is_dumb=environment.get("TERM", "") == "dumb",
            no_color=environment.get("NO_COLOR", "") != "",
        )

    def wants_color(self, choice: str) -> bool:
        """Settle `--color`: auto means a terminal that is not dumb, without NO_COLOR."""
        if choice == "auto":
            return self.stderr_is_terminal and not self.is_dumb and not self.no_color
        return choice == "always"


def read_environment() -> Mapping[str, str]:
    """A copy of this process's environment."""
    return dict(os.environ)


def _is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Absolute folders; none of them needs to exist. `locks` None: the host's own folder for locks of all users."""

    config: Path
    state: Path
    cache: Path
    runtime: Path
    locks: Path | None = None


def find_folders(environment: Mapping[str, str]) -> Folders:
    """Derive the folders from the environment; relative XDG values are ignored, as the standard requires."""
    own = environment.get("HOME") or os.path.expanduser("~")
    home = Path(own if os.path.isabs(own) else "/")  # a container may run as a user that the system does not know
    state = _first_file(environment, "KAFKAKIT_STATE_DIR", "STATE_DIRECTORY") or _xdg(
        environment, "XDG_STATE_HOME", home / ".local/state"
    )
    runtime = _first_file(environment, "RUNTIME_DIRECTORY")
    if runtime is None:
        base = environment.get("XDG_RUNTIME_DIR", "")
        runtime = Path(base) / "kafkakit" if os.path.isabs(base) else state / "run"
    return Folders(
        config=_xdg(environment, "XDG_CONFIG_HOME", home / ".config"),
        state=state,
        cache=_xdg(environment, "XDG_CACHE_HOME", home / ".cache"),
        runtime=runtime,
        locks=_first_file(environment, "KAFKAKIT_LOCK_DIR"),
    )


def _xdg(environment: Mapping[str, str], name: str, fallback: Path) -> Path:
    value = environment.get(name, "")
    return (Path(value) if os.path.isabs(value) else fallback) / "kafkakit"


def _first_file(environment: Mapping[str, str], *names: str) -> Path | None:
    for name in names:
        # systemd gives a colon-separated list; the first one is ours.
        value = environment.get(name, "").split(":")[0]
        if os.path.isabs(value):
            return Path(value)
    return None


SUMMARY_CHARACTERS = 200


def write_crash_report(error: BaseException, secrets: Iterable[Secret]) -> tuple[str, Path | None]:
    """Write the traceback (0600, secrets masked).

    Gives a one-line summary and the file, None when the file cannot be written.
    """
    known = [secret.reveal() for secret in secrets if secret.reveal()]
    summary = _mask_secrets(f"{type(error).__name__}: {' '.join(str(error).split())}", known)[:SUMMARY_CHARACTERS]
    body = f"kafkakit {__version__}\n{''.join(traceback.format_exception(error))}"
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = find_folders(read_environment()).state / "crashes" / f"{now}-{os.getpid()}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(_mask_secrets(body, known))
    except OSError:
        return summary, None
    return summary, path


def _mask_secrets(text: str, known: Iterable[str]) -> str:
    for value in known:
        text = text.replace(value, MASK)
    return text
