"""What can go wrong with a commit, each thing by name, with its consequence and what to do."""

from kafkakit.core.findings import Severity
from kafkakit.streams.commits.decide.hazards.log_hazards import log_hazards
from kafkakit.streams.commits.decide.hazards.payload_hazards import payload_hazards
from kafkakit.streams.model.dialects.dialect import CommitFacts, Hazard


def hazards_of(facts: CommitFacts) -> tuple[Hazard, ...]:
    """All hazards of one commit, in the order in which a person should read them: losses first."""
    order = tuple(Severity)
    found = (*log_hazards(facts), *payload_hazards(facts))
    return tuple(sorted(found, key=lambda hazard: order.index(hazard.severity)))
