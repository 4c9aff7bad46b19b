"""`kafkakit config watch|history`: how a cluster does, and what was changed."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.session import finish, open_session
from kafkakit.rollout.commands.options import RunName
from kafkakit.rollout.commands.run_options import WatchOptions


@with_option_groups
def watch(
    ctx: typer.Context,
    options: WatchOptions,
    windows: Annotated[int, typer.Option("--windows", min=1, max=1000, help="How many windows to watch.")] = 1,
) -> int:
    """Watch a cluster as a rollout does, and change nothing: what is usual first, then a verdict on each window.

    Exits with 1 where a window is worse than usual.

    Examples:

    \b
    kafkakit --profile prod config watch --baseline 10m --window 2m --windows 5
    """
    from kafkakit.rollout.act.reading import PartitionWatch
    from kafkakit.rollout.act.watching import HealthWatch, watch_windows
    from kafkakit.rollout.show.run import watch_report

    cli = cli_context(ctx)
    settings = options.settings(cli)
    with open_session(cli, read_only=True) as session:
        partitions = PartitionWatch(session.admin, session.clock)
        watching = HealthWatch(partitions, options.service(cli), session.clock, settings, cli.output)
        cluster_id, verdicts = session.cluster_id, watch_windows(watching, windows)
    return finish(cli, watch_report(cluster_id, verdicts))


def history(ctx: typer.Context, run: RunName = None) -> int:
    """List the rollouts of a cluster from this host's journals, or what one of them wrote and why it was taken back.

    Works while the cluster is down: where the profile, or -X, sets cluster_id, no cluster is asked, and where the
    cluster does not answer, the rollouts of all clusters are listed.

    Examples:

    \b
    kafkakit --profile prod config history
    kafkakit --profile prod config history 3f2a90c21b7d
    kafkakit -X cluster_id=vPzsQJBnTdC2kXxE7BJJtg config history
    """
    from kafkakit.rollout.act.journals import RolloutJournals
    from kafkakit.rollout.show.run import changes_report, history_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        cluster_id = session.known_cluster_id("these are this host's rollouts of all clusters")
        journals = RolloutJournals(session.settings.state_dir, cluster_id, session.clock)
    if run is not None:
        return finish(cli, changes_report(run, journals.named(run).rollout))
    found = [(path.stem, state) for path, state in journals.states()]
    return finish(cli, history_report(cluster_id, found, journals.damages()))
