"""What other tools use of `streams commits`: moments and offsets as people write them, duplicates and hazards."""

from kafkakit.streams.commits.decide.duplicates import duplicates_of
from kafkakit.streams.commits.decide.editing.moments import parse_moment
from kafkakit.streams.commits.decide.editing.offset_text import parse_offsets
from kafkakit.streams.commits.decide.hazards.every import hazards_of
