"""How audits are started: the command line and environment of a driver with each backend, and a daily schedule.

A schedule collects a fleet and audits it each day; it is checked, and from it follow the commands that this takes. This
module loads no heavy library, for `kafkakit fleet --help` loads it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.options import REPEATED, not_typed, option, parsed_option, required_option, texts

if TYPE_CHECKING:
    from kafkakit.core.programs import Launch, SparkTools

ALL = "all"
JOBS: Mapping[str, str] = {
    "segments": "Audit log segments: rolling, retention, times, offsets, epochs, indexes, checksums, dead files.",
    "retention": "Audit how long data really stays, and what handles and maps that costs.",
    "drift": "Audit configuration against files, brokers, peers, mirrors, yesterday and other versions.",
    "capacity": "Audit when disks are full, and what the loss of a broker or a zone needs.",
    "hotspots": "Audit partitions and brokers that carry far more than their peers.",
    "bombs": "Audit batches that expand beyond what clients can decode.",
    "lag": "Audit the history of consumer lag in time.",
    "mirror": "Audit topics that two clusters hold for records that one lacks.",
}
"""The jobs with their help, in the order of `audit all`; `kafkakit_spark.runner` has the same names."""
LOCAL_MASTER = "local[*]"
# Memory is taken as it is needed; the third of this that Spark has by default does not sort millions of segments.
# A cluster keeps its own number of shuffle partitions.
SHORT_RUN_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the JVM of a run of few rows, most of whose time goes into compiling: measured in docs/figures.md."""
SHORT_RUN_ROWS = 3_000_000
ROWS_OF_PARTITION = 500_000
"""What one task of a local run takes, up to `LOCAL_CONF`'s number of them."""
PARTITIONS = "spark.sql.shuffle.partitions"
LOCAL_CONF: Mapping[str, str] = {"spark.driver.memory": "3g", PARTITIONS: "8"}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SUBMIT_CONF: Mapping[str, str] = {
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # see spark/kafkakit_spark/runner.py
}
_SECRET = re.compile(r"secret|password|passwd|token|credential|access\.?key|private|\.sas\.", re.IGNORECASE)
_IN_FILE = "name it in a file with mode 0600 and pass --properties-file, or leave it to the environment"


