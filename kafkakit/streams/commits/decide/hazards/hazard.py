"""One thing that is wrong with a commit, or may go wrong, and the command that mends it."""

from dataclasses import dataclass
from shlex import quote

from kafkakit.core.findings import Severity
from kafkakit.streams.commits.decide.facts import CommitFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """What is wrong, with its consequence; `hint` is what to do, empty where there is nothing to do."""

    rule: str
    severity: Severity
    message: str
    hint: str = ""


def command_for(facts: CommitFacts, verb: str, *words: str) -> str:
    """The line that calls a verb of `streams commits` for this very commit."""
    where: tuple[str, ...] = ()
    if facts.key is not None and facts.group is not None:
        where = (quote(facts.group), "--topic", quote(facts.key.topic), "--partition", str(facts.key.partition))
    return " ".join((facts.program, "streams", "commits", verb, *where, *words))
