"""The way in for applications: a client made from profiles, as the command line is.

from kafkakit.streams.client.connect import connect

with connect(profile="prod") as client:
    with client.producer("orders") as producer:
        producer.send(b"value", key=b"key").result(10)
    client.consumer("orders", "billing", handler=handle).run()

What applications import is in `__all__`.
"""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from kafkakit import __version__
from kafkakit.config.read.environment import read_environment
from kafkakit.config.read.settings import GivenSettings, Settings, load_settings
from kafkakit.ports.streams import GroupConsumer, MemberRule, StreamCluster, TransactionalConsumer, TransactionRule
from kafkakit.streams.client.assigned_member import WorkerOptions
from kafkakit.streams.client.client import AssignedParts, ClientParts, StreamClient
from kafkakit.streams.client.dead_letters import BATCH_LIMIT_BYTES, ConsumerHooks, ConsumerOptions, LedgerPorts
from kafkakit.streams.client.decide.figures import ConsumerState
from kafkakit.streams.client.decide.outgoing import (
    BackPressureError,
    DualWriteError,
    LanePausedError,
    NotAcknowledgedError,
    ProducerClosedError,
    ProducerLimits,
    RecordRefusedError,
    RecordTooLargeError,
)
from kafkakit.streams.client.decide.partition_work import CommitRule
from kafkakit.streams.client.decide.work_rules import (
    DependencyDownError,
    DeserializationError,
    Mode,
    MoveRule,
    RejectError,
    RetryLaterError,
    RetryRule,
    WorkLimits,
    WorkRules,
)
from kafkakit.streams.client.guarded_member import GuardedMember
from kafkakit.streams.client.producer import DualPolicy, RecordHooks, RecordOutputs
from kafkakit.streams.client.watch import Answer, WatchOptions, WatchParts
from kafkakit.streams.model.pathways import Bucket, PayloadSender
from kafkakit.streams.model.record_identity import reconcile, seen_record
from kafkakit.wiring import (
    open_admin,
    open_assigned,
    open_control,
    open_data,
    open_group_member,
    open_log,
    open_page_server,
    open_spans,
    open_stream_cluster,
    open_transactional,
    own_settings,
    serialization_contexts,
    system_clock,
    this_process,
)

__all__ = [
    "BackPressureError",
    "CommitRule",
    "ConsumerHooks",
    "ConsumerOptions",
    "ConsumerState",
    "DependencyDownError",
    "DeserializationError",
    "DualPolicy",
    "DualWriteError",
    "LanePausedError",
    "MemberRule",
    "Mode",
    "MoveRule",
    "NotAcknowledgedError",
    "ProducerClosedError",
    "ProducerLimits",
    "RecordHooks",
    "RecordOutputs",
    "RecordRefusedError",
    "RecordTooLargeError",
    "RejectError",
    "RetryLaterError",
    "RetryRule",
    "StreamClient",
    "WatchOptions",
    "WorkLimits",
    "WorkRules",
    "WorkerOptions",
    "connect",
    "reconcile",
    "seen_record",
]
_LOG = logging.getLogger("kafkakit.streams.client")


