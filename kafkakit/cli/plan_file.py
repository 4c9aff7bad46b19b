"""Plan files as arguments of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kafkakit.core.plan import Plan

PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]


def read_plan(plan_file: str) -> Plan:
    """The plan in a file, `-` for stdin; raises `InputError` for one that is not sound."""
    from kafkakit.core import plan_rules
    from kafkakit.wiring import read_input

    return plan_rules.read_plan(plan_file, read_input)
