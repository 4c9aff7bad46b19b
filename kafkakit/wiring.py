"""From settings to adapters; each is imported inside its function, so that a command pays only for what it uses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkakit import __version__
from kafkakit.core.errors import MissingExtraError, RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from kafkakit.adapters.metrics_services import DatadogApi, DatadogQueries, PrometheusApi
    from kafkakit.adapters.rpc.http_listener import PageServer
    from kafkakit.adapters.rpc.messages import ProtobufCodec
    from kafkakit.adapters.zookeeper import ZooKeeperLock
    from kafkakit.config.read.settings import Settings
    from kafkakit.config.security import ProbedListener, Secret, Security
    from kafkakit.core.lease import Holder
    from kafkakit.core.programs import Versions
    from kafkakit.core.rpc import HttpPage, HttpRequest, ServiceProbes
    from kafkakit.core.storage_documents import Compression
    from kafkakit.execution.act.leases import Lease
    from kafkakit.ports.acting import Clock
    from kafkakit.ports.admin import ClusterAdmin
    from kafkakit.ports.data import DataPlane, GroupAdmin, LogReader
    from kafkakit.ports.services import (
        Answer,
        GrpcService,
        Machine,
        RequestLimits,
        RpcListener,
        SparkDrivers,
        StorageMetrics,
        StorageStore,
        TokenVerifier,
    )
    from kafkakit.ports.stores import ControlStore, RunStore, TableStore
    from kafkakit.ports.streams import (
        AssignedConsumer,
        GroupConsumer,
        MemberRule,
        Spans,
        StreamCluster,
        TransactionalConsumer,
        TransactionRule,
    )


def load_clients() -> None:
    """Import both clients of Kafka, before there are threads that would each import them on first use.

    Their modules import each other: of two threads that begin at different ones, one may get `_DeadlockError`.
    """
    from kafkakit.adapters.kafka.session import load_modules

    load_modules()


def open_admin(settings: Settings, *, read_only: bool = False, check_pin: bool = True) -> ClusterAdmin:
    """Connect to the cluster's control side; `read_only` gives a client that refuses to write.

    A profile that pins `cluster_id` is compared with the live cluster first (one request);
    `RefusedError` when they differ. Only a caller that judges the pin itself passes `check_pin=False`.
    """
    from kafkakit.adapters.kafka.admin import KafkaAdmin

    admin: ClusterAdmin = KafkaAdmin(
        settings.required_address,
        usable_security(settings),
        request_timeout_s=settings.request_timeout_s,
        bootstrap_timeout_s=min(10.0, settings.request_timeout_s),
        old_moves=lambda: read_old_moves(settings),
    )
    if check_pin and settings.cluster_id is not None:
        try:
            _refuse_other_cluster(admin, settings.cluster_id)
        except BaseException:
            admin.close()
            raise
    if not read_only:
        return admin
    from kafkakit.adapters.read_only import ReadOnlyAdmin

    return ReadOnlyAdmin(admin)


def open_data(settings: Settings) -> DataPlane:
    """Connect to the cluster's data side (producer, consumer)."""
    return open_data_of(settings.required_address, usable_security(settings))


def open_data_of(bootstrap_servers: str, security: Security) -> DataPlane:
    """Connect to the data side of a cluster that no settings name."""
    from kafkakit.adapters.kafka.data import KafkaData

    return KafkaData(bootstrap_servers, security)


def own_settings(given: Mapping[str, str | int | float | bool]) -> dict[str, Any]:
    """An application's settings of librdkafka, checked; `UsageError` for one that it cannot give."""
    from kafkakit.adapters.kafka.data import own_settings as checked

    return checked(given)


def open_stream_cluster(settings: Settings, own: Mapping[str, Any] | None = None) -> StreamCluster:
    """The way of streams' producers into the cluster; connects on first use. `own` comes from `own_settings`."""
    from kafkakit.adapters.kafka.stream_producer import KafkaStreamCluster

    return KafkaStreamCluster(settings.required_address, usable_security(settings), own)


