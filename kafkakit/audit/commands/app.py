"""`kafkakit audit`: the commands of the group."""

from inspect import cleandoc

from kafkakit.audit.commands.results import show_diff, show_report, write_fixes, write_metrics
from kafkakit.audit.commands.run import audit
from kafkakit.audit.commands.runs import cancel_run, fetch_run, list_runs, show_logs, show_status
from kafkakit.audit.commands.unit import print_unit
from kafkakit.audit.decide.request import ALL, JOBS
from kafkakit.cli.command_classes import CliCommand, new_group

GROUP_HELP = "Audit whole fleets with Spark: submit jobs, follow runs, read results."
app = new_group(GROUP_HELP)

_HELPS = {**JOBS, ALL: "Run all audits."}
_ADDED = [
    app.command(name, cls=CliCommand, short_help=text, help=f"{text}\n\n{cleandoc(audit.__doc__ or '')}")(audit)
    for name, text in _HELPS.items()
]
app.command("status", cls=CliCommand)(show_status)
app.command("list", cls=CliCommand)(list_runs)
app.command("logs", cls=CliCommand)(show_logs)
app.command("fetch", cls=CliCommand)(fetch_run)
app.command("cancel", cls=CliCommand)(cancel_run)
app.command("report", cls=CliCommand)(show_report)
app.command("diff", cls=CliCommand)(show_diff)
app.command("metrics", cls=CliCommand)(write_metrics)
app.command("fixes", cls=CliCommand)(write_fixes)
app.command("unit", cls=CliCommand)(print_unit)
