"""`kafkakit doctor`."""

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.report.report import Remarks, Report, ResultTable

app = new_group("Check versions, configuration, reachability and rights.")


@app.command("doctor", cls=CliCommand)
def doctor(ctx: typer.Context) -> int:
    """Check the installation and, where an address is configured, the cluster: network, protocol, login and rights.

    Exits 0 without a failure, 75 when the cluster cannot be reached, 1 for any other failure.

    Examples:

    \b
    kafkakit doctor
    kafkakit --profile prod doctor -o json
    """
    from kafkakit import wiring
    from kafkakit.cli.session import finish
    from kafkakit.doctor.act import FactSources, collect_facts, doctor_settings
    from kafkakit.doctor.decide import exit_code_of, judge

    cli = cli_context(ctx)
    sources = FactSources(
        versions=wiring.installed_versions(),
        extras=wiring.missing_packages(),
        find_java=wiring.describe_java,
        load_configuration=lambda: doctor_settings(cli.settings, lambda: wiring.usable_security(cli.settings)),
        probe=wiring.probe_listener,
        open_admin=lambda: wiring.open_admin(cli.settings, read_only=True, check_pin=False),
        open_data=lambda: wiring.open_data(cli.settings),
        open_control=lambda: wiring.open_control(cli.settings),
    )
    with cli.output.progress("looking at the installation and the cluster"):
        facts = collect_facts(sources)
        checks = judge(facts)
    cli.cluster_id = facts.cluster.cluster_id if facts.cluster else None
    rows = tuple((str(check.status), check.name, check.detail, check.hint) for check in checks)
    table = ResultTable(("status", "check", "found", "hint"), rows)
    hints = dict.fromkeys(f"{check.name}: {check.hint}" for check in checks if check.hint)
    code = exit_code_of(checks)
    return finish(
        cli,
        Report(
            command="doctor",
            data={"checks": table.records(), "exit_code": int(code)},
            sections=(ResultTable(table.columns[:3], [row[:3] for row in rows]), Remarks("hint", hints)),
            table=table,
            code=code,
        ),
    )
