"""Playing every case of a simulation, with its progress shown."""

from kafkakit.ports.reporter import Reporter
from kafkakit.reassign.decide.simulate.replay import Case, play
from kafkakit.reassign.decide.simulate.request import SimulateRequest
from kafkakit.reassign.decide.simulate.scene import Scene


def play_cases(scene: Scene, request: SimulateRequest, reporter: Reporter) -> list[Case]:
    """Each throttle with each order, throttles first."""
    cases = []
    wanted = [(order, throttle) for throttle in request.throttles for order in request.orders]
    with reporter.progress("simulating") as bar:
        for number, (order, throttle) in enumerate(wanted):
            bar.update(number, len(wanted), order.value)
            cases.append(play(scene, request, order, throttle))
    return cases
