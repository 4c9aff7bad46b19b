"""The runs of this host on a cluster, from their journals and plan files; read again only when they changed."""

import os
from pathlib import Path

from kafkakit.core.errors import InputError
from kafkakit.execution.act.kept_plans import plan_of
from kafkakit.execution.act.run_journal import journal_files, read_run_state
from kafkakit.execution.decide.status.looks import KnownRun


class KnownRuns:
    """The runs of one cluster; `damaged` says what cannot be read, and why."""

    def __init__(self, state_dir: Path, cluster_id: str) -> None:
        self._state_dir, self._cluster_id = state_dir, cluster_id
        self._known: dict[str, tuple[tuple[int, int], KnownRun]] = {}
        self.damaged: tuple[str, ...] = ()

    def read(self) -> tuple[KnownRun, ...]:
        """All runs by journal name; one that is damaged is left out and named in `damaged`."""
        found: list[KnownRun] = []
        damaged: list[str] = []
        for file in journal_files(self._state_dir, self._cluster_id):
            try:
                stamp = _stamp(file.path)
                earlier = self._known.get(file.name)
                state = earlier[1].state if earlier is not None and earlier[0] == stamp else read_run_state(file)
            except InputError as error:
                damaged.append(error.message)
                continue
            plan = earlier[1].plan if earlier is not None else None
            if plan is None and state.unsettled:
                plan = plan_of(file.path, state)
            if state.salvaged:
                damaged.append(state.salvaged)
            run = KnownRun(journal=file.name, state=state, plan=plan)
            self._known[file.name] = (stamp, run)
            found.append(run)
        self.damaged = tuple(damaged)
        return tuple(found)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:  # a journal that is lost
        return 0, 0
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    return found.st_mtime_ns, found.st_size
