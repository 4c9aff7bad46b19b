"""What other tools use of `sandbox`: the frame of a demo, which shows each command that it runs."""

from kafkakit.sandbox.demo import DemoTools, refuse_existing, removed_at_the_end
from kafkakit.sandbox.folders import store_of
