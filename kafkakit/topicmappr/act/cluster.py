"""Maps on the command line, and the files that planning writes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kafkakit.core.documents import decode_partition_map, encode_plan
from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, PartitionMap
from kafkakit.core.plan import Plan
from kafkakit.core.snapshot_rules import check_partition_map
from kafkakit.topicmappr.decide.map_files import SavedMap, map_files

WriteFile = Callable[[Path, bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where results go: a folder and an optional combined map for kafka-kit's files, the plan file, the report."""

    out_path: str = ""
    out_file: str = ""
    plan: Path | None = None
    report: Path | None = None
    skip_no_ops: bool = False

    def check(self) -> None:
        """Refuse a folder that does not exist before any work is done."""
        folder = Path(self.out_path or ".")
        if not folder.is_dir():
            raise UsageError(f"--out-path: {self.out_path} is not a folder", hint="create it first")
        for flag, path in (("--plan", self.plan), ("--report", self.report)):
            if path is not None and not path.absolute().parent.is_dir():
                raise UsageError(f"{flag}: the folder {path.absolute().parent} does not exist", hint="create it first")


def unobserved() -> ClusterSnapshot:
    """What stands for the cluster when a map alone is to be worked on: no brokers, no topics, no time."""
    return ClusterSnapshot(
        cluster_id="none", taken_at=datetime.fromtimestamp(0, UTC), source="map string", brokers=(), topics=()
    )


def read_map_string(text: str) -> PartitionMap:
    """Read `--map-string`; raises `InputError` with kafka-kit's words in front."""
    source = "Error parsing partition map"
    partition_map = decode_partition_map(text.encode("utf-8", "surrogatepass"), source)
    check_partition_map(partition_map, source)
    return partition_map


def save(
    plan: Plan, series: Iterable[PartitionMap], destination: Destination, write: WriteFile, *, count: int = 1
) -> list[SavedMap]:
    """Write a series of `count` maps, one at a time, and the plan; returns the map files.

    Names end in `-phase<n>.json` when there are several maps. The plan comes last: it means all is there.
    """
    prefix = destination.out_path if destination.out_path.endswith("/") else f"{destination.out_path}/"
    prefix = prefix if destination.out_path else ""
    saved: list[SavedMap] = []
    for phase, partition_map in enumerate(series):
        suffix = f"-phase{phase}" if count > 1 else ""
        for name, data, combined in map_files(partition_map, destination.out_file, suffix):
            write(Path(prefix + name), data)
            saved.append(SavedMap(path=prefix + name, combined=combined, phase=phase))
    if destination.plan is not None:
        write(destination.plan, encode_plan(plan))
    return saved
