"""`kafkakit doctor`."""

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import Kit, KitCommand, kit_of, new_group
from kafkakit.core.tables import text_table
from kafkakit.report.report import Report

if TYPE_CHECKING:
    from kafkakit.doctor.act import Instruments

app = new_group("Check versions, configuration, reachability and rights.")


@app.command("doctor", cls=KitCommand)
def doctor(ctx: typer.Context) -> None:
    """Check the installation and, where an address is configured, the cluster: network, protocol, login and rights.

    Exits 0 without a failure, 75 when the cluster cannot be reached, 1 for any other failure.
    """
    from kafkakit.doctor.act import make_visit
    from kafkakit.doctor.decide import exit_code_of, judge

    kit = kit_of(ctx)
    with kit.output.progress("looking at the installation and the cluster"):
        checks = judge(make_visit(_instruments(kit)))
    columns = ("status", "check", "found", "hint")
    rows = tuple((str(check.status), check.name, check.detail, check.hint) for check in checks)
    lines = [text_table(columns[:3], [row[:3] for row in rows])]
    lines += dict.fromkeys(f"hint: {check.name}: {check.hint}" for check in checks if check.hint)
    code = exit_code_of(checks)
    kit.output.result(
        Report(
            command="doctor",
            data={"checks": [dict(zip(columns, row, strict=True)) for row in rows], "exit_code": int(code)},
            text="\n".join(lines),
            columns=columns,
            rows=rows,
        )
    )
    raise typer.Exit(int(code))


def _instruments(kit: Kit) -> "Instruments":
    from kafkakit import wiring
    from kafkakit.doctor.act import Configured, Instruments

    def load_configuration() -> Configured:
        settings = kit.settings
        profile = f"profile {settings.profile} (from {settings.choice.origin})" if settings.profile else "no profile"
        address = settings.origin_of("bootstrap_server")
        return Configured(
            origin=f"{profile}; address from {address}" if address else profile,
            bootstrap_servers=settings.bootstrap_servers,
            pinned_cluster=settings.cluster_id,
            load_security=lambda: wiring.usable_security(settings),
            control_store=settings.control_store,
        )

    return Instruments(
        versions=wiring.installed_versions(),
        extras=wiring.missing_packages(),
        find_java=wiring.describe_java,
        load_configuration=load_configuration,
        probe=wiring.probe_listener,
        open_admin=lambda: wiring.open_admin(kit.settings, read_only=True, check_pin=False),
        open_data=lambda: wiring.open_data(kit.settings),
        open_control=lambda: wiring.open_control(kit.settings),
    )
