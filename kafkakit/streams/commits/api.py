"""What other tools use of `streams commits`: moments and offsets as people write them, edits as values, duplicates and
hazards.
"""

from kafkakit.streams.commits.decide.duplicates import duplicates_of
from kafkakit.streams.commits.decide.editing.journal import opening_for
from kafkakit.streams.commits.decide.editing.moments import parse_moment
from kafkakit.streams.commits.decide.editing.offset_text import parse_offsets
from kafkakit.streams.commits.decide.editing.request import EditRequest, Reject, Skip
from kafkakit.streams.commits.decide.hazards.every import hazards_of
from kafkakit.streams.commits.show.edits import outcome_report, plan_report, render_plan
