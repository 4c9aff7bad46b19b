"""`reassign abort`: let the active run end, then cancel what it has in flight."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.plan import Plan
from kafkakit.execution.act.cluster_access import ClusterAccess, OpenAccess, access_or_busy
from kafkakit.execution.decide.outcome import Outcome, Request
from kafkakit.ports.reporter import Reporter
from kafkakit.reassign.act.control import RunRequester
from kafkakit.reassign.act.run import prepare_run

LOOK_EVERY_S = 0.5


def abort_plan(
    plan: Plan,
    request: Request,
    open_access: OpenAccess,
    requester: RunRequester,
    reporter: Reporter,
    *,
    confirm_stop: Callable[[], bool],
) -> Outcome:
    """Abort the plan; an active run is requested to end first, once `confirm_stop` agreed, and waited for."""
    with ExitStack() as stack:
        access = access_or_busy(stack, open_access)
        if isinstance(access, TryLaterError):
            if not confirm_stop():
                raise OperationFailedError("not confirmed, nothing was changed") from access
            requester.request(plan, access, abort=True)
            access = _access_after_run(stack, open_access, requester)
            request = replace(request, confirm=lambda: True)
        return prepare_run(plan, request, access, requester.state_dir, reporter).abort()


def _access_after_run(stack: ExitStack, open_access: OpenAccess, requester: RunRequester) -> ClusterAccess:
    """The access as soon as the run that was requested to end has given its lease back."""
    end_s = requester.clock.monotonic() + requester.wait_s
    while True:
        access = access_or_busy(stack, open_access)
        if isinstance(access, ClusterAccess):
            return access
        if requester.clock.monotonic() >= end_s:
            raise access
        requester.clock.sleep(LOOK_EVERY_S)
