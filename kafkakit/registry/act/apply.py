"""Carrying out changes of tags, one object after the other."""

from collections.abc import Sequence

from kafkakit.core.errors import ConflictError, KafkakitError, TryLaterError
from kafkakit.ports.reporter import ProgressBar
from kafkakit.registry.client import RegistryClient
from kafkakit.registry.decide.changes import ChangeOutcome, TagChange, failed_outcome


def apply_changes(client: RegistryClient, changes: Sequence[TagChange], bar: ProgressBar) -> tuple[ChangeOutcome, ...]:
    """Make each change unless the object's tags changed meanwhile; where the store does not answer the rest is left."""
    outcomes: list[ChangeOutcome] = []
    for number, change in enumerate(changes, 1):
        try:
            client.change_tags(change.kind, change.name, change.before, change.after)
        except ConflictError as error:
            outcomes.append(failed_outcome(change, "conflict", error))
        except TryLaterError as error:
            left = (ChangeOutcome(change=rest, state="left") for rest in changes[number:])
            return (*outcomes, failed_outcome(change, "unknown", error), *left)
        except KafkakitError as error:
            outcomes.append(failed_outcome(change, "failed", error))
        else:
            outcomes.append(ChangeOutcome(change=change, state="done"))
        bar.update(number, len(changes))
    return tuple(outcomes)
