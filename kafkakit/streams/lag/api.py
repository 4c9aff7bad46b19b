"""What other tools use of `streams lag`: where reading the commit log continues."""

from kafkakit.streams.lag.decide.saved_state import ResumePoint, resume_points_of
