"""The sandbox's folders and files: private, written whole or not at all."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkakit.core.errors import InputError, OperationFailedError, RefusedError, TryLaterError
from kafkakit.sandbox.decide.processes import MARKER
from kafkakit.sandbox.decide.spec import SandboxState, check_name, decode_state, encode_state

TAIL_LINES = 15
_TAIL_BYTES = 64 * 1024


def store_of(name: str, state_dir: Path, config_dir: Path) -> "Store":
    """The store of the sandbox of that name; raises `UsageError` when no sandbox can have it."""
    return Store(root=state_dir / "sandbox" / check_name(name), profiles=config_dir / "profiles.d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where one sandbox lives: `root` for its processes, `profiles` for the profile files."""

    root: Path
    profiles: Path

    @property
    def state_file(self) -> Path:
        """The record of what runs."""
        return self.root / "state.json"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the sandbox against other kafkakit commands; raises `TryLaterError` while another holds it."""
        self.root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.root.parent / f".{self.root.name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise TryLaterError(
                    f"another command is working on sandbox {self.root.name}",
                    hint="run the same command again once that one has ended",
                ) from None
            yield
        finally:
            os.close(descriptor)

    def load(self) -> SandboxState | None:
        """The record, or None when there is no sandbox; raises `InputError` when the record is damaged."""
        try:
            data = self.state_file.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return decode_state(data, str(self.state_file))
        except InputError as error:
            marker = f"{MARKER}{self.root}/"
            raise InputError(
                error.source,
                error.problem,
                hint=f"end what `pgrep -f -- {marker}` lists, then delete {self.root}",
            ) from None

    def save(self, state: SandboxState) -> None:
        """Replace the record."""
        self.write(self.state_file, encode_state(state))

    def write(self, path: Path | str, data: bytes | str) -> None:
        """Replace a private file (0600): temporary name, fsync, rename."""
        target = Path(path)
        content = data.encode() if isinstance(data, str) else data
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def read_text(self, path: Path | str) -> str:
        """Read a file of the sandbox; raises `InputError` when it is gone."""
        try:
            return Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(str(path), f"cannot be read: {error.strerror}") from None

    def make_root(self) -> None:
        """Make an empty private folder; what an earlier run left there goes."""
        self.remove_root()
        self.make_folder(self.root)

    def make_folder(self, folder: Path | str) -> None:
        """Make a private folder (0700) and its parents."""
        try:
            Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise OperationFailedError(f"cannot make the folder {folder}: {error.strerror}") from None

    def remove(self, path: Path | str) -> None:
        """Delete a file if it is there."""
        Path(path).unlink(missing_ok=True)

    def remove_root(self) -> None:
        """Delete all data, logs and secrets of the sandbox."""
        # A process that was just killed may still be closing files; a second pass takes what is left.
        shutil.rmtree(self.root, ignore_errors=True)
        if self.root.exists():
            try:
                shutil.rmtree(self.root)
            except OSError as error:
                raise OperationFailedError(f"cannot remove {self.root}: {error.strerror}") from None

    def profile_file(self, profile: str) -> Path:
        """The file of a profile that the sandbox owns."""
        return self.profiles / f"{profile}.yaml"

    def write_profile(self, profile: str, text: str) -> Path:
        """Write a profile file (0600)."""
        self.make_folder(self.profiles)
        path = self.profile_file(profile)
        self.write(path, text)
        return path

    def owns_profile(self, profile: str, head: str) -> bool:
        """True when the profile's file is absent, or begins with the line that the sandbox writes."""
        try:
            with self.profile_file(profile).open("rb") as file:
                return file.readline(1000).decode("utf-8", "replace").rstrip("\n") == head
        except FileNotFoundError:
            return True

    def refuse_taken_name(self, defined_in: Path | None) -> None:
        """Raise `RefusedError` when another file defines the profile, which would win over the sandbox's."""
        name = self.root.name
        if defined_in is not None and defined_in != self.profile_file(name):
            raise RefusedError(f"profile {name} is defined in {defined_in} already", hint="choose another --name")

    def remove_profile(self, profile: str) -> None:
        """Delete a profile file if it is there."""
        self.profile_file(profile).unlink(missing_ok=True)

    def set_aside(self, log_file: str) -> None:
        """Keep a log as `LOG.1`, so that the next start begins an empty one."""
        with contextlib.suppress(FileNotFoundError):
            Path(log_file).replace(f"{log_file}.1")

    def tail(self, log_file: str, lines: int = TAIL_LINES) -> tuple[str, ...]:
        """The last lines of a log, without reading all of it; empty when there is none."""
        try:
            with Path(log_file).open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        return tuple(line[:400] for line in text.splitlines()[-lines:])