def connect(
    profile: str | None = None,
    *,
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
    watch: WatchOptions | None = None,
    worker: WorkerOptions | None = None,
    librdkafka: Mapping[str, str | int | float | bool] | None = None,
) -> StreamClient:
    """A client whose routes are in the control store of a profile.

    A profile that is not named is that of `KAFKAKIT_PROFILE`, else the current one; a config file that is not named is
    that of `KAFKAKIT_CONFIG`, else those that the command line finds. A segment's cluster is reached by the profile
    that its route names, read from the same files. Secrets come from files and the environment, the process's own
    unless given; nothing is prompted for. `watch` says where figures and pathways go. With `worker`,
    consumers read what the Assigner gives this process (docs/assigner.md). `librdkafka` are settings for the clients of
    producers and of members of Kafka's groups; those that the client needs as they are cannot be given. `UsageError`
    and `InputError` for configuration that is missing or wrong.
    """
    known = read_environment() if environment is None else environment
    given = _given_settings(profile, config, known)
    settings = _settings(given, known)
    own = own_settings(librdkafka or {})

    def open_cluster(name: str) -> StreamCluster:
        return open_stream_cluster(_settings(given.for_profile(name), known), own)

    def open_member(name: str, group: str, rule: MemberRule) -> GroupConsumer:
        return open_group_member(_settings(given.for_profile(name), known), group, rule, own=own)

    def open_guarded(name: str, group: str, rule: MemberRule) -> GroupConsumer:
        there = _settings(given.for_profile(name), known)
        member = open_group_member(there, group, rule, fetches=False, own=own)
        log = open_log(there, committed=True)
        return GuardedMember(member, log, system_clock(), limit_bytes=BATCH_LIMIT_BYTES)

    def open_writing(name: str, group: str, rule: MemberRule, writing: TransactionRule) -> TransactionalConsumer:
        return open_transactional(_settings(given.for_profile(name), known), group, rule, writing, own)

    def open_ledger(name: str) -> LedgerPorts:
        there = _settings(given.for_profile(name), known)
        return LedgerPorts(admin=open_admin(there), data=open_data(there))

    parts = ClientParts(
        store=open_control(settings),
        open_cluster=open_cluster,
        open_member=open_member,
        open_guarded=open_guarded,
        open_log=lambda name: open_log(_settings(given.for_profile(name), known)),
        clock=system_clock(),
        random_bytes=os.urandom,
        holder=this_process("streams client"),
        open_ledger=open_ledger,
        contexts=serialization_contexts,
        open_transactional=open_writing,
        watch=_watch_parts(watch or WatchOptions()),
        assigned=None
        if worker is None
        else AssignedParts(
            open_assigned=lambda name, group: open_assigned(_settings(given.for_profile(name), known), group),
            options=worker,
            cpu_s=time.process_time,
            memory_bytes=_resident_bytes,
        ),
    )
    try:
        return StreamClient(parts)
    except BaseException:  # an address that is in use
        parts.store.close()
        raise


def _watch_parts(options: WatchOptions) -> WatchParts:
    closing = ExitStack()

    def serve(answer: Answer) -> str:
        from kafkakit.core.rpc import is_loopback, parse_listen

        server = open_page_server(options.listen, answer)
        closing.callback(server.close)
        if not is_loopback(parse_listen(options.listen)[0]):
            _LOG.warning("%s can be reached from other machines, without authentication or encryption", server.address)
        return server.address

    return WatchParts(
        options=options,
        hostname=socket.gethostname(),
        release=__version__,
        send_buckets=_bucket_sender(options.agent) if options.agent else None,
        send_datagrams=_datagram_sender(options.dogstatsd, closing) if options.dogstatsd else None,
        serve=serve if options.listen else None,
        open_spans=open_spans,
        close=closing.close,
    )


def _resident_bytes() -> int:
    from kafkakit.adapters.host import resident_bytes

    return resident_bytes()


def _bucket_sender(agent: str) -> Callable[[PayloadSender, Sequence[Bucket]], object]:
    from kafkakit.adapters.metrics_services import DatadogAgent

    return DatadogAgent(agent).send


def _datagram_sender(address: str, closing: ExitStack) -> Callable[[Sequence[bytes]], object]:
    from kafkakit.adapters.metrics_services import DogStatsd

    return closing.enter_context(contextlib.closing(DogStatsd(address))).send


def _given_settings(profile: str | None, config: Path | None, environment: Mapping[str, str]) -> GivenSettings:
    """What is named, as options of the command line: an argument is stronger than its variable, which may be empty."""
    file = environment.get("KAFKAKIT_CONFIG")
    config = Path(file) if config is None and file else config
    if profile is None and (named := environment.get("KAFKAKIT_PROFILE")):
        return GivenSettings(profile=named, profile_origin="env", config=config)
    return GivenSettings(profile=profile, profile_origin="argument", config=config)


def _settings(given: GivenSettings, environment: Mapping[str, str]) -> Settings:
    return load_settings(given, environment, warn=_LOG.warning, input_allowed=False)
