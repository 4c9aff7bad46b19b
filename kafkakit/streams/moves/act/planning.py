"""Planning series from live routes and clusters, and opening the one that is under way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import KafkakitError, RefusedError, UsageError
from kafkakit.core.journal_lines import line_data
from kafkakit.streams.failover.api import FailoverPlan, FailoverRequest
from kafkakit.streams.failover.api_act import OperationPorts, plan_operation
from kafkakit.streams.model.route import Route
from kafkakit.streams.moves.act.journals import Journal, record_of
from kafkakit.streams.moves.act.measuring import measure
from kafkakit.streams.moves.act.running import failed, read_routes, refused
from kafkakit.streams.moves.decide.choosing import ChosenMoves, Place, balance, evacuated_id, evacuation
from kafkakit.streams.moves.decide.journal import SeriesRecord, Word
from kafkakit.streams.moves.decide.leftover import SeriesEnd, left_over
from kafkakit.streams.moves.decide.loads import LoadUnit
from kafkakit.streams.moves.decide.series import HOUR_MS, MOST_MOVES, MoveEnd, Series, SeriesKind
from kafkakit.streams.routes.api_act import RouteStore


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRule:
    """In which unit and over which window loads are measured, and how far above the bound a plan may be."""

    unit: LoadUnit
    window_s: float
    within_ppm: int = 0


@dataclass(frozen=True, slots=True)
class SeriesIntent:
    """What a command wants: the key of its series, the profiles that streams may go to, and what plans a new one."""

    key: str
    targets: tuple[str, ...]
    make: Callable[[], Series]


class SeriesPlanner:
    """Plans series; writes nothing. `template` is what each move asks for but its stream, lanes and target."""

    def __init__(self, ports: OperationPorts, template: FailoverRequest, rule: MeasureRule) -> None:
        self._ports, self._template, self._rule = ports, template, rule
        self._routes: tuple[Route, ...] | None = None

    @property
    def routes(self) -> tuple[Route, ...]:
        """Every route, read once."""
        if self._routes is None:
            self._routes = read_routes(RouteStore(self._ports.store))
        return self._routes

    def evacuated(self, profile: str) -> str:
        """The id of the cluster that is to be emptied; in an emergency by the routes alone."""
        live = None if self._template.is_emergency else self._id_of(profile)
        return evacuated_id(self.routes, profile, live)

    def evacuation(self, profile: str, targets: Sequence[str]) -> Series:
        """A move for every stream that is written on a cluster; loads are measured where there are several targets.

        In an emergency, where the old cluster is not looked at, partitions count in place of what is written.
        """
        cluster_id = self.evacuated(profile)
        places = [Place(profile=name, cluster_id=self._id_of(name)) for name in dict.fromkeys(targets)]
        profiles = {cluster_id: profile, **{place.cluster_id: place.profile for place in places}}
        loads, unit = {}, f"{self._rule.unit}/s"
        if len(places) > 1 and self._template.is_emergency:
            segments = (lane.active for route in self.routes for lane in route.lanes if lane.active)
            loads, unit = {(each.cluster_id, each.topic): each.partitions for each in segments}, "partitions"
        elif len(places) > 1:
            loads = self._measure(profiles)
        chosen = evacuation(self.routes, cluster_id, places, loads, unit)
        return self._series(SeriesKind.EVACUATE, profile, cluster_id, places, chosen)

    def balance(self, capacities: Sequence[tuple[str, int]]) -> Series:
        """Moves that spread streams over clusters (profile, capacity in the rule's unit) by what is written."""
        places = [Place(profile=name, cluster_id=self._id_of(name), capacity=number) for name, number in capacities]
        if len({place.cluster_id for place in places}) < len(places):
            raise UsageError("two profiles reach the same cluster")
        loads = self._measure({place.cluster_id: place.profile for place in places})
        chosen = balance(self.routes, places, loads, f"{self._rule.unit}/s", self._rule.within_ppm)
        return self._series(SeriesKind.BALANCE, "", "", places, chosen)

    def series_for(
        self, newest: Journal | None, intent: SeriesIntent, *, is_replanned: bool
    ) -> tuple[Journal | None, Series]:
        """The series that is under way with its journal, else a new one.

        A new one keeps to the pace of the one before, and continues those of its moves whose operations are open.
        """
        if newest is None:
            return None, intent.make()
        before = record_of(newest)
        if before.todo and not is_replanned:
            return newest, before.series
        series, busy = intent.make(), {route.stream for route in self.routes if route.operation is not None}
        kept = tuple(move for move in before.todo if move.stream in busy)
        names = {move.stream for move in kept}
        moves = (*kept, *(move for move in series.moves if move.stream not in names))
        earlier = tuple(at for at in before.counted_ms if at > series.started_ms - HOUR_MS)
        return None, replace(series, moves=moves, earlier_ms=earlier)

    def amend(self, journal: Journal, intent: SeriesIntent) -> None:
        """Continue a series with other limits; `RefusedError` where it was planned for other targets."""
        series = record_of(journal).series
        differences = []
        if set(series.targets) != set(intent.targets):
            differences.append(f"it was planned for {', '.join(series.targets)}")
        if series.template.is_emergency and not self._template.is_emergency:
            differences.append("it was begun with --emergency")
        if differences:
            words = "; ".join(differences)
            raise RefusedError(f"{series.kind} is under way, and {words}", hint="--replan makes a new plan")
        if self._template != series.template:
            journal.check(Word.AMEND, line_data(self._template))

    def unmoved(self, series: Series) -> SeriesEnd:
        """The end of a series without moves."""
        record = SeriesRecord(series=series)
        return SeriesEnd(record=record, left=tuple(left_over(record, self.routes)))

    def judged(self, series: Series, journal: Journal | None) -> dict[str, FailoverPlan | MoveEnd]:
        """The plan of each move that is left as its operation would be planned now, or why there is none."""
        found: dict[str, FailoverPlan | MoveEnd] = {}
        for move in series.moves if journal is None else record_of(journal).todo:
            try:
                plan = plan_operation(self._ports, series.request_of(move))
            except KafkakitError as error:
                found[move.stream] = failed(error)
            else:
                found[move.stream] = refused(plan) if plan.refused else plan
        return found

    def _series(
        self, kind: SeriesKind, subject: str, cluster_id: str, places: Sequence[Place], chosen: ChosenMoves
    ) -> Series:
        if len(chosen.moves) > MOST_MOVES:
            raise RefusedError(f"{len(chosen.moves):,} streams would move, at most {MOST_MOVES:,} are in one plan")
        return Series(
            kind=kind,
            subject=subject,
            cluster_id=cluster_id,
            targets=tuple(place.profile for place in places),
            moves=chosen.moves,
            template=self._template,
            operator=self._ports.operator,
            started_ms=epoch_ms(self._ports.clock.now()),
            figures=chosen.figures,
            skipped=chosen.skipped,
        )

    def _measure(self, profiles: dict[str, str]) -> dict[tuple[str, str], int]:
        self._ports.reporter.say(f"measuring what is written, for {self._rule.window_s:g} s")
        return measure(
            self._ports.open_cluster, self._ports.clock, self.routes, profiles, self._rule.window_s, self._rule.unit
        )

    def _id_of(self, profile: str) -> str:
        return self._ports.open_cluster(profile).admin.cluster().cluster_id
