"""What other tools use of `streams lag`: where reading the commit log continues, and what a monitor left behind."""

from kafkakit.streams.lag.decide.limits import LIMIT_KEYS, JudgedBound, LagVerdict, LimitRules
from kafkakit.streams.lag.decide.monitors import LIMIT_BYTES, read_limit_rules
from kafkakit.streams.lag.decide.saved_groups import (
    SavedGroups,
    judge_groups,
)
from kafkakit.streams.lag.decide.saved_state import ResumePoint, resume_points_of
