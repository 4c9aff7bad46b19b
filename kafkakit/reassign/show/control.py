"""The result of a request to pause, to continue or to close."""

from kafkakit.reassign.decide.control import RequestResult
from kafkakit.report.report import Report

COLUMNS = ("plan", "what", "run")


def control_report(verb: str, plan_file: str, result: RequestResult, done: str) -> Report:
    """What came of `reassign pause`, `continue` or `close`; `done` is the word for it."""
    return Report(
        command=f"reassign {verb}",
        data={
            "plan": plan_file,
            "paused": done == "paused",
            "run": result.run,
            "next_commands": list(result.next_commands),
        },
        text="\n".join([result.words, *(["next:", *result.next_commands] if result.next_commands else [])]) + "\n",
        columns=COLUMNS,
        rows=((plan_file, done, result.run),),
    )