class Backend(StrEnum):
    """What runs the jobs: `auto` becomes `sail` or `local` (`settle_choice`)."""

    AUTO = "auto"
    SAIL = "sail"
    LOCAL = "local"
    SPARK_SUBMIT = "spark-submit"
    CONNECT = "connect"
    K8S = "k8s"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoice:
    """Where a job runs: `conf` are `KEY=VALUE` settings of Spark, `image` and `namespace` are for Kubernetes.

    `rows` are those of the store, once they are known.
    """

    backend: Backend = option(
        Backend.AUTO,
        "--backend",
        help="What runs the audits; auto: sail (no Java) for what fits this host, or local Spark.",
    )
    master: str | None = option(
        None, "--master", metavar="URL", help="Spark's master: local[N], spark://HOST:7077, yarn."
    )
    remote: str | None = option(None, "--remote", metavar="sc://HOST:PORT", help="A Spark Connect server.")
    conf: tuple[str, ...] = parsed_option(
        None,
        "--conf",
        parse=texts,
        typed=REPEATED,
        metavar="KEY=VALUE",
        help="A setting of Spark, never a secret. Repeatable.",
    )
    properties_file: str | None = option(
        None, "--properties-file", metavar="FILE", help="Spark's settings in a file, secrets among them."
    )
    image: str | None = option(
        None, "--image", metavar="IMAGE", help="With k8s: an image with Spark and kafkakit[spark]."
    )
    namespace: str = option(
        "default", "--namespace", metavar="NAME", help="With k8s: the namespace of the application."
    )
    rows: int | None = not_typed(None)

    @property
    def sparks_own(self) -> tuple[str, ...]:
        """The options that are given and mean something to Spark alone."""
        given = {"--master": self.master, "--conf": self.conf, "--properties-file": self.properties_file}
        return tuple(name for name, value in given.items() if value)

    def settings(self) -> dict[str, str]:
        """The settings by key. Raises `UsageError` for what is none and `RefusedError` for what looks like a secret."""
        found = {}
        for text in self.conf:
            key, equals, value = text.partition("=")
            if not equals or not key.startswith("spark."):
                raise UsageError(f"--conf {key!r:.80} is not spark.KEY=VALUE")
            if _SECRET.search(key):
                raise RefusedError(
                    f"--conf {key:.80} looks like a secret, which every process here could read", hint=_IN_FILE
                )
            found[key] = value
        return found

    def check(self) -> None:
        """Raise `UsageError` or `RefusedError` for choices that contradict each other or would show a secret."""
        settings = self.settings()
        if self.backend is Backend.SAIL and self.sparks_own:
            raise UsageError(
                f"{', '.join(self.sparks_own)}: settings of Spark, which --backend sail does not run",
                hint="leave them out, or choose --backend local",
            )
        if self.master is not None and self.backend not in (Backend.AUTO, Backend.LOCAL, Backend.SPARK_SUBMIT):
            raise UsageError(f"--master is not for --backend {self.backend}")
        if self.backend in (Backend.AUTO, Backend.LOCAL) and not (self.master or "local").startswith("local"):
            raise UsageError(f"--master {self.master} needs --backend spark-submit")
        if (self.remote is not None) != (self.backend is Backend.CONNECT):
            raise UsageError("--remote and --backend connect belong together", hint="--remote sc://HOST:15002")
        if self.remote is not None and "token=" in self.remote:
            raise RefusedError(
                "--remote holds a token, which every process here could read",
                hint="export SPARK_CONNECT_AUTHENTICATE_TOKEN instead",
            )
        if settings.get("spark.submit.deployMode", "client") != "client":
            raise UsageError(
                "spark.submit.deployMode=cluster would run the driver on a host without the run's folder",
                hint="run kafkakit on a host of the cluster, or use --backend k8s",
            )
        if self.properties_file is not None and self.backend in (Backend.CONNECT, Backend.K8S):
            raise UsageError(f"--properties-file is not for --backend {self.backend}")
        if (self.image is not None) != (self.backend is Backend.K8S):
            raise UsageError(
                "--image and --backend k8s belong together", hint="an image with Spark and kafkakit[spark] in it"
            )


SAIL_ROWS = 50_000_000
"""The rows up to which Sail was measured to be faster than Spark on one host: docs/figures.md."""
SAIL_BYTES, SAIL_BYTES_OF_ROW = 600_000_000, 200
"""The memory that Sail takes, and that each row of the store takes at most, measured in docs/figures.md."""
ONLY_SPARK: Mapping[str, str] = {"lag.kafka": "reads Kafka with Spark's own source"}
"""The parameters with which a job does what Sail cannot, with why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What the choice of an engine follows from; `rows` are those of the run's dates by the manifests.

    `is_here` says that store and results are folders of this host, `free_bytes` is the memory that is available.
    """

    rows: int
    is_here: bool
    has_sail: bool
    free_bytes: int | None
    parameters: tuple[str, ...] = ()


def settle_choice(choice: SparkChoice, facts: EngineFacts) -> tuple[SparkChoice, str]:
    """The choice with `auto` made one of `sail` and `local`, and why; what was chosen by the user stays."""
    choice = replace(choice, rows=facts.rows)
    if choice.backend is not Backend.AUTO:
        return choice, "chosen with --backend"
    reason = _why_spark(choice, facts)
    if reason:
        return replace(choice, backend=Backend.LOCAL), reason
    return replace(choice, backend=Backend.SAIL), f"{facts.rows:,} rows fit this host; --backend local runs Spark"


def _why_spark(choice: SparkChoice, facts: EngineFacts) -> str:
    """Why Sail cannot or should not run it; empty where it can."""
    if choice.sparks_own:
        return f"{' and '.join(choice.sparks_own)} given"
    if not facts.is_here:
        return "store or results are not folders of this host"
    for name in facts.parameters:
        if name in ONLY_SPARK:
            return f"{name} {ONLY_SPARK[name]}"
    if not facts.has_sail:
        return "pysail is not installed; pip install 'kafkakit[audit]' gives small stores an engine without Java"
    if facts.rows > SAIL_ROWS:
        return f"{facts.rows:,} rows are more than the {SAIL_ROWS:,} up to which Sail is faster"
    if facts.free_bytes is not None and SAIL_BYTES + facts.rows * SAIL_BYTES_OF_ROW > facts.free_bytes:
        return f"{facts.rows:,} rows may need more memory than is free; Spark writes to disk what does not fit"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFiles:
    """What a driver needs of its run's folder: its program, its arguments, the zip of the code."""

    name: str
    main: str
    arguments: tuple[str, ...]
    code: str