def serialization_contexts() -> Callable[[str, str, list[tuple[str, bytes | None]]], object]:
    """What makes contexts for serializers, as confluent-kafka's own."""
    from kafkakit.adapters.kafka.stream_producer import serialization_contexts as found

    return found()


def open_group_member(
    settings: Settings, group: str, rule: MemberRule, *, fetches: bool = True, own: Mapping[str, Any] | None = None
) -> GroupConsumer:
    """A member of a consumer group on the cluster; it joins when it subscribes, and reads only if it `fetches`."""
    from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer

    return KafkaGroupConsumer(
        settings.required_address,
        usable_security(settings),
        group,
        session_timeout_ms=round(rule.session_s * 1000),
        instance=rule.instance,
        fetches=fetches,
        own=own,
    )


def open_transactional(
    settings: Settings, group: str, rule: MemberRule, writing: TransactionRule, own: Mapping[str, Any] | None = None
) -> TransactionalConsumer:
    """A member of a group that writes and commits in transactions; waits for the coordinator of its id."""
    from kafkakit.adapters.kafka.group_consumer import KafkaTransactionalConsumer

    return KafkaTransactionalConsumer(settings.required_address, usable_security(settings), group, rule, writing, own)


def open_assigned(settings: Settings, group: str) -> AssignedConsumer:
    """A reader of chosen partitions that commits for a group without being its member."""
    from kafkakit.adapters.kafka.group_consumer import KafkaAssignedConsumer

    return KafkaAssignedConsumer(settings.required_address, usable_security(settings), group)


def open_log(settings: Settings, *, committed: bool = False) -> LogReader:
    """Raw reads of the cluster's partitions, of committed data or of all; connects on first use."""
    from kafkakit.adapters.kafka.log import KafkaLog

    return KafkaLog(
        settings.required_address,
        usable_security(settings),
        # A reader that follows a cluster live has no use for answers that are older.
        request_timeout_s=min(10.0, settings.request_timeout_s),
        bootstrap_timeout_s=min(10.0, settings.request_timeout_s),
        committed=committed,
    )


def open_groups(settings: Settings, *, read_only: bool = False) -> GroupAdmin:
    """The cluster's consumer groups; connects on first use. `read_only` gives a client that refuses to write."""
    from kafkakit.adapters.kafka.groups import KafkaGroups
    from kafkakit.adapters.kafka.groups_newer import ConsumerGroupDescriber
    from kafkakit.adapters.read_only import ReadOnlyGroups

    address, security = settings.required_address, usable_security(settings)
    groups = KafkaGroups(
        address,
        security,
        ConsumerGroupDescriber(address, security, timeout_s=settings.request_timeout_s),
        request_timeout_s=settings.request_timeout_s,
        bootstrap_timeout_s=min(10.0, settings.request_timeout_s),
    )
    return ReadOnlyGroups(groups) if read_only else groups


def open_control(settings: Settings, kind: str = "") -> ControlStore:
    """The control store that the settings name, or that of another kind; connects on first use."""
    kind = kind or settings.control_store
    if kind == "kafka":
        from kafkakit.adapters.control_kafka import KafkaControl

        return KafkaControl(open_data(settings), lambda: open_admin(settings))
    if kind == "zookeeper":
        from kafkakit.adapters.zookeeper import ZooKeeperControl

        return ZooKeeperControl(settings.zookeeper_for("control_store is zookeeper"))
    from kafkakit.adapters.control_file import FileControl

    return FileControl(settings.state_dir / "control", write_file)


def open_control_view(settings: Settings) -> ControlStore:
    """The control store that the settings name, for those who only show what is there: nothing is written to it."""
    if settings.control_store != "kafka":
        return open_control(settings)
    from kafkakit.adapters.control_kafka import KafkaControl

    return KafkaControl(open_data(settings), lambda: open_admin(settings, read_only=True), only_looks=True)


