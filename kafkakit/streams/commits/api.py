"""What other tools use of `streams commits`: moments and offsets as people write them, edits as values, duplicates and
hazards.
"""

from kafkakit.streams.commits.decide.editing.edit import (
    EditRequest,
    Reject,
    Skip,
    opening_for,
    parse_moment,
    parse_offsets,
    parse_partitions,
)
from kafkakit.streams.commits.decide.group_look import no_such_group
from kafkakit.streams.commits.decide.hazards import hazards_of
from kafkakit.streams.commits.decide.offset_states import duplicates_of
from kafkakit.streams.commits.report.edits import outcome_report, plan_report, plan_text
