"""The way in for applications: a client made from profiles, as the command line is.

from kafkakit.streams.client.connect import connect

with connect(profile="prod") as client:
    with client.producer("orders") as producer:
        producer.send(b"value", key=b"key").result(10)
    client.consumer("orders", "billing", handler=handle).run()

What applications import is in `__all__`.
"""

import logging
import os
from pathlib import Path

from kafkakit.config.read.environment import read_environment
from kafkakit.config.read.settings import Given, Settings, load_settings
from kafkakit.ports.stream_producer import StreamCluster
from kafkakit.streams.client.client import ClientParts, StreamClient
from kafkakit.streams.client.decide.figures import producer_datagrams, producer_exposition
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.decide.reconciliation import reconcile, seen_record
from kafkakit.streams.client.decide.send_errors import (
    BackPressureError,
    DualWriteError,
    LanePausedError,
    NotAcknowledgedError,
    ProducerClosedError,
    RecordRefusedError,
    RecordTooLargeError,
)
from kafkakit.streams.client.dual import DualPolicy
from kafkakit.streams.client.options import ConsumerHooks, ConsumerOptions
from kafkakit.streams.client.producer import RecordHooks
from kafkakit.wiring import open_control, open_group_member, open_log, open_stream_cluster, system_clock, this_process

__all__ = [
    "BackPressureError",
    "ConsumerHooks",
    "ConsumerOptions",
    "DualPolicy",
    "DualWriteError",
    "LanePausedError",
    "NotAcknowledgedError",
    "ProducerClosedError",
    "ProducerLimits",
    "RecordHooks",
    "RecordRefusedError",
    "RecordTooLargeError",
    "StreamClient",
    "connect",
    "producer_datagrams",
    "producer_exposition",
    "reconcile",
    "seen_record",
]
_LOG = logging.getLogger("kafkakit.streams.client")


def connect(profile: str | None = None, *, config: Path | None = None) -> StreamClient:
    """A client whose routes are in the control store of a profile, the current one unless named.

    A segment's cluster is reached by the profile that its route names, read from the same files. Secrets come from
    files and the environment; nothing is prompted for. `UsageError` and `InputError` for configuration that is missing
    or wrong.
    """
    given = Given(profile=profile, profile_origin="argument", config=config)
    settings = _settings(given)

    def open_cluster(name: str) -> StreamCluster:
        return open_stream_cluster(_settings(given.for_profile(name)))

    parts = ClientParts(
        store=open_control(settings),
        open_cluster=open_cluster,
        open_member=lambda name, group: open_group_member(_settings(given.for_profile(name)), group),
        open_log=lambda name: open_log(_settings(given.for_profile(name))),
        clock=system_clock(),
        random_bytes=os.urandom,
        holder=this_process("streams client"),
    )
    return StreamClient(parts)


def _settings(given: Given) -> Settings:
    return load_settings(given, read_environment(), warn=_LOG.warning, input_allowed=False)
