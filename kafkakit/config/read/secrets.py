"""Fetching secrets from where a profile names them: a file, the environment, systemd's credentials, a terminal.

Also who may read the files that hold them.
"""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkakit.config.keys import is_profile_name
from kafkakit.config.merge import Entry, is_true
from kafkakit.config.security import Secret
from kafkakit.core.errors import InputError, UsageError


def refuse_unsafe(path: Path, status: os.stat_result, *, any_owner: bool = False) -> None:
    """Raise `InputError` for a file that another user than root owns or can write.

    With `any_owner` only the right to write counts: the file was named, and a service may own it.
    """
    mode = f"mode {stat.S_IMODE(status.st_mode):o}"
    if not any_owner and status.st_uid not in (0, os.geteuid()):
        raise InputError(
            str(path),
            f"belongs to another user (uid {status.st_uid}), who could redirect your credentials",
            hint="make a copy of your own and name it with --config",
        )
    # Where every user has a group of the same number, as Debian makes them, that group is the user alone.
    private = {0, os.getegid()} if os.getegid() == os.geteuid() else {0}
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid not in private):
        raise InputError(
            str(path),
            f"can be written by other users ({mode}), who could redirect your credentials",
            hint=f"chmod go-w {path}",
        )


def warn_if_readable_by_all(path: Path, warn: Callable[[str], None]) -> None:
    """Warn about a secret's file whose mode lets every user of the machine read it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if stat.S_ISREG(mode) and mode & stat.S_IROTH:
        warn(f"{path} holds a secret and every user can read it (mode {mode & 0o777:o}); chmod 600 it")


SECRET_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReader:
    """What is needed to fetch a secret; `input_allowed` False means that there is no terminal to prompt on."""

    environment: Mapping[str, str]
    warn: Callable[[str], None]
    input_allowed: bool

    def fetch(self, name: str, entries: Mapping[str, Entry]) -> Secret | None:
        """The secret of this name by the one way that `entries` holds, None when there is none."""
        direct = entries.get(name)
        if direct is not None and isinstance(direct.value, Secret):
            return direct.value
        for way, read in (
            ("file", self._from_file),
            ("env", self._from_environment),
            ("credential", self._from_credentials),
            ("prompt", self._from_terminal),
        ):
            entry = entries.get(f"{name}_{way}")
            if entry is not None:
                return read(name, str(entry.value), entry.origin)
        return None

    def _from_file(self, name: str, value: str, origin: str) -> Secret:
        from kafkakit.adapters.files import read_input

        path = Path(value)
        try:
            text = read_input(path, SECRET_LIMIT_BYTES).decode()
        except InputError as error:
            raise InputError(error.source, error.problem, hint=f"{name}_file is named by {origin}") from None
        except UnicodeDecodeError:
            raise InputError(value, f"not valid UTF-8 text ({name} from {origin})") from None
        warn_if_readable_by_all(path, self.warn)
        secret = text.removesuffix("\n").removesuffix("\r")
        if not secret:
            raise InputError(value, f"the file is empty, so there is no {name}")
        return Secret(secret)

    def _from_environment(self, name: str, value: str, origin: str) -> Secret:
        secret = self.environment.get(value)
        if not secret:
            raise UsageError(f"the environment variable {value} with {name} is not set", hint=f"named in {origin}")
        return Secret(secret)

    def _from_credentials(self, name: str, value: str, origin: str) -> Secret:
        folder = self.environment.get("CREDENTIALS_DIRECTORY")
        if not folder:
            raise UsageError(
                f"{name} is a systemd credential, but CREDENTIALS_DIRECTORY is not set",
                hint=f"run it from a unit with LoadCredential={value}:PATH",
            )
        if not is_profile_name(value):
            raise UsageError(f"{value[:60]!r} (from {origin}) cannot name a credential")
        return self._from_file(name, str(Path(folder) / value), origin)

    def _from_terminal(self, name: str, value: str, origin: str) -> Secret | None:
        if not is_true(value):
            return None
        if not self.input_allowed:
            raise UsageError(
                f"{name} must be typed in (from {origin}), and there is no terminal to prompt on",
                hint=f"use {name}_file, {name}_env or {name}_credential",
            )
        from getpass import getpass

        secret = getpass(f"{name}: ")
        if not secret:
            raise UsageError(f"no {name} was typed")
        return Secret(secret)
