"""`kafkakit registry serve` and its options, and those of cleaning up, once and beside the service.

Names, variables and defaults are kafka-kit's if it has them.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.common_options import ONLY_THIS_HOST
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import DryRun
from kafkakit.core.errors import UsageError
from kafkakit.core.model import cluster_tags_root
from kafkakit.core.options import duration_option, option
from kafkakit.registry.decide.access import CallRates
from kafkakit.registry.decide.tags import CleanupRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.config.security import Security
    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.core.rpc import ServiceProbes
    from kafkakit.execution.act.journal_files import AuditLog
    from kafkakit.execution.act.leases import Lease
    from kafkakit.ports.services import RpcListener, TokenVerifier
    from kafkakit.ports.stores import ControlStore
    from kafkakit.registry.act.cluster import InventoryReader
    from kafkakit.registry.act.service import CallerFile, RegistryService, SignedTokens
    from kafkakit.registry.act.tag_store import TagStore
    from kafkakit.registry.act.upkeep import CleanupPorts, PeriodicCleanup
    from kafkakit.registry.act.v2 import Endpoints
    from kafkakit.registry.decide.access import Access, Caller, CallRates, JwtRules
    from kafkakit.registry.decide.inventory import Inventory
    from kafkakit.registry.decide.tags import CleanupRules
    from kafkakit.report.report import Report


MAX_TOKEN_FILE_BYTES = 1 << 20
PASSWORD_VARIABLE = "REGISTRY_KAFKA_SASL_PASSWORD"


def no_password(value: str | None) -> None:
    """Refuse a secret on the command line, where every user of the host can read it."""
    if value is not None:
        raise UsageError("passwords are not accepted on the command line", hint=f"set {PASSWORD_VARIABLE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaChoice:
    """How the cluster is reached, as kafka-kit names it; a profile serves as well."""

    bootstrap_servers: str | None = option(
        None, envvar="REGISTRY_BOOTSTRAP_SERVERS", metavar="HOST:PORT,...", help="Kafka."
    )
    kafka_security_protocol: str | None = option(
        None, envvar="REGISTRY_KAFKA_SECURITY_PROTOCOL", help="Security protocol: PLAINTEXT, SSL, SASL_SSL, ..."
    )
    kafka_ssl_ca_location: str | None = option(
        None, envvar="REGISTRY_KAFKA_SSL_CA_LOCATION", metavar="FILE", help="CA certificates, PEM."
    )
    kafka_sasl_mechanism: str | None = option(
        None, envvar="REGISTRY_KAFKA_SASL_MECHANISM", help="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512."
    )
    kafka_sasl_username: str | None = option(
        None, envvar="REGISTRY_KAFKA_SASL_USERNAME", help=f"The user; the password comes from {PASSWORD_VARIABLE}."
    )
    kafka_sasl_password: str | None = option(None, hidden=True, callback=no_password)
    kafka_version: str | None = option(None, envvar="REGISTRY_KAFKA_VERSION", hidden=True)

    def apply(self, cli: CliContext) -> None:
        """Make it the cluster of the invocation."""
        if self.bootstrap_servers:
            cli.use_bootstrap_server(self.bootstrap_servers, "--bootstrap-servers or REGISTRY_BOOTSTRAP_SERVERS")
        protocol, mechanism = self.kafka_security_protocol, self.kafka_sasl_mechanism
        given = {
            "security.protocol": protocol.upper() if protocol else None,
            "security.tls.ca_file": self.kafka_ssl_ca_location,
            "security.sasl.mechanism": mechanism.upper() if mechanism else None,
            "security.sasl.username": self.kafka_sasl_username,
            "security.sasl.password_env": PASSWORD_VARIABLE if self.kafka_sasl_username else None,
        }
        cli.take("override", [f"{key}={value}" for key, value in given.items() if value], "flag --kafka-...")


@dataclass(frozen=True, slots=True, kw_only=True)
class TagPlace:
    """Where tags are kept."""

    zk_addr: str | None = option(
        None,
        envvar="REGISTRY_ZK_ADDR",
        metavar="HOST:PORT,...",
        help="Keep tags in ZooKeeper, as kafka-kit does; without it they are in the profile's control store.",
    )
    zk_tags_prefix: str = option(
        "registry", envvar="REGISTRY_ZK_TAGS_PREFIX", help="The znode above tags in ZooKeeper."
    )
    zk_prefix: str = option("", envvar="REGISTRY_ZK_PREFIX", hidden=True)
    enable_locking: bool = option(
        False,
        "--enable-locking",
        envvar="REGISTRY_ENABLE_LOCKING",
        help="ZooKeeper: hold kafka-kit's lock around each write, while its program runs beside this one.",
    )

    def apply(self, cli: CliContext) -> None:
        """Make it the ZooKeeper of the invocation; raises `UsageError`."""
        if not self.zk_tags_prefix.strip("/"):
            raise UsageError("--zk-tags-prefix is empty")
        if self.enable_locking and not self.zk_addr:
            raise UsageError("--enable-locking needs --zk-addr")
        if self.zk_addr:
            cli.take("override", [f"zookeeper.addr={self.zk_addr}"], "flag --zk-addr")

    def store(self, session: ClusterSession) -> tuple[ControlStore, str]:
        """The store that tags are in, and the path above them."""
        if self.zk_addr:
            return session.znodes, self.zk_tags_prefix.strip("/")
        return session.control, cluster_tags_root(session.cluster_id)

    def open(self, session: ClusterSession, timeout_s: float) -> TagStore:
        """The store of tags; `timeout_s` is how long a write waits for the lock."""
        from kafkakit.registry.act.tag_store import TagStore
        from kafkakit.wiring import open_registry_lock

        store, root = self.store(session)
        if not self.enable_locking or not self.zk_addr:
            return TagStore(store, root)
        return TagStore(store, root, open_registry_lock(self.zk_addr, session.clock, timeout_s).held)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenChoice:
    """Where the service listens, and to whom."""

    http_listen: str = option(
        "127.0.0.1:8080", envvar="REGISTRY_HTTP_LISTEN", metavar="HOST:PORT", help="Address for HTTP; `none`: no HTTP."
    )
    http_name: list[str] | None = option(
        None,
        "--http-name",
        envvar="REGISTRY_HTTP_NAME",
        metavar="HOST",
        help="HTTP without TLS: a name of this server that is answered without a token, beside localhost.",
    )
    grpc_listen: str = option(
        "127.0.0.1:8090", envvar="REGISTRY_GRPC_LISTEN", metavar="HOST:PORT", help="Address for gRPC; `none`: no gRPC."
    )
    tls_cert_file: Path | None = option(
        None, envvar="REGISTRY_TLS_CERT_FILE", metavar="FILE", help="TLS: server certificate, PEM."
    )
    tls_key_file: Path | None = option(
        None, envvar="REGISTRY_TLS_KEY_FILE", metavar="FILE", help="TLS: server private key, PEM."
    )
    tls_client_ca_file: Path | None = option(
        None,
        envvar="REGISTRY_TLS_CLIENT_CA_FILE",
        metavar="FILE",
        help="TLS: CA certificates, PEM; clients need a certificate from one of them.",
    )
    allow_plaintext: bool = option(False, "--allow-plaintext", help="Let other machines connect without encryption.")
    token_file: Path | None = option(
        None, envvar="REGISTRY_TOKEN_FILE", metavar="FILE", help="Callers with the digests of their tokens and roles."
    )
    jwt_file: Path | None = option(
        None,
        envvar="REGISTRY_JWT_FILE",
        metavar="FILE",
        help="Whose signed tokens (JWT) are taken, and the roles that their claims give.",
    )
    no_token: bool = option(
        False, "--no-token", help="Let any process of this host change tags and topics, as kafka-kit does."
    )
    max_request_bytes: int = option(1 << 20, min=1024, max=64 << 20, metavar="BYTES", help="Largest request in bytes.")

    def access(self) -> Access:
        """Who may do what; raises `UsageError` for what would be open to other machines."""
        from kafkakit.core.rpc import is_loopback, parse_listen
        from kafkakit.registry.decide.access import Access
        from kafkakit.registry.decide.tags import CallRole

        listens = [text for text in (self.http_listen, self.grpc_listen) if text != "none"]
        if not listens:
            raise UsageError("--http-listen and --grpc-listen are both none")
        away = [text for text in listens if not is_loopback(parse_listen(text)[0])]
        has_certificates = self.tls_client_ca_file is not None
        if away and self.tls_key_file is None and not self.allow_plaintext:
            hint = "give --tls-cert-file and --tls-key-file, or --allow-plaintext"
            raise UsageError(f"{away[0]} can be reached from other machines, and is not encrypted", hint=hint)
        own = [*(self.http_name or ()), *(parse_listen(text)[0] for text in listens)]
        names = None if self.tls_key_file is not None else frozenset(name.lower() for name in own)
        has_tokens = self.token_file is not None or self.jwt_file is not None
        if away and not has_tokens and not has_certificates:
            raise UsageError(
                f"{away[0]} can be reached from other machines", hint="protect it with --token-file or --jwt-file"
            )
        if has_tokens:
            if self.no_token:
                given = "--jwt-file" if self.token_file is None else "--token-file"
                raise UsageError(f"{given} and --no-token exclude each other")
            return Access(by_digest=self._callers(), is_open_to_reads_from_here=True, names=names)
        everything = frozenset(CallRole) if self.no_token or has_certificates else frozenset({CallRole.READ})
        return Access(by_digest={}, anonymous=everything, names=names)

    def signed_tokens(self, report: Callable[[str], None]) -> SignedTokens | None:
        """What identifies the callers of JWTs; raises `InputError` and `UsageError`. `report`: see `JwtVerifier`."""
        from kafkakit.registry.act.service import SignedTokens
        from kafkakit.wiring import threads_of_requests

        if self.jwt_file is None:
            return None
        return SignedTokens(*self._verification(self.jwt_file, report), threads_of_requests())

    def caller_files(
        self, service: RegistryService, tokens: SignedTokens | None, report: Callable[[str], None]
    ) -> list[CallerFile]:
        """What is read again while the service runs: the token file, and the rules for JWTs with their file of keys."""
        from kafkakit.registry.act.service import CallerFile
        from kafkakit.wiring import read_input

        def take_tokens() -> None:
            service.access = replace(service.access, by_digest=self._callers())

        found: list[CallerFile] = []
        if self.token_file is not None:
            read = partial(read_input, self.token_file, MAX_TOKEN_FILE_BYTES)
            found.append(CallerFile(str(self.token_file), read, take_tokens, report))
        if tokens is not None and self.jwt_file is not None:
            file = self.jwt_file
            read = partial(self._jwt_content, file)
            found.append(CallerFile(str(file), read, lambda: tokens.use(*self._verification(file, report)), report))
        return found

    def _callers(self) -> dict[str, Caller]:
        from kafkakit.registry.decide.access import read_access
        from kafkakit.wiring import read_input

        file = self.token_file
        return {} if file is None else read_access(read_input(file, MAX_TOKEN_FILE_BYTES), str(file))

    def _verification(self, file: Path, report: Callable[[str], None]) -> tuple[TokenVerifier, JwtRules]:
        from kafkakit.registry.decide.access import read_jwt_rules
        from kafkakit.wiring import open_token_verifier, read_input

        rules = read_jwt_rules(read_input(file, MAX_TOKEN_FILE_BYTES), str(file))
        place = (rules.jwks_file, rules.jwks_url)
        return open_token_verifier(*place, rules.issuer, rules.audience, rules.leeway_s, report), rules

    def _jwt_content(self, file: Path) -> bytes:
        """The rules and, where they name a file of keys, that."""
        from kafkakit.registry.decide.access import read_jwt_rules
        from kafkakit.wiring import read_input

        data = read_input(file, MAX_TOKEN_FILE_BYTES)
        keys = read_jwt_rules(data, str(file)).jwks_file
        return data + (read_input(keys, MAX_TOKEN_FILE_BYTES) if keys else b"")

    def tls(self) -> Security | None:
        """The files of both listeners, looked into; raises `UsageError`."""
        from kafkakit.wiring import server_tls

        if self.tls_key_file is None or self.tls_cert_file is None:
            if self.tls_key_file or self.tls_cert_file or self.tls_client_ca_file:
                raise UsageError("--tls-cert-file and --tls-key-file belong together")
            return None
        return server_tls(self.tls_key_file, self.tls_cert_file, self.tls_client_ca_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChoice:
    """How much is answered, and from how old a reading."""

    rates: CallRates = CallRates()
    refresh_s: float = duration_option("15s", "--refresh", help="Time between two readings of the cluster and tags.")
    max_age_s: float = duration_option("5m", "--max-age", help="Reads fail when the last reading is older than this.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicChoice:
    """What a periodic cleanup deletes, and how often."""

    rules: CleanupRules = CleanupRules()
    tag_cleanup_frequency: int = option(
        20,
        envvar="REGISTRY_TAG_CLEANUP_FREQUENCY",
        min=0,
        max=525_600,
        metavar="MINUTES",
        help="Clean up tags of objects that are gone, every N minutes; 0: never.",
    )

    def first_report(self, session: ClusterSession, place: TagPlace) -> Report:
        """What the first cleanup of the service would do; it changes nothing."""
        from kafkakit.registry.act.upkeep import plan_cleanups
        from kafkakit.registry.report import cleanup_report, planned_steps

        plans = plan_cleanups(cleanup_ports(session, place), self.rules) if self.tag_cleanup_frequency else ()
        return cleanup_report(plans, planned_steps(plans), is_dry=True, command="registry serve")

    def start(self, cli: CliContext, place: TagPlace, stack: ExitStack) -> PeriodicCleanup | None:
        """The running cleanup, which ends with `stack`; None where it is not wanted."""
        from kafkakit.registry.act.upkeep import PeriodicCleanup

        if not self.tag_cleanup_frequency:
            return None
        clients: list[ClusterSession] = []
        clients_stack = stack.enter_context(ExitStack())  # closed after the thread that uses them has ended

        def session() -> ClusterSession:
            from kafkakit.cli.session import open_session

            if not clients:
                clients.append(clients_stack.enter_context(open_session(cli, read_only=True)))
            return clients[0]

        cleanup = PeriodicCleanup(
            lambda: cleanup_ports(session(), place),
            lambda: cleanup_lease(session(), place, "registry serve"),
            self.rules,
            60.0 * self.tag_cleanup_frequency,
            cli.output.say,
        )
        cleanup.start()
        stack.callback(cleanup.stop)
        return cleanup


@with_option_groups
def serve(
    ctx: typer.Context,
    kafka: KafkaChoice,
    place: TagPlace,
    listen: ListenChoice,
    limits: LimitChoice,
    cleaning: PeriodicChoice,
    audit_log: Annotated[
        Path | None,
        typer.Option(
            "--audit-log", metavar="FILE", help="A line of JSON before and after each change.", show_default=False
        ),
    ] = None,
    dry_run: DryRun = False,
) -> int:
    """Serve topics, brokers and tags over HTTP and gRPC.

    Calls, paths, messages and flags are the same as kafka-kit's registry, and so are the tags in ZooKeeper. Reads are
    answered from the last reading of the cluster, whose age each reply states; they include at once what was written
    through this process. It listens on this host only; other machines need TLS, and a token or a certificate. Without
    --token-file or --jwt-file only reads are answered, unless --no-token lets every process of the host write. With
    --dry-run it checks the options and files, shows what the first cleanup of tags would do, and ends.

    Examples:

    \b
    kafkakit --profile prod registry serve --token-file /etc/kafkakit/registry-callers.yaml
    kafkakit registry serve --bootstrap-servers kafka1:9092 --zk-addr zk1:2181 --no-token
    """

    from kafkakit.adapters.host import notify_service
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.rpc import ServiceProbes
    from kafkakit.registry.act.cluster import ReaderProcess
    from kafkakit.registry.act.service import RegistryServer, run_server
    from kafkakit.registry.decide.inventory import Inventory

    cli = cli_context(ctx)
    if not dry_run:
        cli.begin_service()
    kafka.apply(cli)
    place.apply(cli)
    for address in (listen.http_listen, listen.grpc_listen):
        if address.startswith(":"):
            cli.output.warn(ONLY_THIS_HOST.format(address, "TLS and --token-file"))
    access, tokens, tls = listen.access(), listen.signed_tokens(cli.output.warn), listen.tls()
    with ExitStack() as stack:
        session, inventory = stack.enter_context(open_session(cli, read_only=dry_run)), Inventory()
        _ = session.settings
        if dry_run:
            return finish(cli, cleaning.first_report(session, place))
        reader = ReaderProcess(reader_of(cli, place), limits.refresh_s)
        stack.callback(reader.stop)
        served = open_service(session, inventory, place, access, tokens, limits, audit_log)
        probes = ServiceProbes(notify_service, session.clock.monotonic, lambda: served.first.is_fresh)
        server = RegistryServer(served.first, inventory, open_listeners(served, listen, tls, probes), cli.output.say)
        cleaning.start(cli, place, stack)
        files = listen.caller_files(served.first, tokens, cli.output.say)
        run_server(server, reader, session.clock, probes.notify, files)
    return 0


def reader_of(cli: CliContext, place: TagPlace) -> Callable[[], InventoryReader]:
    """What opens a reader with connections of its own."""

    def open_reader() -> InventoryReader:

        from kafkakit.cli.session import open_session
        from kafkakit.registry.act.cluster import InventoryReader

        # Never closed: it is used until its process ends.
        session = ExitStack().enter_context(open_session(cli, read_only=True))
        return InventoryReader(session.admin, place.open(session, 0), session.clock)

    return open_reader


def open_audit_log(session: ClusterSession, file: Path | None = None) -> AuditLog:
    """The audit log in a file, without one that of the state directory."""
    from kafkakit.execution.act.journal_files import AuditLog, DiskFile

    return AuditLog(DiskFile(file or session.settings.state_dir / "registry" / "audit.jsonl"), session.clock)


def open_service(
    session: ClusterSession,
    inventory: Inventory,
    place: TagPlace,
    access: Access,
    tokens: SignedTokens | None,
    limits: LimitChoice,
    audit_log: Path | None,
) -> Endpoints:
    """The service on the session's cluster, in both versions."""
    from kafkakit.execution.act.retrier import mark_cordoned
    from kafkakit.registry.act.cluster import Writes
    from kafkakit.registry.act.local_calls import translate_offsets, translate_with_intervals
    from kafkakit.registry.act.service import RegistryService, ServicePorts
    from kafkakit.registry.act.v2 import PartsV2, serve_both
    from kafkakit.registry.decide.access import Admission
    from kafkakit.registry.report import registry_page
    from kafkakit.wiring import registry_codec, threads_of_requests

    tags = place.open(session, limits.rates.timeout_s)
    warn = session.cli.output.warn

    def mark(snapshot: ClusterSnapshot) -> ClusterSnapshot:
        return mark_cordoned(snapshot, lambda: session.control_view, warn, session.admin)

    writes = Writes(session.admin, tags, session.clock, inventory, mark)
    ports = ServicePorts(
        codec=registry_codec(),
        writes=writes,
        translate=partial(translate_offsets, session.data),
        audit=open_audit_log(session, audit_log),
        clock=session.clock,
        report=session.cli.output.warn,
        in_thread=threads_of_requests(),
        tokens=tokens,
    )
    first = RegistryService(inventory, ports, access, Admission(limits.rates), max_age_s=limits.max_age_s)
    parts = PartsV2(
        inventory=inventory,
        writes=writes,
        tags=tags,
        codec=registry_codec("registry.v2"),
        health_codec=registry_codec("grpc.health.v1"),
        page=partial(registry_page, session.settings.profile or ""),
        translate=partial(translate_with_intervals, session.data),
    )
    return serve_both(first, parts)


