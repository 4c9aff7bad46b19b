"""The options of commands that submit a job to Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.audit.api import Backend, SparkChoice

if TYPE_CHECKING:
    from kafkakit.audit.api_act import DriverPorts
    from kafkakit.cli.context import CliContext


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where the job runs."""

    backend: Annotated[Backend, typer.Option("--backend", help="What runs the driver of Spark.")] = Backend.LOCAL
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark's master: local[N], spark://HOST:7077, yarn."),
    ] = None
    remote: Annotated[
        str | None, typer.Option("--remote", metavar="sc://HOST:PORT", help="A Spark Connect server.")
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark, never a secret. Repeatable."),
    ] = None
    properties_file: Annotated[
        str | None,
        typer.Option("--properties-file", metavar="FILE", help="Spark's settings in a file, secrets among them."),
    ] = None
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="With k8s: an image with Spark and kafkakit[spark].")
    ] = None
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="With k8s: the namespace of the application.")
    ] = "default"

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
