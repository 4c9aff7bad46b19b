"""The rates of a run of kafkakit: requested from it, and known from its journal."""

from pathlib import Path

from kafkakit.autothrottle.decide.look import for_run
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.act.run_journal import journal_files, read_run_state
from kafkakit.execution.decide.schedule.work import Rates


def request_rates(
    requests: ControlRequests, token: int, by: str, rates: Rates, earlier: Rates | None, wait_s: float
) -> tuple[int, str]:
    """Request the rates of the run with a fencing token, unless they are requested; wait `wait_s` for its answer.

    `earlier` are the rates that it was asked for. Returns the number of requests made, and what is to be said of it.
    """
    found = requests.read(token)
    present = None if found is None else found.request.rates
    wanted = for_run(rates, (present or earlier or Rates()).inside)
    writes = 0
    if found is not None and present == wanted:
        version = found.version
    else:
        version, writes = requests.request(token, by, rates=wanted), 1
    answer = requests.wait_for_answer(token, version, wait_s)
    if answer is None:
        return writes, "the rates are requested of the run, which has not taken them up yet"
    return writes, f"the run refuses the rates: {answer.refused}" if answer.refused else ""


def rates_of_run(state_dir: Path, cluster_id: str, token: int) -> Rates | None:
    """The rates that the run with this fencing token was asked for, None where it has no journal on this host."""
    states = (read_run_state(file) for file in journal_files(state_dir, cluster_id))
    return next((s.wanted for s in states if s.token == token), None)