def open_znodes(settings: Settings) -> ControlStore:
    """ZooKeeper's whole tree as a store: what is deleted is gone there; connects on first use."""
    from kafkakit.adapters.zookeeper import ZooKeeperControl

    return ZooKeeperControl(settings.zookeeper_for("znodes are to be used"), root="")


def read_old_moves(settings: Settings) -> bytes:
    """The moves of a cluster before Kafka 2.4, from its znode; empty for none. `UsageError` without a ZooKeeper."""
    from contextlib import closing

    from kafkakit.core.lease import parse_zookeeper_address, znode_path

    address = settings.zookeeper_for("moves of Kafka before 2.4 are read from ZooKeeper")
    chroot = znode_path(settings.zookeeper_prefix, "zookeeper.prefix")
    chroot = chroot or parse_zookeeper_address(address, "zookeeper.addr")[1]
    with closing(open_znodes(settings)) as store:
        found = store.get(f"{chroot}/admin/reassign_partitions".removeprefix("/"))
    return b"" if found is None else found.value


def ask_approver(command: str, plan: Mapping[str, object]) -> str:
    """The answer of an operator's command to a plan."""
    from kafkakit.adapters.processes import ask_approver as ask

    return ask(command, plan)


def draw_graph(lines: str) -> str:
    """The SVG of a graph in the language of Graphviz; empty where Graphviz is not installed."""
    from kafkakit.adapters.processes import draw_graph as draw

    return draw(lines)


def open_lease(
    store: ControlStore,
    clock: Clock,
    cluster_id: str,
    command: str,
    say: Callable[[str], None],
    path: str | None = None,
    what: str = "",
    about: str = "",
) -> Lease:
    """The claim of this process to change a cluster, not yet made; `command` names it for others, without secrets.

    `path`: another lease, called `what` in messages, on the same cluster, or on what `about` names.
    """
    from kafkakit.adapters.host import life_of, this_holder
    from kafkakit.execution.act.leases import Lease, lease_path

    name = about or f"cluster {cluster_id}"
    return Lease(
        store,
        clock,
        path or lease_path(cluster_id),
        this_holder(command),
        what=f"{what} of {name}" if what else name,
        life_of=life_of,
        say=say,
    )


def this_process(command: str) -> Holder:
    """How this process names itself in a control store; `command` is without secrets."""
    from kafkakit.adapters.host import this_holder

    return this_holder(command)


def open_run_store(location: str) -> RunStore:
    """A folder of audits or snapshots, on a disk or below a URI; `MissingExtraError` without pyarrow."""
    try:
        from kafkakit.adapters.arrow import RunFolder
    except ImportError:
        raise MissingExtraError("reading and submitting fleet audits", "spark", "pyarrow") from None
    return RunFolder(location)


def spark_drivers(cache_dir: Path) -> SparkDrivers:
    """Drivers of Spark on this host; what only this host can make is kept under `cache_dir`."""
    from kafkakit.adapters.host import holder_of, life_of, process_stat, this_holder
    from kafkakit.adapters.lock import FileLock
    from kafkakit.adapters.processes import find_java
    from kafkakit.adapters.spark import LocalDrivers

    return LocalDrivers(
        cache_dir=cache_dir,
        find_java=find_java,
        holder_of=holder_of,
        life_of=life_of,
        stat_of=process_stat,
        open_lock=lambda path, what: FileLock(path, what, str(this_holder("audit"))),
        write_file=write_file,
    )


def open_storage_metrics(settings: Settings, source: str, addresses: str, prefix: str) -> StorageMetrics:
    """The sizes that a collector keeps: in the file `addresses`, or in ZooKeeper, connected to on the first read.

    Without addresses it is the settings' ZooKeeper, see `open_storage_znodes`.
    """
    from kafkakit.core.cluster_facts import FROM_FILE

    if source == FROM_FILE:
        return open_storage_file(addresses)
    from kafkakit.adapters.zookeeper import ZooKeeperMetrics

    address, named_by = settings.znodes_of_sizes(addresses)
    brokers = ", or take sizes from the brokers (--sizes-from brokers)"
    return ZooKeeperMetrics(address, prefix, named_by=named_by, alternative=brokers)


