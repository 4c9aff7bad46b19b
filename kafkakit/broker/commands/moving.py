"""`kafkakit broker drain`, `replace` and `decommission`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from kafkakit.broker.commands import options
from kafkakit.cli.command_classes import kit_of
from kafkakit.cli.command_line import given_words
from kafkakit.placement.choices import PlaceBy
from kafkakit.reassign.commands import options as runs
from kafkakit.reassign.commands.session import (
    DEFAULT_DISK_USE,
    DEFAULT_IN_EACH,
    DEFAULT_MOVES,
    DEFAULT_OUT_EACH,
    options_of,
)

if TYPE_CHECKING:
    from kafkakit.broker.decide.operation import Kind

_PLANNING = ("to", "placement", "min_rack_ids", "spread", "with_", "ignore_warns")


def drain(
    ctx: typer.Context,
    brokers: options.Ids,
    to: options.To = "",
    placement: options.Place = None,
    min_rack_ids: options.MinRackIds = 0,
    spread: options.Spread = False,
    ignore_warns: options.IgnoreWarns = False,
    replan: options.Replan = False,
    yes: runs.Yes = False,
    dry_run: runs.DryRun = False,
    throttle: runs.Throttle = None,
    throttle_broker: runs.ThrottleBroker = None,
    throttle_dirs: runs.ThrottleDirs = None,
    max_in: runs.MaxIn = DEFAULT_IN_EACH,
    max_out: runs.MaxOut = DEFAULT_OUT_EACH,
    max_moves: runs.MaxMoves = DEFAULT_MOVES,
    one_replica: runs.OneReplica = False,
    max_disk_use: runs.MaxDiskUse = DEFAULT_DISK_USE,
    disk_headroom: runs.DiskHeadroom = "0",
    ingest_sample: runs.IngestSample = "5s",
    wait_for_others: runs.Others = False,
    allow_drift: runs.AllowDrift = False,
    stall_timeout: runs.StallTimeout = "5m",
) -> None:
    """Empty brokers: leaderships first, then every replica, and make sure that none is left.

    Plans as `topicmappr drain` does, shows plan and time, asks, and carries it out as `reassign apply` does. Stop it
    at any time and run it again: it goes on where it was. Exits with 0 only when the brokers hold and lead nothing.

    Examples:

    \b
    kafkakit --profile prod broker drain 1004 --dry-run
    kafkakit --profile prod broker drain 1004 --throttle 20MB
    kafkakit --profile prod broker drain 1004,1007 --to 1001,1002,1003 --yes
    """
    from kafkakit.broker.decide.operation import Kind

    _move(ctx, Kind.DRAIN, locals())


def replace(
    ctx: typer.Context,
    old: options.Old,
    with_: options.New,
    placement: options.Place = None,
    min_rack_ids: options.MinRackIds = 0,
    replan: options.Replan = False,
    yes: runs.Yes = False,
    dry_run: runs.DryRun = False,
    throttle: runs.Throttle = None,
    throttle_broker: runs.ThrottleBroker = None,
    throttle_dirs: runs.ThrottleDirs = None,
    max_in: runs.MaxIn = DEFAULT_IN_EACH,
    max_out: runs.MaxOut = DEFAULT_OUT_EACH,
    max_moves: runs.MaxMoves = DEFAULT_MOVES,
    one_replica: runs.OneReplica = False,
    max_disk_use: runs.MaxDiskUse = DEFAULT_DISK_USE,
    disk_headroom: runs.DiskHeadroom = "0",
    ingest_sample: runs.IngestSample = "5s",
    wait_for_others: runs.Others = False,
    allow_drift: runs.AllowDrift = False,
    stall_timeout: runs.StallTimeout = "5m",
) -> None:
    """Give every replica of one broker to another, each in the same place of its list.

    The new broker also leads what the old one was the first to lead, once its copies are in sync. Exits with 4 when
    the new broker's rack or disks do not allow it, or when it has one of the copies already. Resumes like `drain`.

    Examples:

    \b
    kafkakit --profile prod broker replace 1004 --with 1009 --dry-run
    kafkakit --profile prod broker replace 1004 --with 1009 --throttle 20MB --yes
    """
    from kafkakit.broker.decide.operation import Kind

    _move(ctx, Kind.REPLACE, locals())


def decommission(
    ctx: typer.Context,
    brokers: options.Ids,
    to: options.To = "",
    placement: options.Place = None,
    min_rack_ids: options.MinRackIds = 0,
    spread: options.Spread = False,
    ignore_warns: options.IgnoreWarns = False,
    replan: options.Replan = False,
    yes: runs.Yes = False,
    dry_run: runs.DryRun = False,
    throttle: runs.Throttle = None,
    throttle_broker: runs.ThrottleBroker = None,
    throttle_dirs: runs.ThrottleDirs = None,
    max_in: runs.MaxIn = DEFAULT_IN_EACH,
    max_out: runs.MaxOut = DEFAULT_OUT_EACH,
    max_moves: runs.MaxMoves = DEFAULT_MOVES,
    one_replica: runs.OneReplica = False,
    max_disk_use: runs.MaxDiskUse = DEFAULT_DISK_USE,
    disk_headroom: runs.DiskHeadroom = "0",
    ingest_sample: runs.IngestSample = "5s",
    wait_for_others: runs.Others = False,
    allow_drift: runs.AllowDrift = False,
    stall_timeout: runs.StallTimeout = "5m",
) -> None:
    """Drain brokers, say whether they may be stopped for good, and name the last steps.

    They may when they hold no replica, lead nothing and are no controller, as far as they tell. Cautions name what
    the cluster cannot do without them. Stopping and unregistering stay by hand: the commands of Kafka's own tools
    are printed. Resumes like `drain`.

    Examples:

    \b
    kafkakit --profile prod broker decommission 1004 --dry-run
    kafkakit --profile prod broker decommission 1004 --throttle 20MB
    """
    from kafkakit.broker.decide.operation import Kind

    _move(ctx, Kind.DECOMMISSION, locals())


def ids_of(text: str, flag: str, most: int = 100) -> tuple[int, ...]:
    """Broker ids of a comma list, sorted; `UsageError` for anything else."""
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.errors import UsageError

    listed = parse_broker_list(text, flag)
    if listed.existing or listed.everything:
        raise UsageError(f"{flag}: name the brokers, -1 and -2 mean many of them")
    if len(listed.ids) > most:
        raise UsageError(f"{flag}: {len(listed.ids)} brokers are named, at most {most} can be")
    return tuple(sorted(listed.ids))


def _move(ctx: typer.Context, kind: Kind, given: Mapping[str, Any]) -> None:
    from kafkakit.broker.act.elections import Elections, Pace
    from kafkakit.broker.act.move_off import MoveOff
    from kafkakit.broker.commands.session import ReassignRunner, claimed, finish, open_site
    from kafkakit.broker.decide.operation import Operation, base_name
    from kafkakit.broker.decide.plans import Asked
    from kafkakit.broker.decide.request import MoveRequest
    from kafkakit.core.broker_list import BrokerList
    from kafkakit.core.errors import RefusedError

    kit = kit_of(ctx)
    brokers = ids_of(given["old"], "OLD", most=1) if "old" in given else ids_of(given["brokers"], "ID")
    onto = ids_of(given["with_"], "--with", most=1)[0] if "with_" in given else None
    receiving = BrokerList(ids=ids_of(given["to"], "--to")) if given.get("to") else None
    placement: PlaceBy | None = given["placement"]
    listed = ",".join(map(str, brokers))
    asked = Asked(
        brokers=brokers,
        onto=onto,
        receiving=receiving,
        placement=placement,
        min_rack_ids=given["min_rack_ids"],
        spread=given.get("spread", False),
        words={
            "command": f"broker {kind.value}",
            "brokers": listed,
            **({"throttle": given["throttle"]} if given["throttle"] else {}),
            **{name.strip("_").replace("_", "-"): str(given[name]) for name in _PLANNING if given.get(name)},
        },
    )
    again = " ".join([kit.program, "broker", kind.value, listed, *given_words(ctx), "--yes"])
    back = " ".join([*given_words(ctx, _PLANNING), "--yes"])
    if not (given["yes"] or given["dry_run"] or kit.input_allowed):
        raise RefusedError("confirmation needed, and nobody can be asked here", hint="pass --yes")
    with open_site(kit, base_name(kind, brokers, onto), dry_run=given["dry_run"]) as site:

        def undo_of(operation: Operation) -> str:
            from shlex import quote

            return (
                f"{kit.program} broker rejoin {listed} --restore {quote(str(site.records.path_of(operation)))} {back}"
            )

        request = MoveRequest(
            kind=kind,
            asked=asked,
            again=again,
            undo_of=undo_of,
            cleanup=f"{kit.program} reassign cleanup --yes",
            confirm=lambda question: given["yes"] or kit.output.ask_typed(f"{question} Cluster {site.cluster_id}."),
            bootstrap=kit.settings.bootstrap_servers,
            asks=not given["yes"],
            dry_run=given["dry_run"],
            replan=given["replan"],
            ignore_warns=given.get("ignore_warns", False),
        )
        runner = ReassignRunner(site, options_of(given), again=again, undo_of=undo_of)
        elections = Elections(lambda: claimed(kit, f"broker {kind.value}"), kit.output, Pace(), request.patience_s)
        outcome = MoveOff(site.admin, site.clock, kit.output, site.records, runner, elections, request).run()
    finish(kit, outcome)
