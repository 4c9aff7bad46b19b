"""kafka-kit's flags that have another name here, or no meaning; hidden, so that help shows what is of use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option
from kafkakit.core.errors import UsageError

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext


def no_version(value: bool) -> None:
    """Refuse kafka-kit's flag of the version, which is an option of the program."""
    if value:
        raise UsageError("--version is an option of kafkakit itself", hint="kafkakit --version")


def no_keeping(value: bool) -> None:
    """Refuse kafka-kit's flag that keeps throttles: here they are the pacer's own, and go with its moves."""
    if value:
        raise UsageError(
            "--skip-auto-delete-throttles is not supported: throttles of the moves go with them",
            hint="those that others set are never removed; leave the flag out",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaKitFlags:
    """kafka-kit's connections; its mode and clean-up mean nothing, as Kafka's requests and a journal do both."""

    zk_prefix: str = option(
        "",
        envvar="AUTOTHROTTLE_ZK_PREFIX",
        metavar="PREFIX",
        help="Kafka before 2.4: the path of Kafka in ZooKeeper, where its moves stand.",
    )
    kafka_api_request_timeout: int | None = option(
        None, hidden=True, envvar="AUTOTHROTTLE_KAFKA_API_REQUEST_TIMEOUT", min=1, max=3600
    )
    kafka_native_mode: bool = option(False, "--kafka-native-mode", hidden=True, envvar="AUTOTHROTTLE_KAFKA_NATIVE_MODE")
    cleanup_after: int = option(60, hidden=True, envvar="AUTOTHROTTLE_CLEANUP_AFTER")
    skip_auto_delete_throttles: bool = option(
        False,
        "--skip-auto-delete-throttles",
        hidden=True,
        envvar="AUTOTHROTTLE_SKIP_AUTO_DELETE_THROTTLES",
        callback=no_keeping,
    )
    version: bool = option(False, "--version", hidden=True, envvar="AUTOTHROTTLE_VERSION", callback=no_version)

    def apply(self, cli: CliContext) -> None:
        """Take the connection for this invocation; to be called before the settings are in use."""
        if self.zk_prefix:
            cli.set_key("zookeeper.prefix", self.zk_prefix)
        if self.kafka_api_request_timeout is not None:
            cli.set_key("request_timeout", f"{self.kafka_api_request_timeout}s")