def open_storage_file(path: str) -> StorageStore:
    """A file for a reading of sizes."""
    from kafkakit.adapters.metrics_storage import StorageFile

    return StorageFile(path, read_input, write_file)


def open_storage_znodes(
    settings: Settings, addresses: str | None, prefix: str, compression: Compression
) -> StorageStore:
    """kafka-kit's znodes, to be written; connects on first use.

    Without addresses they are in the settings' ZooKeeper, outside the chroot of Kafka, as kafka-kit has them; without
    that in the ZooKeeper of this host.
    """
    from kafkakit.adapters.zookeeper import ZooKeeperMetrics

    address, named_by = settings.znodes_of_sizes(addresses)
    return ZooKeeperMetrics(
        address, prefix, named_by=named_by, prefix_option="--zk-prefix", compression=compression, read_only=False
    )


def open_storage_topic(topic: str, data: DataPlane, admin: ClusterAdmin, compression: Compression) -> StorageStore:
    """A compacted topic for a reading of sizes."""
    from kafkakit.adapters.metrics_storage import StorageTopic

    return StorageTopic(topic, data, admin, compression=compression)


def open_prometheus(
    url: str,
    token_file: Path | None,
    user: str | None,
    password_file: Path | None,
    warn: Callable[[str], None],
    note_lack: Callable[[str], None],
    request_limits: RequestLimits | None = None,
) -> PrometheusApi:
    """A Prometheus server, with a bearer token or a user's password from a file; `note_lack` gets what answers lack."""
    from base64 import b64encode

    from kafkakit.adapters.metrics_services import PrometheusApi
    from kafkakit.config.security import Secret

    if (user is None) != (password_file is None) or (user is not None and token_file is not None):
        raise UsageError("give --prometheus-token-file, or --prometheus-user and --prometheus-password-file")
    authorization = None
    if token_file is not None:
        token = _secret("token", token_file, "--prometheus-token-file", (), warn).reveal().strip()
        authorization = Secret(f"Bearer {token}")
    elif user is not None:
        password = _secret("password", password_file, "--prometheus-password-file", (), warn)
        authorization = Secret("Basic " + b64encode(f"{user}:{password.reveal()}".encode()).decode())
    limits = {} if request_limits is None else request_limits._asdict()
    return PrometheusApi(url, authorization, warn=note_lack, **limits)


def open_datadog_queries(
    site: str,
    key_file: Path | None,
    application_key_file: Path | None,
    span_s: int,
    warn: Callable[[str], None],
    prefix: str,
    request_limits: RequestLimits | None = None,
) -> DatadogQueries:
    """Datadog's timeseries; keys are in files, else in kafka-kit's variables (`PREFIX_API_KEY`), else in Datadog's."""
    from kafkakit.adapters.metrics_services import DatadogQueries

    key = _secret("api_key", key_file, "--api-key-file", (f"{prefix}_API_KEY", "DD_API_KEY"), warn)
    names = (f"{prefix}_APP_KEY", "DD_APP_KEY")
    application_key = _secret("app_key", application_key_file, "--app-key-file", names, warn)
    limits = {} if request_limits is None else request_limits._asdict()
    return DatadogQueries(key, application_key, site, span_s=span_s, **limits)


def open_datadog(site: str, key_file: Path | None, warn: Callable[[str], None]) -> DatadogApi:
    """Datadog's API at a site, with the key that a file or else the variable DD_API_KEY holds."""
    from kafkakit.adapters.metrics_services import DatadogApi

    return DatadogApi(_secret("api_key", key_file, "--datadog-key-file", ("DD_API_KEY",), warn), site)


