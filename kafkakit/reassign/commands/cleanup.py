"""`kafkakit reassign cleanup`, and the desk that commands about a whole cluster work at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import Kit, kit_of

if TYPE_CHECKING:
    from kafkakit.execution.act.journal_file import DiskFile
    from kafkakit.ports.admin import ClusterAdmin
    from kafkakit.ports.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A cluster whose changes nobody else makes now, and this host's journals of it."""

    cluster_id: str
    admin: ClusterAdmin
    clock: Clock
    journals: tuple[DiskFile, ...]


@contextmanager
def open_desk(kit: Kit, command: str, *, read_only: bool = False) -> Iterator[Desk]:
    """Connect and take the cluster's lease; `TryLaterError` says who has it."""
    from contextlib import ExitStack, closing

    from kafkakit.adapters.lock import FileLock
    from kafkakit.adapters.own_process import this_holder
    from kafkakit.core.lease import DEFAULT_TTL_S
    from kafkakit.execution.act.lease_guard import GuardedAdmin, HeldClock
    from kafkakit.execution.act.run_journal import journal_files, lock_path
    from kafkakit.wiring import open_admin, open_control, open_lease, system_clock

    settings, clock = kit.settings, system_clock()
    with ExitStack() as stack:
        admin = stack.enter_context(closing(open_admin(settings, read_only=read_only)))
        cluster_id = admin.cluster().cluster_id
        who = str(this_holder(command))
        stack.enter_context(FileLock(lock_path(settings.state_dir, cluster_id), f"cluster {cluster_id}", who))
        store = stack.enter_context(closing(open_control(settings)))
        lease = open_lease(store, clock, cluster_id, command, kit.output.say)
        lease.acquire()
        stack.callback(lease.release)
        yield Desk(
            cluster_id=cluster_id,
            admin=GuardedAdmin(admin, lease.require_held),
            clock=HeldClock(clock, lease, DEFAULT_TTL_S / 10),
            journals=journal_files(settings.state_dir, cluster_id),
        )


def cleanup(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what is to be done, with a client that cannot write.")
    ] = False,
    unthrottle_running: Annotated[
        bool,
        typer.Option(
            "--unthrottle-running",
            help="Also lift throttles that running moves still need; these then go on at full speed.",
        ),
    ] = False,
) -> None:
    """Remove throttles that runs on this host left behind, and nothing else.

    What is ours is known from the journals, so the plan file is not needed. Rates go back to their earlier values,
    our list entries are taken out, lists that this leaves empty are deleted. What others set is shown and left
    alone. Throttles of moves that still run stay. Shows first; does it with a typed `yes`, or with --yes. Exits
    with 0 when nothing of ours is left, with 1 when something is, with 75 while another kafkakit changes the cluster.

    Examples:

    \b
    kafkakit --profile prod reassign cleanup
    kafkakit --profile prod reassign cleanup --yes
    """
    from kafkakit.core.errors import OperationFailedError
    from kafkakit.reassign.act.cleanup import CleanupRequest, clean
    from kafkakit.reassign.show.cleanup import COLUMNS, cleanup_data, cleanup_rows, render_cleanup
    from kafkakit.report.report import Report

    kit = kit_of(ctx)
    looking = dry_run or not (yes or kit.input_allowed)
    with open_desk(kit, "reassign cleanup", read_only=looking) as desk:
        request = CleanupRequest(
            confirm=None if looking else lambda: yes or kit.output.ask_typed(f"Change cluster {desk.cluster_id}?"),
            unthrottle_running=unthrottle_running,
        )
        cleaned = clean(desk.admin, desk.clock, desk.journals, kit.output, request)
    do_it = f"{kit.program} reassign cleanup --yes" + (" --unthrottle-running" if unthrottle_running else "")
    next_commands = (do_it,) if cleaned.verdict in ("planned", "declined", "incomplete") else ()
    kit.output.result(
        Report(
            command="reassign cleanup",
            data=cleanup_data(cleaned, next_commands),
            text=render_cleanup(cleaned, unthrottle_running=unthrottle_running),
            columns=COLUMNS,
            rows=cleanup_rows(cleaned),
        )
    )
    if cleaned.ok:
        return
    facts = [*cleaned.left, *(f"{d}, what its runs left is not known" for d in cleaned.before.damaged)]
    said = {
        "planned": "throttles of ours are left, nothing was changed",
        "declined": "not confirmed, nothing was changed",
    }.get(cleaned.verdict)
    raise OperationFailedError(said or f"cleanup is not complete: {facts[0]}", hint=next(iter(next_commands), None))
