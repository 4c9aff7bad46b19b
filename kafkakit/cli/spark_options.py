"""The options of commands that submit a job to Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.audit.api import Backend, SparkChoice
from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from kafkakit.audit.api_act import DriverPorts
    from kafkakit.cli.context import CliContext


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where the job runs."""

    backend: Backend = option(Backend.LOCAL, "--backend", help="What runs the driver of Spark.")
    master: str | None = option(
        None, "--master", metavar="URL", help="Spark's master: local[N], spark://HOST:7077, yarn."
    )
    remote: str | None = option(None, "--remote", metavar="sc://HOST:PORT", help="A Spark Connect server.")
    conf: list[str] | None = option(
        None, "--conf", metavar="KEY=VALUE", help="A setting of Spark, never a secret. Repeatable."
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

    def choice(self) -> SparkChoice:
        """The options as a value."""
        return SparkChoice(
            backend=self.backend,
            master=self.master,
            remote=self.remote,
            conf=tuple(self.conf or ()),
            properties_file=absolute(self.properties_file) if self.properties_file else None,
            image=self.image,
            namespace=self.namespace,
        )


def absolute(location: str) -> str:
    """A path of this host as an absolute one; URIs stay."""
    return location.rstrip("/") if "://" in location else str(Path(location).absolute())


def driver_ports(cli: CliContext) -> DriverPorts:
    """What driving Spark needs of this host."""
    from kafkakit.audit.api_act import DriverPorts
    from kafkakit.wiring import spark_drivers, system_clock, write_file

    return DriverPorts(drivers=spark_drivers(cli.folders.cache), clock=system_clock(), write_file=write_file)