def open_datadog_events(site: str, key_file: Path | None, warn: Callable[[str], None], prefix: str) -> DatadogApi:
    """Datadog's API for events, with the key as `open_datadog_queries` finds it."""
    from kafkakit.adapters.metrics_services import DatadogApi

    return DatadogApi(_secret("api_key", key_file, "--api-key-file", (f"{prefix}_API_KEY", "DD_API_KEY"), warn), site)


def _secret(
    name: str, path: Path | None, origin: str, variables: tuple[str, ...], warn: Callable[[str], None]
) -> Secret:
    """The secret in a file, or else in the first of the variables that is set; `UsageError` when there is none."""
    from kafkakit.config.keys import Rank, SourcedValue
    from kafkakit.config.read.environment import read_environment
    from kafkakit.config.read.files import SecretReader

    environment = read_environment()
    named = next((variable for variable in variables if environment.get(variable)), "")
    if path is None and not named:
        hint = f"{origin} FILE" + (f", or the environment variable {' or '.join(variables)}" if variables else "")
        raise UsageError(f"no {name.replace('_', ' ')} is given", hint=hint)
    way, value = ("file", str(path)) if path is not None else ("env", named)
    reader = SecretReader(environment=environment, warn=warn, input_allowed=False)
    found = reader.fetch(name, {f"{name}_{way}": SourcedValue(value=value, origin=origin, rank=Rank.FLAG)})
    if found is None:
        raise UsageError(f"there is no {name}")
    return found


def usable_security(settings: Settings) -> Security:
    """How to connect, with every named TLS file looked into; `UsageError` naming what cannot be used."""
    security = settings.security
    if security.protocol.uses_tls:
        from kafkakit.adapters.tls import check_tls_files

        check_tls_files(security)
    return security


def open_spans() -> Spans | None:
    """Spans of OpenTelemetry; None where it is not installed, or the application has set no tracer provider."""
    try:
        from kafkakit.adapters.otel_spans import open_otel_spans
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        return None
    return open_otel_spans(__version__)


def system_clock() -> Clock:
    """The machine's clock."""
    from kafkakit.adapters.host import SystemClock

    return SystemClock()


def open_table_store(location: str) -> TableStore:
    """A store of snapshots as Parquet files; `MissingExtraError` without pyarrow."""
    try:
        from kafkakit.adapters.arrow import ParquetStore
    except ImportError:
        raise MissingExtraError("snapshots of fleets", "spark", "pyarrow") from None
    return ParquetStore(location)


def read_input(path: Path | str, limit_bytes: int) -> bytes:
    """Read a file, or stdin for `-`; `InputError` when it is missing, larger than the limit or no regular file."""
    from kafkakit.adapters import files

    return files.read_input(path, limit_bytes)


def write_file(path: Path, data: bytes, mode: int = 0o644, *, keeps_access: bool = False) -> None:
    """Write a file as `adapters.files.write_file` does."""
    from kafkakit.adapters import files

    files.write_file(path, data, mode, keeps_access=keeps_access)


def write_files(written: Iterable[tuple[Path, bytes]]) -> None:
    """Write many files as `write_file` does each, with fewer waits for the disk."""
    from kafkakit.adapters import files

    files.write_files(written)


def installed_versions() -> Versions:
    """The versions of kafkakit and of its dependencies."""
    from kafkakit import __version__
    from kafkakit.adapters import host as installed
    from kafkakit.core.documents import PLAN_KIND, SCHEMA_VERSION, SNAPSHOT_KIND
    from kafkakit.core.programs import PACKAGES, Versions

    return Versions(
        kafkakit=__version__,
        python=installed.python_version(),
        librdkafka=installed.librdkafka_version(),
        packages=installed.package_versions(PACKAGES),
        schemas={PLAN_KIND: SCHEMA_VERSION, SNAPSHOT_KIND: SCHEMA_VERSION},
    )