def launch_of(choice: SparkChoice, tools: SparkTools, files: DriverFiles) -> Launch:
    """The process to start here. Kubernetes starts none: see `report.exports.spark_application`."""
    from kafkakit.core.programs import Launch

    environment = {
        "SPARK_HOME": tools.spark_home,
        "JAVA_HOME": tools.java_home,
        "PYSPARK_PYTHON": tools.python,
        "PYSPARK_DRIVER_PYTHON": tools.python,
        # Local workers import what the driver imports.
        "PYTHONPATH": files.code,
    }
    program = (files.main, *files.arguments)
    if choice.backend is Backend.SAIL:
        own = {"PYTHONPATH": files.code, "RUST_LOG": "error"}
        return Launch(command=(tools.python, *program, "--sail"), environment=own)
    if choice.backend is Backend.CONNECT:
        options = ("--remote", str(choice.remote), "--code", files.code, *_conf_words(choice.settings()))
        return Launch(command=(tools.python, *program, *options), environment=environment)
    master = choice.master or LOCAL_MASTER
    is_local = master.startswith("local")
    if choice.backend is Backend.LOCAL:
        # With Spark's own variable, since a session reads no file of settings.
        words = ("--properties-file", choice.properties_file) if choice.properties_file else ()
        environment["PYSPARK_SUBMIT_ARGS"] = shlex.join((*words, "pyspark-shell"))
        own = {} if words else local_conf(choice.rows)
        options = ("--master", master, *_conf_words({**own, **choice.settings()}))
        return Launch(command=(tools.python, *program, *options), environment=environment)
    settings = {
        **SUBMIT_CONF,
        **(local_conf(choice.rows) if is_local and not choice.properties_file else {}),
        **choice.settings(),
    }
    file = ("--properties-file", choice.properties_file) if choice.properties_file else ()
    head = (f"{tools.spark_home}/bin/spark-submit", "--master", master, "--name", files.name)
    options = (*head, "--py-files", files.code, *file, *_conf_words(settings))
    return Launch(command=(*options, *program), environment=environment)


