"""One command's connections to one cluster: opened on first use, closed at the end; and the one ending of a command."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkakit.cli.context import CliContext
    from kafkakit.config.read.settings import Settings
    from kafkakit.execution.act.leases import ClusterAccess
    from kafkakit.ports.acting import Clock
    from kafkakit.ports.admin import ClusterAdmin
    from kafkakit.ports.data import DataPlane, GroupAdmin, LogReader
    from kafkakit.ports.services import StorageMetrics
    from kafkakit.ports.stores import ControlStore
    from kafkakit.report.report import Report


class ClusterSession:
    """What a command needs of one cluster; `read_only` gives clients that refuse to write; `groups_read_only` is
    the same for consumer groups."""

    def __init__(
        self, cli: CliContext, settings: Settings | None, stack: ExitStack, *, read_only: bool, groups_read_only: bool
    ) -> None:
        self.cli, self.read_only, self._groups_read_only = cli, read_only, groups_read_only
        self._settings, self._stack = settings, stack

    @cached_property
    def settings(self) -> Settings:
        """The settings of this cluster; read on first use, since what works on files alone needs none."""
        return self._settings or self.cli.settings

    @cached_property
    def clock(self) -> Clock:
        """The machine's clock."""
        from kafkakit.wiring import system_clock

        return system_clock()

    @cached_property
    def admin(self) -> ClusterAdmin:
        """The control side of the cluster."""
        from kafkakit.wiring import open_admin

        return self._stack.enter_context(closing(open_admin(self.settings, read_only=self.read_only)))

    @cached_property
    def groups(self) -> GroupAdmin:
        """The consumer groups of the cluster."""
        from kafkakit.wiring import open_groups

        return self._stack.enter_context(closing(open_groups(self.settings, read_only=self._groups_read_only)))

    @cached_property
    def log(self) -> LogReader:
        """Raw reads of the cluster's partitions."""
        from kafkakit.wiring import open_log

        return self._stack.enter_context(closing(open_log(self.settings)))

    @cached_property
    def data(self) -> DataPlane:
        """Producers and consumers of the cluster."""
        from kafkakit.wiring import open_data

        return open_data(self.settings)

    @cached_property
    def control(self) -> ControlStore:
        """The control store of the profile."""
        from kafkakit.wiring import open_control

        return self._stack.enter_context(closing(open_control(self.settings)))

    @cached_property
    def control_view(self) -> ControlStore:
        """The control store of the profile, for those who only show what is there."""
        from kafkakit.wiring import open_control_view

        return self._stack.enter_context(closing(open_control_view(self.settings)))

    def control_of(self, kind: str) -> ControlStore:
        """A control store of another kind than the profile's, such as `kafka` or `file`."""
        from kafkakit.wiring import open_control

        return self._stack.enter_context(closing(open_control(self.settings, kind)))

    @cached_property
    def znodes(self) -> ControlStore:
        """All of ZooKeeper's tree, for what kafka-kit keeps there."""
        from kafkakit.wiring import open_znodes

        return self._stack.enter_context(closing(open_znodes(self.settings)))

    def storage_metrics(self, source: str, addresses: str, prefix: str) -> StorageMetrics:
        """The sizes that a collector keeps, in the settings' ZooKeeper if none is named; the caller closes it."""
        from kafkakit.wiring import open_storage_metrics

        return open_storage_metrics(self.settings, source, addresses, prefix)

    def read_input(self, path: Path | str, limit_bytes: int) -> bytes:
        """A file's bytes, or those of stdin for `-`."""
        from kafkakit.wiring import read_input

        return read_input(path, limit_bytes)

    @cached_property
    def cluster_id(self) -> str:
        """The id of the live cluster."""
        self.cli.cluster_id = self.admin.cluster().cluster_id
        return self.cli.cluster_id

    def known_cluster_id(self, otherwise: str) -> str | None:
        """The one id that the settings allow, else that of the live cluster.

        None where it does not answer, with a warning that ends with `otherwise`.
        """
        from kafkakit.core.errors import TryLaterError

        try:
            return self.settings.cluster_id or self.cluster_id
        except TryLaterError as error:
            self.cli.cluster_id = ""
            self.cli.output.warn(f"{error.message}; {otherwise}")
            return None

    def lock(self, path: Path, what: str, command: str, *, shared: bool = False) -> None:
        """Keep other processes of this host from `what` until the session ends; `TryLaterError` names the holder.

        `shared`: those of other users, too, which come to the same file.
        """
        from kafkakit.adapters.host import this_holder
        from kafkakit.adapters.lock import FileLock

        self._stack.enter_context(FileLock(path, what, str(this_holder(command)), shared=shared))

    @property
    def requester(self) -> str:
        """Who leaves control requests from here: user and host."""
        from kafkakit.adapters.host import this_holder

        me = this_holder("")
        return f"{me.user} on {me.host}"

    def access(self, cluster_id: str | None = None) -> ClusterAccess:
        """The cluster without the right to change it."""
        from kafkakit.execution.act.leases import ClusterAccess

        return ClusterAccess(cluster_id=cluster_id or self.cluster_id, admin=self.admin, clock=self.clock)

    def host_lock(self, cluster_id: str) -> Path:
        """The file that a process of any user of this host locks while it may change the cluster."""
        from kafkakit.adapters.lock import common_folder

        return (self.settings.folders.locks or common_folder()) / f"kafkakit.{cluster_id}.lock"

    def claim(self, command: str, cluster_id: str | None = None, *, without_lease: bool = False) -> ClusterAccess:
        """Take the host's lock and the lease of the cluster until the session ends.

        Raises `TryLaterError` that names the holder while another process has either. `without_lease`: where the
        control store does not answer, the host's lock alone is taken, and the access has no token.
        """
        from kafkakit.core.errors import LeaseHeldError, OperationFailedError, TryLaterError
        from kafkakit.core.lease import DEFAULT_TTL_S
        from kafkakit.execution.act.leases import ClusterAccess, GuardedAdmin, HeldClock, lease_unknown
        from kafkakit.execution.act.run_journal import lock_path
        from kafkakit.wiring import open_lease

        admin, cluster_id = self.admin, cluster_id or self.cluster_id
        what = f"cluster {cluster_id}"
        self.lock(lock_path(self.settings.state_dir, cluster_id), what, command)
        self.lock(self.host_lock(cluster_id), what, command, shared=True)
        lease = open_lease(self.control, self.clock, cluster_id, command, self.cli.output.say)
        try:
            token = lease.acquire()
        except LeaseHeldError:
            raise
        except (TryLaterError, OperationFailedError) as error:
            if not without_lease:
                raise lease_unknown(cluster_id, error) from None
            self.cli.output.warn(f"carried on without the lease, other hosts are not kept away: {error.message}")
            return ClusterAccess(cluster_id=cluster_id, admin=admin, clock=self.clock)
        self._stack.callback(lease.release)
        return ClusterAccess(
            cluster_id=cluster_id,
            admin=GuardedAdmin(admin, lease.require_held),
            clock=HeldClock(self.clock, lease, DEFAULT_TTL_S / 10),
            token=token,
            control=self.control,
        )