def open_listeners(
    served: Endpoints, listen: ListenChoice, tls: Security | None, probes: ServiceProbes
) -> list[tuple[str, RpcListener]]:
    """The listeners that are wanted, by name, not yet started."""
    from kafkakit.wiring import open_grpc_listener, open_http_listener

    found: list[tuple[str, RpcListener]] = []
    size = listen.max_request_bytes
    if listen.grpc_listen != "none":
        found.append(("gRPC", open_grpc_listener(listen.grpc_listen, served.grpc_services, size, tls)))
    if listen.http_listen != "none":
        found.append(("HTTP", open_http_listener(listen.http_listen, served.http, size, tls, probes)))
    return found


LOCK_LIMIT_S = 15.0
"""How long a change waits for kafka-kit's lock."""


def cleanup_ports(session: ClusterSession, place: TagPlace) -> CleanupPorts:
    """The cluster and the store of tags."""
    from kafkakit.registry.act.upkeep import CleanupPorts

    return CleanupPorts(admin=session.admin, tags=place.open(session, LOCK_LIMIT_S), clock=session.clock)


def cleanup_lease(session: ClusterSession, place: TagPlace, command: str) -> Lease:
    """The right to clean up, in the store of the tags, so that all who share them share it."""
    from kafkakit.core.lease import cleanup_lease as cleanup_path
    from kafkakit.wiring import open_lease

    store, root = place.store(session)
    path, say = cleanup_path(root), session.cli.output.say
    return open_lease(store, session.clock, session.cluster_id, command, say, path, "the cleanup of tags")


def held_cleanup(session: ClusterSession, place: TagPlace, stack: ExitStack) -> Callable[[], None]:
    """Take the lease until `stack` ends; what is to be called before each change. Raises `TryLaterError`."""
    lease = cleanup_lease(session, place, "registry cleanup")
    lease.acquire()
    stack.callback(lease.release)
    return lease.require_held
