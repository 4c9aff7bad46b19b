"""A topic that was created or deleted as the result of a command."""

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.quantities import counted
from kafkakit.registry.decide.entries import TopicEntry
from kafkakit.registry.decide.requests import CreateRequest
from kafkakit.report.report import Report

COLUMNS = ("name", "partitions", "replication", "state")


def created_report(request: CreateRequest, *, is_done: bool) -> Report:
    """The new topic, or what a dry run would create."""
    topic = dict(request.topic or {})
    state = "created" if is_done else "planned"
    parts = counted(topic["partitions"], "partition")
    words = f"{topic['name']}: {parts}, {counted(topic['replication'], 'replica')} of each"
    return Report(
        command="registry create",
        data={"topic": topic, "state": state},
        text=f"created topic {words}\n" if is_done else f"would create topic {words}\n",
        columns=COLUMNS,
        rows=((topic["name"], topic["partitions"], topic["replication"], state),),
    )


def deleted_report(topic: TopicEntry, *, is_done: bool, is_dry: bool) -> Report:
    """The topic that is gone, or would be; its failure where the answer was no."""
    state = "deleted" if is_done else "planned" if is_dry else "declined"
    words = {"deleted": "deleted topic {}", "planned": "would delete topic {}", "declined": "not deleted: topic {}"}
    return Report(
        command="registry delete",
        data={"topic": topic.name, "state": state},
        text=words[state].format(topic.name) + "\n",
        columns=COLUMNS,
        rows=((topic.name, topic.partitions, topic.replication, state),),
        failure=OperationFailedError("not confirmed, nothing was changed") if state == "declined" else None,
    )
