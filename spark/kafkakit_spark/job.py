"""What a job is: a function from a run's inputs to frames."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from kafkakit.core.fleet_tables import JobSpec
from kafkakit_spark.store import SnapshotStore

STEPS = "steps"
"""The folder of a job's results that holds the frames of `JobInput.step` while it runs."""


@dataclass(frozen=True, kw_only=True)
class JobInput:
    """What a job reads: the store's frames and the run's parameters. Jobs write only their steps and read no clock."""

    spark: SparkSession
    store: SnapshotStore
    spec: JobSpec
    job: str

    def today(self, kind: str) -> DataFrame:
        """The rows of a kind on the day that is looked at."""
        return self.store.read(kind, (self.spec.snapshot_date,))

    def history(self, kind: str) -> DataFrame:
        """The rows of a kind on all dates of the run, with their `snapshot_date`."""
        return self.store.read(kind, self.spec.dates)

    def has(self, kind: str) -> bool:
        """True when a cluster of the day that is looked at has rows of a kind, by the manifests."""
        day = self.spec.snapshot_date
        return any(m.rows.get(kind) for (at, _), m in self.store.manifests.items() if at == day and m.is_complete)

    def step(self, name: str, frame: DataFrame) -> DataFrame:
        """The frame, computed now and read from a file from here on; the runner removes the file.

        For what is used more than once: Spark plans what follows over a table, not over all that led to it, which
        takes longer than the data of most fleets. A lost executor takes nothing of it along, unlike with a cache.
        """
        path = f"{self.spec.output.rstrip('/')}/{self.spec.run_id}/{self.job}/{STEPS}/{name}.parquet"
        frame.write.mode("overwrite").parquet(path)
        return self.spark.read.schema(frame.schema).parquet(path)

    def number(self, name: str, otherwise: float) -> float:
        """A threshold of the run's parameters."""
        return float(self.spec.parameters.get(f"{self.job}.{name}", otherwise))


@dataclass(frozen=True, kw_only=True)
class JobOutput:
    """What a job found: frames that the runner evaluates and writes.

    `findings` has the columns of `kafkakit.core.findings.JOB_COLUMNS`. `tables` are written beside them by name;
    `facts` are frames of one row whose columns become single numbers of the summary. `skipped` says in sentences
    what was not looked at.
    """

    findings: DataFrame
    tables: Mapping[str, DataFrame] = field(default_factory=dict)
    facts: tuple[DataFrame, ...] = ()
    skipped: tuple[str, ...] = ()


Job = Callable[[JobInput], JobOutput]