def missing_packages() -> dict[str, tuple[str, ...]]:
    """Each extra with the packages of it that are not installed."""
    from kafkakit.adapters import host as installed

    return installed.missing_of_extras("kafkakit")


def this_machine(cache_dir: Path) -> Machine:
    """The real machine: its processes, Java, jars and class archives (cached under `cache_dir`) and Kafka client."""
    import os

    from kafkakit.adapters.host import process_stat
    from kafkakit.adapters.jars import JarCache
    from kafkakit.adapters.kafka.admin import KafkaAdmin
    from kafkakit.adapters.processes import LocalProcesses, find_java
    from kafkakit.adapters.tls import CertificateMaker
    from kafkakit.ports.services import Machine

    return Machine(
        processes=LocalProcesses(process_stat),
        jars=JarCache(cache_dir),
        certificates=CertificateMaker(),
        clock=system_clock(),
        find_java=find_java,
        open_admin=lambda servers, security: KafkaAdmin(servers, security, request_timeout_s=15, bootstrap_timeout_s=5),
        random_bytes=os.urandom,
        class_archives=str(cache_dir / "class-archives"),
    )


def describe_java() -> str:
    """The Java that the sandbox would use, in words; `UsageError` when there is none."""
    from kafkakit.adapters.processes import find_java

    java = find_java()
    return f"Java {java.major} from {java.source} ({java.path})"


def probe_listener(host: str, port: int, timeout_s: float, security: Security) -> ProbedListener:
    """Look at one address from outside, trusting what `security` trusts; never raises for the network."""
    from kafkakit.adapters.kafka.listener_probe import probe_listener as probe

    return probe(host, port, timeout_s, security.ca_file, security.check_hostname)


def certificate_end(host: str, port: int, timeout_s: float, security: Security) -> datetime | None:
    """When the certificate that a broker shows at an address ends; None where it shows none."""
    from kafkakit.adapters.kafka.listener_probe import certificate_end as end

    return end(host, port, timeout_s, security)


def _refuse_other_cluster(admin: ClusterAdmin, pinned: str) -> None:
    live = admin.cluster().cluster_id
    if live != pinned:
        raise RefusedError(
            f"the profile pins cluster {pinned}, but the address answers as cluster {live}",
            hint="check the address and the profile's cluster_id",
        )


def registry_codec(package: str = "registry") -> ProtobufCodec:
    """The messages of one package of the registry's protocols; `MissingExtraError` without the extra."""
    try:
        from kafkakit.adapters.rpc.messages import DESCRIPTORS, ProtobufCodec
    except ImportError:
        raise MissingExtraError("the registry", "registry", "protobuf") from None
    return ProtobufCodec(DESCRIPTORS.read_bytes(), package)


def open_token_verifier(
    jwks_file: str, jwks_url: str, issuer: str, audience: str, leeway_s: float, report: Callable[[str], None]
) -> TokenVerifier:
    """What verifies JWTs by the keys of a file, which must be sound, or of an address, which may not answer yet.

    `report` gets a line when the keys cannot be read, and when they can again.
    """
    try:
        from kafkakit.adapters.jwt_tokens import MAX_SET_BYTES, JwtVerifier
    except ImportError:
        raise MissingExtraError("JWTs for the registry", "registry", "PyJWT") from None
    from kafkakit.adapters.metrics_services import HttpService

    if jwks_url:
        service = HttpService(jwks_url, "the address of JWT keys", {}, timeout_s=5, most_bytes=MAX_SET_BYTES)
        load: Callable[[], bytes] = lambda: service.request("")  # noqa: E731
    else:
        load = lambda: read_input(jwks_file, MAX_SET_BYTES)  # noqa: E731
    verifier = JwtVerifier(
        load, jwks_url or jwks_file, issuer=issuer, audience=audience, leeway_s=leeway_s, report=report
    )
    if jwks_file:
        verifier.refresh()
    else:
        verifier.try_refresh()
    return verifier