def local_conf(rows: int | None) -> dict[str, str]:
    """The settings of a driver on this host: tasks by the rows, and a JVM that compiles little for few of them."""
    if rows is None:
        return dict(LOCAL_CONF)
    most = int(LOCAL_CONF[PARTITIONS])
    found = {**LOCAL_CONF, PARTITIONS: str(min(most, max(2, rows // ROWS_OF_PARTITION)))}
    return {**found, JAVA_OPTIONS: SHORT_RUN_JAVA} if rows <= SHORT_RUN_ROWS else found


def launch_line(launch: Launch) -> str:
    """The process as a line for a shell, its environment first."""
    words = [f"{name}={shlex.quote(value)}" for name, value in launch.environment.items()]
    return " ".join([*words, shlex.join(launch.command)])


def _conf_words(settings: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for key, value in settings.items() for word in ("--conf", f"{key}={value}"))


_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")


class Scheduler(StrEnum):
    """What starts the audits."""

    SYSTEMD = "systemd"
    CRON = "cron"
    K8S = "k8s"


@dataclass(frozen=True, slots=True, kw_only=True)
class DailySchedule:
    """Collect and audit a fleet each day at a time.

    Places are absolute paths or URIs, `at` is `HH:MM` in UTC (of
    the machine with cron). `metrics_file` gets the figures. `image`, `namespace`, `secret` (its keys become environment
    variables), `config_map` and `secret_files` are for Kubernetes. Raises `UsageError` for what cannot be scheduled.
    """

    store: str = required_option("--store", metavar="DIR|URI", help="The store of snapshots.")
    results: str = required_option("--results", metavar="DIR|URI", help="Folder in which run folders are created.")
    fleet: str | None = option(None, "--fleet", metavar="FILE", help="The clusters, as a fleet file.")
    profiles: str | None = option(None, "--profiles", metavar="A,B", help="The clusters, as names of profiles.")
    at: str = option("03:30", "--at", metavar="HH:MM", help="Time of day in UTC; with cron in the machine's time zone.")
    job: str = option(ALL, "--job", metavar="NAME", help="The audit, or all.")
    metrics_file: str | None = option(
        None, "--metrics-file", metavar="FILE", help="Write the figures for Prometheus here."
    )
    name: str = option("kafkakit-audits", "--name", metavar="NAME", help="Name of the unit.")
    program: str = option(
        "/usr/local/bin/kafkakit", "--program", metavar="PATH", help="The program as the scheduler finds it."
    )
    image: str | None = option(
        None, "--image", metavar="IMAGE", help="With k8s: an image with kafkakit[spark] and Java."
    )
    namespace: str = option("default", "--namespace", metavar="NAME", help="With k8s: the namespace.")
    secret: str | None = option(
        None, "--secret", metavar="NAME", help="With k8s: a secret whose keys become environment variables."
    )
    config_map: str = option(
        "kafkakit-config",
        "--config-map",
        metavar="NAME",
        help="With k8s: the ConfigMap with the files of /etc/kafkakit.",
    )
    secret_files: str = option(
        "kafkakit-secrets",
        "--secret-files",
        metavar="NAME",
        help="With k8s: the Secret with the files of /run/secrets/kafkakit.",
    )

    def __post_init__(self) -> None:
        if not self.collect:
            raise UsageError("no clusters are named", hint="--fleet FILE or --profiles NAME,...")
        if self.job != ALL and self.job not in JOBS:
            raise UsageError(f"there is no audit {self.job!r:.40}", hint=f"one of {', '.join(JOBS)}, or {ALL}")
        texts = [*self.collect, self.store, self.results, self.program, self.metrics_file or "/"]
        if any(not text.isprintable() for text in texts):
            raise UsageError("a path or name holds a character that does not print")
        for what, place in (("store", self.store), ("results", self.results), ("metrics file", self.metrics_file)):
            if place is not None and not place.startswith("/") and "://" not in place:
                raise UsageError(f"the {what} {place:.80} is not absolute", hint="write a path that begins with /")
        if not _TIME.fullmatch(self.at):
            raise UsageError(f"{self.at!r:.40} is not a time of day", hint="write it like 03:30")
        for text in (self.name, self.namespace, self.secret or "a", self.config_map, self.secret_files):
            if not _NAME.fullmatch(text):
                raise UsageError(
                    f"{text!r:.80} is not a valid name", hint="use small letters, digits and - between them"
                )
        if self.image is not None and not _IMAGE.fullmatch(self.image):
            raise UsageError(f"{self.image!r:.80} is not an image name")

    @property
    def collect(self) -> tuple[str, ...]:
        """The options that choose the clusters."""
        chosen = (("--fleet", self.fleet), ("--profiles", self.profiles))
        return tuple(word for flag, value in chosen if value is not None for word in (flag, value))

    @property
    def hour_and_minute(self) -> tuple[int, int]:
        """The time as numbers."""
        hour, _, minute = self.at.partition(":")
        return int(hour), int(minute)

    @property
    def script(self) -> str:
        """The commands for a POSIX shell, in one line.

        Clusters that could not be read (exit code 1) do not keep the others from being audited, but the run ends
        with 1. Findings do not make it fail: they are in the report.
        """
        collect = [self.program, "fleet", "collect", *self.collect, "--to", self.store]
        audit = [self.program, "audit", self.job, "--input", self.store, "--output", self.results, "--fail-on", "never"]
        steps = [shlex.join(collect), 'c=$?; [ "$c" -le 1 ] || exit "$c"', f'{shlex.join(audit)} || exit "$?"']
        if self.metrics_file is not None:
            metrics = [self.program, "audit", "metrics", self.results, "--output-file", self.metrics_file]
            steps.append(f'{shlex.join(metrics)} || exit "$?"')
        return "; ".join([*steps, 'exit "$c"'])
