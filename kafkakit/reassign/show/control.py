"""The result of a request to pause or to continue."""

from kafkakit.reassign.decide.control import RequestResult
from kafkakit.report.report import Report

COLUMNS = ("plan", "what", "run")


def pause_report(plan_file: str, result: RequestResult, *, paused: bool) -> Report:
    """What came of `reassign pause` or `continue`."""
    return Report(
        command="reassign pause" if paused else "reassign continue",
        data={"plan": plan_file, "paused": paused, "run": result.run, "next_commands": list(result.next_commands)},
        text="\n".join([result.words, *(["next:", *result.next_commands] if result.next_commands else [])]) + "\n",
        columns=COLUMNS,
        rows=((plan_file, "paused" if paused else "continued", result.run),),
    )
