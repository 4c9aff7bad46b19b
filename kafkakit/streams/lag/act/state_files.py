"""The state files of the lag monitor: one for each cluster in a folder of the state dir."""

from collections.abc import Callable
from pathlib import Path

from kafkakit.core.control_paths import check_path
from kafkakit.core.errors import InputError, KafkakitError
from kafkakit.streams.lag.decide.saved_state import LIMIT_BYTES, SavedState, decode_state, encode_state

MAX_AGE_MS = 12 * 3600 * 1000
"""Brokers keep tombstones for a day (delete.retention.ms): what is read on from an older state could miss some."""


class StateFiles:
    """Reads and replaces the files; `read_input` and `write_file` are those of `wiring`."""

    def __init__(
        self, folder: Path, read_input: Callable[[Path, int], bytes], write_file: Callable[[Path, bytes, int], None]
    ) -> None:
        self._folder, self._read_input, self._write_file = folder, read_input, write_file

    def path_of(self, cluster_id: str) -> Path:
        """Where one cluster's file is."""
        check_path(cluster_id)
        return self._folder / f"{cluster_id}.state"

    def load(self, cluster_id: str, now_ms: int) -> SavedState | None:
        """The cluster's state, None where there is none; `InputError` when it must not be used, with the reason."""
        path = self.path_of(cluster_id)
        if not path.exists():
            return None
        state = decode_state(self._read_input(path, LIMIT_BYTES), str(path))
        if state.cluster_id != cluster_id:
            raise InputError(str(path), f"is of cluster {state.cluster_id}")
        if now_ms - state.saved_ms > MAX_AGE_MS:
            raise InputError(str(path), "is older than 12 hours; deletions may be gone from the log by now")
        if state.saved_ms - now_ms > MAX_AGE_MS:
            raise InputError(str(path), "is from the future; the clock was changed")
        return state

    def save(self, state: SavedState) -> None:
        """Replace the cluster's file; raises `KafkakitError` when it cannot be written."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise KafkakitError(f"cannot make {self._folder}: {error.strerror}") from None
        self._write_file(self.path_of(state.cluster_id), encode_state(state), 0o600)
