"""Groups of options that commands of several tools share.

How a metrics service is reached; jobs submitted to Spark; where commands that answer queries read tags from; printing
records; what Kubernetes has of brokers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.core.errors import UsageError
from kafkakit.core.options import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.audit.api_act import DriverPorts
    from kafkakit.cli.context import CliContext
    from kafkakit.core.model import TagSet
    from kafkakit.execution.act.retrier import TagPlaces
    from kafkakit.kubernetes.brokers import ClusterPods
    from kafkakit.ports.services import HostQueries, RequestLimits, SampleQueries


ONLY_THIS_HOST = "{0} listens on this host only, unlike in kafka-kit; for other machines write 0.0.0.0{0}, with {1}"
"""What to say of an address without a host, which is every address in Go."""


class MetricsSource(StrEnum):
    """Where values come from."""

    BROKERS = "brokers"
    DATADOG = "datadog"
    PROMETHEUS = "prometheus"


def no_key(value: str | None) -> None:
    """Refuse a secret on the command line, where every user of the host can read it."""
    if value is not None:
        raise UsageError(
            "keys are not taken from the command line, which every user of the host can read",
            hint="use --api-key-file and --app-key-file, or kafka-kit's variables or DD_API_KEY and DD_APP_KEY",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsAccess:
    """Addresses and keys; kafka-kit's variables of keys begin with the tool's name."""

    api_key_file: Path | None = option(
        None, metavar="FILE", help="Datadog: the API key; else kafka-kit's variable or DD_API_KEY."
    )
    app_key_file: Path | None = option(
        None, metavar="FILE", help="Datadog: the application key; else kafka-kit's variable or DD_APP_KEY."
    )
    api_key: str | None = option(None, hidden=True, callback=no_key)
    app_key: str | None = option(None, hidden=True, callback=no_key)
    datadog_site: str = option(
        "datadoghq.com",
        envvar=["DATADOG_HOST", "DD_SITE"],
        metavar="SITE",
        help="Datadog: the site of the keys, or its address.",
    )
    prometheus_selector: str = option(
        "", metavar="MATCHERS", help="""Prometheus: added to the usual queries: 'namespace="kafka"'."""
    )
    prometheus_token_file: Path | None = option(None, metavar="FILE", help="Prometheus: a bearer token.")
    prometheus_user: str | None = option(None, metavar="NAME", help="Prometheus: basic authentication.")
    prometheus_password_file: Path | None = option(None, metavar="FILE", help="Prometheus: the user's password.")

    def open_prometheus(
        self,
        url: str,
        warn: Callable[[str], None],
        note_lack: Callable[[str], None],
        request_limits: RequestLimits | None = None,
    ) -> SampleQueries:
        """The server; `request_limits` None is the usual one."""
        from kafkakit.wiring import open_prometheus

        access = (self.prometheus_token_file, self.prometheus_user, self.prometheus_password_file)
        return open_prometheus(url, *access, warn, note_lack, request_limits)

    def open_datadog(
        self, span_s: int, warn: Callable[[str], None], prefix: str, request_limits: RequestLimits | None = None
    ) -> HostQueries:
        """The service, see `open_prometheus`; `prefix` is that of kafka-kit's variables."""
        from kafkakit.wiring import open_datadog_queries

        files = (self.api_key_file, self.app_key_file)
        return open_datadog_queries(self.datadog_site, *files, span_s, warn, prefix, request_limits)


def absolute_path(location: str) -> str:
    """A path of this host as an absolute one; URIs stay."""
    return location.rstrip("/") if "://" in location else str(Path(location).absolute())


def driver_ports(cli: CliContext) -> DriverPorts:
    """What driving Spark needs of this host."""
    from kafkakit.audit.api_act import DriverPorts
    from kafkakit.wiring import spark_drivers, system_clock, write_file

    return DriverPorts(drivers=spark_drivers(cli.folders.cache), clock=system_clock(), write_file=write_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagSource:
    """The profile's control store, or the znodes of kafka-kit's registry."""

    zk_tags_prefix: str = option(
        "",
        envvar="REGISTRY_ZK_TAGS_PREFIX",
        help="Read tags from kafka-kit's znodes below this path instead of the profile's control store.",
    )

    def read(self, session: TagPlaces) -> TagSet:
        """All tags; `TryLaterError` where the store does not answer."""
        from kafkakit.core.model import cluster_tags_root
        from kafkakit.execution.act.retrier import read_tags

        if self.zk_tags_prefix:
            return read_tags(session.znodes, self.zk_tags_prefix.strip("/"))
        return read_tags(session.control, cluster_tags_root(session.cluster_id))


NO_TAGS = TagSource()

MOST_BYTES = 64 << 20

MaxBytes = Annotated[
    int,
    typer.Option(
        "--max-bytes", metavar="N", min=0, max=MOST_BYTES, help="Cut keys, values and headers after this many bytes."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsFile:
    """What Kubernetes has of the brokers, in a file of kubectl."""

    pods: Path | None = option(
        None,
        "--pods",
        metavar="FILE",
        help="Also judge pods, nodes and volumes: what `kubectl get pods,nodes,pvc,pv,sc,sts -o json` printed; `-` is "
        "stdin.",
    )
    pods_of: str | None = option(
        None,
        "--pods-of",
        metavar="NAME",
        help="Cluster or StatefulSet in it, if there are several: NAME or NS/NAME.",
    )
    id_label: str | None = option(
        None,
        "--id-label",
        metavar="LABEL",
        help="Label of pods that has the broker's id. Default: the labels of Strimzi and Koperator, else the ordinal.",
    )
    first_id: int | None = option(
        None,
        "--first-id",
        min=0,
        help="Id of the broker with ordinal 0. Default: 0, or what Confluent's operator says.",
    )

    def source(self) -> Callable[[], ClusterPods] | None:
        """What reads the pods, again if the file has changed; None without a file.

        It is read once here: `InputError` for a file that cannot be used.
        """
        if self.pods is None:
            if self.pods_of is not None or self.id_label is not None or self.first_id is not None:
                raise UsageError("--pods-of, --id-label and --first-id are about the file of --pods")
            return None
        known: dict[float | None, ClusterPods] = {}
        read = partial(self._read, self.pods, known)
        read()
        return read

    def _read(self, file: Path, known: dict[float | None, ClusterPods]) -> ClusterPods:
        from datetime import UTC, datetime

        from kafkakit.kubernetes.brokers import PodChoice, pods_of_cluster
        from kafkakit.kubernetes.objects import MAX_OBJECTS_BYTES, read_objects
        from kafkakit.wiring import read_input

        is_stdin = str(file) == "-"
        changed_s = None if is_stdin or not file.is_file() else file.stat().st_mtime
        if changed_s not in known or (changed_s is None and not is_stdin):
            choice = PodChoice(cluster=self.pods_of, id_label=self.id_label, first_id=self.first_id)
            found = read_objects(read_input(file, MAX_OBJECTS_BYTES), "stdin" if is_stdin else str(file))
            at = None if changed_s is None else datetime.fromtimestamp(changed_s, UTC)
            pods = pods_of_cluster(found, choice, written_at=at)
            known.clear()
            known[changed_s] = pods
        return known[changed_s]
