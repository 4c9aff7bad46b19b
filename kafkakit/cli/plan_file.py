"""Plan files as arguments of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kafkakit.core.plan import Plan

PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]


def read_plan(plan_file: str) -> Plan:
    """The plan of a file, `-` for stdin; raises `InputError` for one that makes no sense."""
    from kafkakit.core.documents import PLAN_LIMIT_BYTES, decode_plan
    from kafkakit.core.plan_rules import check_plan
    from kafkakit.wiring import read_input

    source = "stdin" if plan_file == "-" else plan_file
    plan = decode_plan(read_input(plan_file, PLAN_LIMIT_BYTES), source)
    check_plan(plan, source)
    return plan