class ProfileSessions:
    """The clusters of profiles, each opened on first use; `UsageError` for a profile that no file has."""

    def __init__(self, cli: CliContext, stack: ExitStack, *, read_only: bool) -> None:
        self._cli, self._stack, self._read_only = cli, stack, read_only
        self._opened: dict[str, ClusterSession] = {}

    def __call__(self, profile: str) -> ClusterSession:
        """The session of a profile."""
        if profile not in self._opened:
            opened = open_session(self._cli, read_only=self._read_only, settings=self._cli.load_settings(profile))
            self._opened[profile] = self._stack.enter_context(opened)
        return self._opened[profile]


@contextmanager
def open_session(
    cli: CliContext, *, read_only: bool = False, edits_commits: bool = False, settings: Settings | None = None
) -> Iterator[ClusterSession]:
    """A session on the cluster of the invocation, or of `settings`; every client is closed when it ends.

    With `edits_commits` commits of groups may be written even in a `read_only` session.
    """
    with ExitStack() as stack:
        groups_read_only = read_only and not edits_commits
        yield ClusterSession(cli, settings, stack, read_only=read_only, groups_read_only=groups_read_only)


@contextmanager
def open_access(
    cli: CliContext,
    command: str,
    *,
    cluster_id: str | None = None,
    dry_run: bool = False,
    must_claim: bool = True,
    without_lease: bool = False,
) -> Iterator[ClusterAccess]:
    """A session with the right to change the cluster; a dry run gets clients that refuse to write.

    `cluster_id` is read from the cluster when not given. Raises `TryLaterError` while another process has the right;
    without `must_claim` the access then has no token, as with `without_lease` where the control store does not answer.
    """
    from kafkakit.core.errors import TryLaterError

    with open_session(cli, read_only=dry_run) as session:
        try:
            if dry_run:
                access = session.access(cluster_id)
            else:
                access = session.claim(command, cluster_id, without_lease=without_lease)
        except TryLaterError:
            if must_claim:
                raise
            access = session.access(cluster_id)
        yield access


def finish(cli: CliContext, report: Report) -> int:
    """Write the report and return its exit code; raises its failure after it was written."""
    from kafkakit.cli.output import OutputFormat

    for warning in report.warnings:
        cli.output.warn(warning)
    if not report.refused or cli.output.output_format is OutputFormat.TEXT:
        cli.output.result(_naming_cluster(cli, report))
    if report.failure is not None:
        raise report.failure
    return int(report.code) or int(cli.output.page_failed)


def _naming_cluster(cli: CliContext, report: Report) -> Report:
    """The report with cluster and profile in its first lines, where it is about one cluster."""
    cluster_id = report.data.get("cluster_id") or cli.cluster_id
    if not cluster_id:
        return report
    settings = cli.__dict__.get("settings")  # what works on files alone has read none
    profile = report.data.get("profile")
    if not profile and settings and cli.cluster_id in (None, cluster_id):
        profile = settings.profile
    return report.naming(str(cluster_id), str(profile) if profile else None)
