"""Taking, keeping and giving back a lease in a control store."""

from collections.abc import Callable
from contextlib import suppress

from kafkakit.core.durations import format_duration
from kafkakit.core.errors import ConflictError, KafkakitError, LeaseHeldError, LeaseLostError, TryLaterError
from kafkakit.core.lease import (
    DEFAULT_TTL_S,
    LEASE_DOCUMENT,
    Holder,
    LeaseRecord,
    Life,
    Refuse,
    Take,
    Tenure,
    Wait,
    Watch,
    decide,
    held_words,
    waiting_words,
    watch,
)
from kafkakit.execution.act.lease_reader import decoded_lease
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore

_LOOKS_PER_TTL = 20
_LONGEST_NAP_S = 0.5
_AWAY_NAP_S = 0.5


class Lease:
    """One process's claim to a lease; for one thread.

    `what` names the thing for people ("cluster X"). `life_of` tells what is certain of a holder's process
    (`wiring.life_of`); `say` gets a line when there is something to wait for.
    """

    def __init__(
        self,
        store: ControlStore,
        clock: Clock,
        path: str,
        holder: Holder,
        *,
        what: str,
        life_of: Callable[[Holder], Life],
        say: Callable[[str], None],
    ) -> None:
        self._store, self._clock, self._path, self._holder = store, clock, path, holder
        self._what, self._life_of, self._say = what, life_of, say
        self._tenure: Tenure | None = None
        self._watching: Watch | None = None

    @property
    def token(self) -> int:
        """The fencing token; raises `LeaseLostError` when the lease is not ours."""
        return self._held().record.token

    def acquire(self, ttl_s: float = DEFAULT_TTL_S) -> int:
        """Take the lease and return its fencing token, greater than every earlier one.

        A holder that lives is not disturbed: `TryLaterError` says who it is. On this host that is known at once, and
        a holder that ended here is replaced at once. One elsewhere is watched until it shows a sign of life or until
        its lease has run (15 s by default) without one; then it is replaced. `ttl_s` should be longer than the
        longest single request to the cluster.
        """
        first: Watch | None = None
        watching: Watch | None = None
        announced = False
        while True:
            found = self._store.get(self._path)
            now_s = self._clock.monotonic()
            record = decoded_lease(found, self._path)
            watching = None if found is None else watch(watching, found, now_s)
            first = first or watching
            match decide(record, watching, first, now_s, self._life(record)):
                case Take(token, expected):
                    if self._take(token, expected, ttl_s):
                        return token
                case Refuse(holder):
                    raise LeaseHeldError(
                        held_words(self._what, holder), hint="wait for it to end, or stop it there with Ctrl-C"
                    )
                case Wait() as wait:
                    if not announced:
                        self._say(waiting_words(self._what, wait))
                        announced = True
                    self._clock.sleep(min(wait.seconds, _LONGEST_NAP_S, wait.record.ttl_s / _LOOKS_PER_TTL))

    def look(self) -> bool:
        """One look without waiting; True when the lease could be taken now.

        For loops that look again and again: a holder elsewhere is silent once its lease has run between two looks
        without a change.
        """
        return isinstance(self._decision(), Take)

    def attempt(self, ttl_s: float = DEFAULT_TTL_S) -> bool:
        """As `look`, and take the lease where it can be taken; True when it is ours from now on.

        Our own lease whose time ran out is taken up again with its token, unless another process had it in between.
        """
        if self._tenure is not None:
            with suppress(LeaseLostError):
                self.renew()
                return True
        decision = self._decision()
        return isinstance(decision, Take) and self._take(decision.token, decision.expected, ttl_s)

    def is_held(self) -> bool:
        """Whether the lease is certainly ours at this moment; without a request to the store; any thread may ask."""
        tenure = self._tenure
        return tenure is not None and tenure.is_held(self._clock.monotonic(), self._clock.now())

    def renew(self) -> None:
        """Write the lease again; `LeaseLostError` when another process has it, `TryLaterError` when that is unknown."""
        tenure = self._held()
        beaten = _beat(tenure.record, self._clock)
        try:
            self._write(beaten, tenure.version)
        except ConflictError:
            self._adopt_own_write()

    def require_held(self) -> None:
        """To be called before each effect: returns only while the lease is certainly ours.

        Renews when it is time to, and after a long pause finds out whether another process came in between. Raises
        `LeaseLostError` when one did, or when the store is away for longer than the lease runs.
        """
        problem = self._renew_if_due()
        if not self.is_held():
            hint = None if problem is None else problem.hint
            raise LeaseLostError(f"{self._what}: the lease could not be renewed in time{_in_words(problem)}", hint=hint)

    def keep(self, retry_limit_s: float) -> None:
        """Renew when it is time to, and while the store is away wait for it, `retry_limit_s` at most, doing nothing.

        Renewing is compare-and-set, so a lease whose time ran out meanwhile is ours again only if no other process had
        it in between. Raises `LeaseLostError` when one had, or when the store stays away.
        """
        began_s: float | None = None
        while (problem := self._renew_if_due()) is not None:
            now_s = self._clock.monotonic()
            if began_s is None:
                began_s = now_s
                limit = format_duration(retry_limit_s)
                self._say(
                    f"{self._what}: {problem.message}; nothing new is begun until it answers, for {limit} at most"
                )
            if now_s - began_s >= retry_limit_s:
                raise LeaseLostError(f"{self._what}: the lease could not be renewed in time{_in_words(problem)}")
            self._clock.sleep(_AWAY_NAP_S)
        if began_s is not None:
            self._say(f"{self._what}: the control store answers again, and the lease is still ours")

    def _renew_if_due(self) -> TryLaterError | None:
        """Renew when a third of the time is over; the error says why that could not be done, None: ours for a while."""
        if not self._held().is_due(self._clock.monotonic(), self._clock.now()):
            return None
        try:
            self.renew()
        except LeaseLostError:
            raise
        except TryLaterError as error:
            return error
        return None if self.is_held() else TryLaterError("it answers too slowly")

    def release(self) -> None:
        """Give the lease back; when that fails, the others wait until its time is over. Harmless when not held."""
        tenure, self._tenure = self._tenure, None
        if tenure is None:
            return
        try:
            self._give_back(tenure)
        except KafkakitError as error:
            self._say(f"{self._what}: the lease could not be released ({error.message}); it expires by itself")

    def _decision(self) -> Take | Wait | Refuse:
        found = self._store.get(self._path)
        now_s = self._clock.monotonic()
        record = decoded_lease(found, self._path)
        self._watching = None if found is None else watch(self._watching, found, now_s)
        return decide(record, self._watching, None, now_s, self._life(record))

    def _give_back(self, tenure: Tenure) -> None:
        free = LEASE_DOCUMENT.encode(_beat(tenure.record, self._clock, keep_holder=False))
        try:
            self._store.cas(self._path, free, tenure.version)
        except ConflictError:
            # A renewal that was cut short may have arrived; a lease of another process is left alone.
            found = self._store.get(self._path)
            if found is not None and self._is_ours(decoded_lease(found, self._path), tenure):
                with suppress(ConflictError):
                    self._store.cas(self._path, free, found.version)

    def _is_ours(self, record: LeaseRecord | None, tenure: Tenure) -> bool:
        return record is not None and (record.token, record.holder) == (tenure.record.token, self._holder)

    def _take(self, token: int, expected: int | None, ttl_s: float) -> bool:
        now = self._clock.now()
        record = LeaseRecord(token=token, beats=0, ttl_s=ttl_s, taken_at=now, renewed_at=now, holder=self._holder)
        try:
            self._write(record, expected)
        except ConflictError:
            return False
        return True

    def _write(self, record: LeaseRecord, expected: int | None) -> None:
        sent_s, sent_at = self._clock.monotonic(), self._clock.now()
        version = self._store.cas(self._path, LEASE_DOCUMENT.encode(record), expected)
        self._tenure = Tenure(record=record, version=version, sent_s=sent_s, sent_at=sent_at)

    def _adopt_own_write(self) -> None:
        """After a conflict: a renewal that seemed to fail may have arrived, then the document is still ours."""
        tenure = self._held()
        found = self._store.get(self._path)
        record = decoded_lease(found, self._path)
        if found is None or record is None or not self._is_ours(record, tenure):
            self._tenure = None
            by = "no process" if record is None else str(record)
            raise LeaseLostError(f"{self._what}: the lease was taken over, it is held by {by}")
        try:
            self._write(_beat(record, self._clock), found.version)
        except ConflictError:
            self._tenure = None
            raise LeaseLostError(f"{self._what}: the lease was taken over just now") from None

    def _held(self) -> Tenure:
        if self._tenure is None:
            raise LeaseLostError(f"{self._what}: the lease is not held")
        return self._tenure

    def _life(self, record: LeaseRecord | None) -> Life:
        return Life.UNKNOWN if record is None or record.holder is None else self._life_of(record.holder)


def _in_words(problem: TryLaterError | None) -> str:
    return "" if problem is None else f" ({problem.message})"


def _beat(record: LeaseRecord, clock: Clock, *, keep_holder: bool = True) -> LeaseRecord:
    return LeaseRecord(
        token=record.token,
        beats=record.beats + 1,
        ttl_s=record.ttl_s,
        taken_at=record.taken_at,
        renewed_at=clock.now(),
        holder=record.holder if keep_holder else None,
    )
