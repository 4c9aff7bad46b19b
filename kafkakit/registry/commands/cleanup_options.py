"""The options of cleaning up, once and beside the service; names, variables and defaults are kafka-kit's."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.execution.act.leases import Lease
    from kafkakit.registry.act.cleanup import CleanupPorts, PeriodicCleanup
    from kafkakit.registry.commands.options import TagPlace
    from kafkakit.registry.decide.cleanup import CleanupRules

LOCK_LIMIT_S = 15.0
"""How long a change waits for kafka-kit's lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupChoice:
    """When tags of what does not exist any more go."""

    tag_allowed_staleness: int = option(
        60,
        envvar="REGISTRY_TAG_ALLOWED_STALENESS",
        min=1,
        max=525_600,
        metavar="MINUTES",
        help="Delete the tags of an object that was marked as gone so long ago.",
    )
    max_share: str = option(
        "25%",
        "--cleanup-max-share",
        metavar="PERCENT",
        help="Do nothing where more of the tagged topics or brokers are gone than this; 3 may always be.",
    )

    def rules(self, *, force: bool = False) -> CleanupRules:
        """The values of the options; raises `UsageError`."""
        from kafkakit.core.quantities import parse_percent
        from kafkakit.registry.decide.cleanup import CleanupRules

        share = parse_percent(self.max_share, "--cleanup-max-share")
        return CleanupRules(staleness_s=60.0 * self.tag_allowed_staleness, max_share=share, force=force)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicChoice(CleanupChoice):
    """What a periodic cleanup deletes, and how often."""

    tag_cleanup_frequency: int = option(
        20,
        envvar="REGISTRY_TAG_CLEANUP_FREQUENCY",
        min=0,
        max=525_600,
        metavar="MINUTES",
        help="Clean up tags of what does not exist any more each so many minutes; 0: never.",
    )

    def start(self, cli: CliContext, place: TagPlace, stack: ExitStack) -> PeriodicCleanup | None:
        """The running cleanup, which ends with `stack`; None where it is not wanted."""
        from kafkakit.registry.act.cleanup import PeriodicCleanup

        rules = self.rules()
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
            rules,
            60.0 * self.tag_cleanup_frequency,
            cli.output.say,
        )
        cleanup.start()
        stack.callback(cleanup.stop)
        return cleanup


def cleanup_ports(session: ClusterSession, place: TagPlace) -> CleanupPorts:
    """The cluster and the store of tags."""
    from kafkakit.registry.act.cleanup import CleanupPorts

    return CleanupPorts(admin=session.admin, tags=place.open(session, LOCK_LIMIT_S), clock=session.clock)


def cleanup_lease(session: ClusterSession, place: TagPlace, command: str) -> Lease:
    """The right to clean up, in the store of the tags, so that all who share them share it."""
    from kafkakit.wiring import open_lease

    store, root = place.store(session)
    path, say = f"{root}/cleanup-lease", session.cli.output.say
    return open_lease(store, session.clock, session.cluster_id, command, say, path, "the cleanup of tags")


def held_cleanup(session: ClusterSession, place: TagPlace, stack: ExitStack) -> Callable[[], None]:
    """Take the lease until `stack` ends; what is to be called before each change. Raises `TryLaterError`."""
    lease = cleanup_lease(session, place, "registry cleanup")
    lease.acquire()
    stack.callback(lease.release)
    return lease.require_held
