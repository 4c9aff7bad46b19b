"""Where a planning command reads from and writes to, as its options give it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkakit.core.cluster_facts import FROM_BROKERS, FROM_FILE, FROM_ZOOKEEPER
from kafkakit.core.errors import UsageError
from kafkakit.core.selection import BrokerList
from kafkakit.ports.acting import Reporter


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """A live cluster, or the file `snapshot`; its sizes with the oldest age allowed in minutes, kafka-kit's znodes.

    `sizes_file` is the file of metricsfetcher. None stands for an option that was not given.
    """

    snapshot: Path | None = None
    sizes_from: str | None = None
    metrics_age: int | None = None
    zk_addr: str | None = None
    zk_metrics_prefix: str | None = None
    sizes_file: Path | None = None

    @property
    def sizes_source(self) -> str:
        """The word of `--sizes-from`, or what the options of kafka-kit's znodes mean without it.

        An age is one of these on a live cluster only, as a file has an age itself.
        """
        if self.sizes_from is not None:
            return self.sizes_from
        if self.sizes_file is not None:
            return FROM_FILE
        is_age_of_znodes = self.metrics_age is not None and self.snapshot is None
        return FROM_ZOOKEEPER if self.zk_metrics_prefix is not None or is_age_of_znodes else FROM_BROKERS

    @property
    def sizes_place(self) -> str:
        """The address or path where the collector's sizes are; `UsageError` for a file that is not named.

        Empty for the ZooKeeper of the settings.
        """
        if (self.sizes_source == FROM_FILE) != (self.sizes_file is not None):
            raise UsageError("--sizes-from file and --sizes-file PATH go together")
        return self.zk_addr or "" if self.sizes_file is None else str(self.sizes_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDestination:
    """The files for a plan and its page, whether they are written despite warnings, and what changes exit with."""

    plan: Path | None = None
    report: Path | None = None
    ignore_warns: bool = False
    exit_code: bool = False

    def check(self, may_replace: Callable[[Path], None] = lambda path: None) -> None:
        """Refuse a place that cannot be a file's, and a plan that `may_replace` refuses, before any work is done."""
        for flag, path in (("--plan", self.plan), ("--html", self.report)):
            if path is not None:
                check_folder(path.absolute().parent, flag)
        if self.plan is not None:
            may_replace(self.plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapDestination(PlanDestination):
    """Where a plan goes, and a folder for map files with an optional combined map."""

    out_path: str = ""
    out_file: str = ""

    def check(self, may_replace: Callable[[Path], None] = lambda path: None) -> None:
        """Refuse what cannot be a folder for maps, and the same."""
        check_folder(Path(self.out_path or ".").absolute())
        PlanDestination.check(self, may_replace)

    @property
    def wants_maps(self) -> bool:
        """True where maps are asked for, or nothing else is: a plan holds them already."""
        return self.plan is None or bool(self.out_path or self.out_file)


def check_folder(folder: Path, flag: str = "--out-path") -> None:
    """Refuse a place that is no folder; one that is missing is made when the first file is written."""
    present = next(place for place in (folder, *folder.parents) if place.exists())
    if not present.is_dir():
        raise UsageError(f"{flag}: {present} is not a folder")


def report_duplicates(brokers: BrokerList, reporter: Reporter) -> None:
    """Print the ids that stand in a list twice, in kafka-kit's words."""
    for duplicate in brokers.duplicates:
        reporter.say(f"ID {duplicate} supplied as duplicate, excluding")