def open_page_server(
    listen: str,
    answer: Callable[[HttpRequest], HttpPage],
    names: Collection[str] = (),
    tls: Security | None = None,
    *,
    probes: ServiceProbes | None = None,
    extra: str = "serve",
) -> PageServer:
    """A server of pages, which listens from now on until it is closed; `MissingExtraError` without the extra.

    `names` are of this server, beside where it listens. One that listens on this host only answers no other names.
    """
    from kafkakit.core.rpc import is_loopback, parse_listen

    try:
        from kafkakit.adapters.rpc.http_listener import PageServer
    except ImportError as error:
        raise MissingExtraError("serving over HTTP", extra, _package(error, "uvicorn")) from None
    host, _ = parse_listen(listen)
    known = frozenset(name.lower() for name in (host, *names)) if is_loopback(host) else None
    return PageServer(listen, answer, names=known, tls=tls, probes=probes)


def open_http_listener(
    listen: str, answer: Answer, max_body_bytes: int, tls: Security | None, probes: ServiceProbes | None = None
) -> RpcListener:
    """An HTTP server, not yet started; `tls` is our key and certificate, and the authorities of clients."""
    try:
        from kafkakit.adapters.rpc.http_listener import HttpLimits, HttpListener
    except ImportError as error:
        raise MissingExtraError("the registry", "registry", _package(error, "uvicorn")) from None
    return HttpListener(listen, answer, tls=tls, limits=HttpLimits(body_bytes=max_body_bytes), probes=probes)


def threads_of_requests() -> Callable[[Callable[[], Any]], Awaitable[Any]]:
    """What runs a request that may block, in a thread that keeps no process from its end."""
    try:
        from kafkakit.adapters.rpc.http_listener import in_own_thread
    except ImportError as error:
        raise MissingExtraError("the registry", "registry", _package(error, "uvicorn")) from None
    return in_own_thread


def _package(error: ImportError, usual: str) -> str:
    """Which of the packages of an extra is missing."""
    name = (error.name or usual).partition(".")[0]
    return usual if name == "kafkakit" else name


def open_grpc_listener(
    listen: str, services: Sequence[GrpcService], max_body_bytes: int, tls: Security | None
) -> RpcListener:
    """A gRPC server, not yet started; `MissingExtraError` without the extra."""
    try:
        from kafkakit.adapters.rpc.grpc_listener import GrpcListener, GrpcTls
    except ImportError:
        raise MissingExtraError("the registry", "registry", "grpcio") from None
    texts = None
    if tls is not None and tls.key_file and tls.cert_file:
        texts = GrpcTls(
            key=read_input(tls.key_file, 1 << 20),
            certificate=read_input(tls.cert_file, 1 << 20),
            client_authorities=read_input(tls.ca_file, 1 << 20) if tls.ca_file else None,
        )
    return GrpcListener(listen, services, pool=registry_codec().pool, max_body_bytes=max_body_bytes, tls=texts)


def server_tls(key_file: Path, cert_file: Path, client_ca_file: Path | None) -> Security:
    """The files of a listener, looked into; `UsageError` naming what cannot be used."""
    from kafkakit.adapters.tls import check_tls_files
    from kafkakit.config.security import Protocol, Security

    security = Security(
        protocol=Protocol.SSL,
        ca_file=str(client_ca_file) if client_ca_file else None,
        cert_file=str(cert_file),
        key_file=str(key_file),
    )
    check_tls_files(security)
    return security


def open_registry_lock(addresses: str, clock: Clock, timeout_s: float) -> ZooKeeperLock:
    """kafka-kit's lock around writes, with its times; `timeout_s` is the usual limit of a request."""
    from kafkakit.adapters.zookeeper import ZooKeeperLock

    return ZooKeeperLock(addresses, clock.now, wait_s=timeout_s, ttl_s=3 * timeout_s)
