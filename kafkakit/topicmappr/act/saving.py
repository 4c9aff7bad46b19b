"""The maps, plans and pages that planning writes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kafkakit.core.documents import encode_plan
from kafkakit.core.errors import ExitCode
from kafkakit.core.model import PartitionMap
from kafkakit.core.plan import Plan
from kafkakit.topicmappr.act.places import MapDestination, PlanDestination
from kafkakit.topicmappr.decide.frontier.trace import FrontierPoint
from kafkakit.topicmappr.decide.map_files import SavedMap, SavedPlan, apply_command, map_files
from kafkakit.topicmappr.show.page.sections import report_page

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
