"""What planning reads (the cluster or a snapshot file, with sizes), and the maps, plans and pages that it writes.

Sizes come from brokers, the snapshot file or a collector.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from kafkakit.core.cluster_facts import FROM_BROKERS, METRICS_PREFIX
from kafkakit.core.documents import decode_snapshot, encode_plan
from kafkakit.core.errors import ExitCode
from kafkakit.core.model import ClusterSnapshot, PartitionMap
from kafkakit.core.plan import Plan, StorageFacts
from kafkakit.core.plan_rules import check_snapshot
from kafkakit.execution.act.retrier import with_usual_min_isr
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.services import StorageMetrics
from kafkakit.topicmappr.act.places import ClusterSource, MapDestination, PlanDestination
from kafkakit.topicmappr.decide.assembly import SavedMap, SavedPlan, apply_command, map_files
from kafkakit.topicmappr.decide.frontier import FrontierPoint
from kafkakit.topicmappr.decide.storage import DEFAULT_AGE_MINUTES, refuse_old, storage_facts, with_metrics
from kafkakit.topicmappr.report.page import report_page

SNAPSHOT_LIMIT_BYTES = 2 << 30


class ObservingSession(Protocol):
    """What an observation needs of a session; clients are opened on first use."""

    @property
    def admin(self) -> ClusterAdmin:
        """The control side of the cluster."""
        ...

    @property
    def clock(self) -> Clock:
        """The machine's clock."""
        ...

    def storage_metrics(self, source: str, addresses: str, prefix: str) -> StorageMetrics:
        """Sizes that a collector keeps."""
        ...

    def read_input(self, path: Path | str, limit_bytes: int) -> bytes:
        """A file's bytes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedSnapshot:
    """A cluster with sizes in it, and where those come from."""

    snapshot: ClusterSnapshot
    facts: StorageFacts


def observe(
    session: ObservingSession, path: Path | None, *, sound_lists: bool = True, sizes: bool = True
) -> ClusterSnapshot:
    """Read the cluster now, or the snapshot file at `path`; `sizes` False spares brokers the question for log dirs.

    Raises `InputError` for a file that is no sound snapshot; its replica lists may be unsound with `sound_lists` False.
    """
    if path is None:
        return with_usual_min_isr(session.admin, session.admin.snapshot(now=session.clock.now(), sizes=sizes))
    snapshot = decode_snapshot(session.read_input(path, SNAPSHOT_LIMIT_BYTES), str(path))
    check_snapshot(snapshot, str(path), sound_lists=sound_lists)
    return snapshot


def observe_storage(session: ObservingSession, wanted: ClusterSource, *, sound_lists: bool = True) -> SizedSnapshot:
    """Read the cluster (or the file) with sizes from where they are wanted.

    The snapshot in the answer has the wanted sizes in it; `facts` go to `storage_of`. A collector is contacted only
    where it is named, and the brokers are not asked for sizes then. Raises `TryLaterError` for sizes that
    are too old: collected ones after 60 minutes, those of a file only where an age is given, since it was named on
    purpose.
    """
    path, place = wanted.snapshot, wanted.sizes_place
    if wanted.sizes_source == FROM_BROKERS:
        snapshot = observe(session, path, sound_lists=sound_lists)
        facts = storage_facts(snapshot)
        if path is not None and wanted.metrics_age is not None:
            refuse_old(facts.taken_at, now=session.clock.now(), max_age_minutes=wanted.metrics_age)
        return SizedSnapshot(snapshot=snapshot, facts=facts)
    # The collector first: it is the part that is most often missing, and cheap to ask.
    with closing(
        session.storage_metrics(wanted.sizes_source, place, wanted.zk_metrics_prefix or METRICS_PREFIX)
    ) as metrics:
        reading = metrics.read()
    limit = DEFAULT_AGE_MINUTES if wanted.metrics_age is None else wanted.metrics_age
    refuse_old(reading.taken_at, now=session.clock.now(), max_age_minutes=limit)
    snapshot = observe(session, path, sound_lists=sound_lists, sizes=False)
    return SizedSnapshot(snapshot=with_metrics(snapshot, reading), facts=storage_facts(snapshot, reading))


def empty_snapshot() -> ClusterSnapshot:
    """What stands for the cluster when a map alone is worked on: no brokers, no topics, no time."""
    return ClusterSnapshot(
        cluster_id="none", taken_at=datetime.fromtimestamp(0, UTC), source="map string", brokers=(), topics=()
    )


WriteFiles = Callable[[Iterable[tuple[Path, bytes]]], None]


def save_plan(
    plan: Plan,
    destination: PlanDestination,
    program: str,
    write: WriteFiles,
    profile: str | None = None,
    *,
    series: Iterable[PartitionMap] = (),
    count: int = 1,
    changed: bool | None = None,
    frontier: Callable[[], Sequence[FrontierPoint]] = tuple,
) -> SavedPlan | None:
    """Write the `count` maps of `series` where maps are wanted, the plan, and its page; None when warnings forbid it.

    `profile` is the one in use, which the plan names beside its cluster.
    `changed` is what `--exit-code` goes by, when that is not whether the plan moves anything. `frontier` works out
    what other bands cost, for the page.
    """
    if plan.warnings and not destination.ignore_warns:
        return None
    maps = None
    if isinstance(destination, MapDestination) and (destination.wants_maps or count > 1):
        maps = save_maps(series, destination, write, count=count)
    path = str(destination.plan) if destination.plan else None
    if destination.plan is not None:
        write([(destination.plan, encode_plan(replace(plan, profile=profile)))])
    following = apply_command(program, plan, path)
    if destination.report is not None:
        write([(destination.report, report_page(plan, next_command=following, frontier=frontier()))])
    changes = bool(plan.moves or plan.dir_moves) if changed is None else changed
    code = ExitCode.CHANGES if destination.exit_code and changes else ExitCode.DONE
    return SavedPlan(maps=maps, path=path, next_command=following, code=code)


def save_maps(
    series: Iterable[PartitionMap], destination: MapDestination, write: WriteFiles, *, count: int = 1
) -> tuple[SavedMap, ...]:
    """Write a series of maps, each made when its turn comes; names end in `-phase<n>.json` when there are several."""
    folder = destination.out_path.rstrip("/") or destination.out_path
    prefix = "" if folder in ("", ".") else f"{folder.rstrip('/')}/"
    saved: list[SavedMap] = []

    def files() -> Iterator[tuple[Path, bytes]]:
        for phase, partition_map in enumerate(series):
            suffix = f"-phase{phase}" if count > 1 else ""
            for name, data, combined in map_files(partition_map, destination.out_file, suffix):
                saved.append(SavedMap(path=prefix + name, combined=combined, phase=phase))
                yield Path(prefix + name), data

    write(files())
    return tuple(saved)
