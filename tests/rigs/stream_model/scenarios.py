"""The scenarios that are explored."""

from kafkakit.streams.failover.decide.operation import FenceWish
from tests.rigs.stream_model.world import Scenario

CRASHES = Scenario(name="crashes", has_authorizer=True, fence=FenceWish.ACL, faults=("crash", "lost"), events=("late",))
"""Processes that end, answers that are lost, and a producer that knows nothing: explored the deepest."""
ZOMBIES = Scenario(name="zombies", faults=("crash", "other:drain", "other:run", "other:abort"), events=("lose_lease",))
"""Processes that work on without the lease."""
RECREATED = Scenario(name="recreated", has_authorizer=True, fence=FenceWish.ACL, faults=(), events=("recreate",))
"""The old topic is made again under its name."""
SCENARIOS = (
    CRASHES,
    ZOMBIES,
    RECREATED,
    Scenario(
        name="planned",
        events=("late", "away", "target_away", "stranger", "own_offset", "newcomer", "lose_lease", "trim"),
    ),
    Scenario(
        name="fenced", has_authorizer=True, fence=FenceWish.ACL,
        events=("late", "away", "rewind", "lose_lease"),
    ),
    Scenario(
        name="plain", is_registered=False, quiet_s=3.0, fence=FenceWish.NONE, is_slow=True,
        events=("late", "away", "begin_transaction", "end_transaction", "early_write", "trim", "stranger"),
    ),
    Scenario(
        name="size", fence=FenceWish.CONFIG,
        events=("late", "begin_transaction", "end_transaction", "away", "lose_lease"),
    ),
    Scenario(name="emergency", is_emergency=True, is_away=True, events=("late", "away", "target_away", "lose_lease")),
)  # fmt: skip
