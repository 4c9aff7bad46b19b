"""What other tools use of `sandbox`: counting records in and out, and the environment of a demo's commands."""

from kafkakit.sandbox.decide.workload import RecordTally, demo_environment, tally
