"""The scenarios that are explored: narrow ones with few kinds of deviations, deep, and wide ones with all of them."""

from kafkakit.streams.failover.decide.operation import FenceChoice
from tests.rigs.stream_model.world import Scenario

NARROW = (
    # Processes that end, answers that are lost, and a producer that knows nothing.
    Scenario(name="crashes", has_authorizer=True, fence=FenceChoice.ACL, faults=("crash", "lost"), events=("late",)),
    # Processes that work on without the lease while another one does the work, and after it.
    Scenario(name="zombies", faults=("crash", "other:run")),
    # A store that loses its newest write.
    Scenario(name="store", faults=("crash",), events=("store_forgets",)),
    # A control store, or a target, that does not answer for a while.
    Scenario(name="outages", faults=("crash",), events=("store_away", "target_away")),
    # Clients that know nothing of routes, one group slower than the others, and transactions.
    Scenario(
        name="plain", is_registered=False, fence=FenceChoice.NONE, is_slow=True, faults=("crash",),
        events=("late", "begin_transaction", "end_transaction"),
    ),
    # The old cluster is away at the beginning, comes back, hangs, and comes back.
    Scenario(name="emergency", is_emergency=True, is_away=True, faults=("crash",), events=("hang", "late")),
    # A size limit as the fence, and transactions whose markers it would hold up.
    Scenario(name="size", fence=FenceChoice.CONFIG, faults=("crash",), events=("begin_transaction", "end_transaction")),
    # The operator thinks better of it at any time.
    Scenario(name="abort", faults=("crash", "other:abort"), events=("early_write",)),
    # The old topic is made again under its name, and the new one is written to too early.
    Scenario(name="recreated", has_authorizer=True, fence=FenceChoice.ACL, faults=(), events=("recreate",)),
)  # fmt: skip
WIDE = (
    Scenario(
        name="planned, wide",
        events=(
            "late", "away", "hang", "target_away", "store_away", "store_forgets", "stranger", "own_offset", "newcomer",
            "lose_lease", "trim",
        ),
    ),
    Scenario(
        name="fenced, wide", has_authorizer=True, fence=FenceChoice.ACL,
        events=("late", "away", "rewind", "recreate", "lose_lease", "store_forgets"),
    ),
    Scenario(
        name="plain, wide", is_registered=False, fence=FenceChoice.NONE, is_slow=True,
        events=(
            "late", "away", "begin_transaction", "end_transaction", "early_write", "trim", "stranger", "lose_lease",
        ),
    ),
    Scenario(
        name="size, wide", fence=FenceChoice.CONFIG,
        events=("late", "begin_transaction", "end_transaction", "away", "lose_lease"),
    ),
    Scenario(
        name="emergency, wide", is_emergency=True, is_away=True,
        events=("late", "away", "hang", "target_away", "lose_lease", "store_away", "store_forgets"),
    ),
    # Without a fence, and with a producer that does not move: the long window.
    Scenario(name="long window", quiet_s=None, wait_s=150.0, faults=("crash",), events=("newcomer",)),
)  # fmt: skip
SCENARIOS = {each.name: each for each in (*NARROW, *WIDE)}
