"""An explanation as text and JSON fields, with the commands that come next."""

from kafkakit.core.printable import printable
from kafkakit.core.shell_words import quote
from kafkakit.report.report import Report
from kafkakit.streams.commits.decide.explanation import Explanation, OffsetStanding
from kafkakit.streams.commits.show.data import time_data
from kafkakit.streams.model.dialects.dialect import CommitFacts, TimeSpan

EXPLAINED_COLUMNS = ("offset", "standing", "sentence")
_STUCK = (OffsetStanding.PENDING, OffsetStanding.RETRYING, OffsetStanding.DEFERRED)


def explained_report(facts: CommitFacts, found: Explanation, written: TimeSpan | None, addresses: str) -> Report:
    """The explanation as the result of a command; `addresses` are those of the brokers."""
    return Report(
        command="streams commits explain",
        data=explained_data(facts, found, written),
        text=explained_text(facts, found, addresses),
        columns=EXPLAINED_COLUMNS,
        rows=tuple((found.offset, found.standing.value, sentence) for sentence in found.sentences),
    )


def explained_text(facts: CommitFacts, found: Explanation, addresses: str) -> str:
    """The sentences, one a line, and what can be done about an offset that holds others up.

    `addresses` are those of the brokers, for Kafka's own tools.
    """
    where = f"group {printable(facts.group or '')}, {printable(str(facts.key))}, offset {found.offset}"
    lines = [f"{where}: {found.standing.value}", "", *(f"  {printable(sentence)}" for sentence in found.sentences)]
    steps = next_steps(facts, found, addresses)
    if steps:
        stop = " (stop its members first)" if facts.holder is not None else ""
        lines += [
            "",
            f"to look at the record, and to let the group pass it{stop}:",
            *(f"  {printable(step)}" for step in steps),
        ]
    return "\n".join(lines) + "\n"


def next_steps(facts: CommitFacts, found: Explanation, addresses: str) -> tuple[str, ...]:
    """Commands for an offset that others wait for; none for any other."""
    if found.standing not in _STUCK or facts.key is None or facts.group is None or not facts.state.done:
        return ()
    key = facts.key
    read = (
        f"kafka-console-consumer.sh --bootstrap-server {quote(addresses)} --topic {quote(key.topic)} "
        f"--partition {key.partition} --offset {found.offset} --max-messages 1"
    )
    return read, facts.command("skip", f"--offsets {found.offset}")


def explained_data(facts: CommitFacts, found: Explanation, written: TimeSpan | None) -> dict[str, object]:
    """The explanation as JSON fields."""
    return {
        "group": facts.group,
        "topic": None if facts.key is None else facts.key.topic,
        "partition": None if facts.key is None else facts.key.partition,
        "committed": facts.offset,
        "offset": found.offset,
        "standing": found.standing,
        "written": time_data(written, facts.at_ms),
        "sentences": list(found.sentences),
    }
