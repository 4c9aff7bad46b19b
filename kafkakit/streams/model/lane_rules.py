"""Which lane a record goes to: a route's rules, compiled once."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from kafkakit.core.deliveries import Headers, OutgoingRecord
from kafkakit.core.errors import UsageError
from kafkakit.core.query.parser import parse_query
from kafkakit.core.query.single import Field, NumberField, TextField, compiled, fields_of
from kafkakit.streams.model.route import LIVE, LaneRule, Route

HEADER = "header."


@dataclass(slots=True)
class _Moment:
    record: OutgoingRecord
    now_ms: int


class LaneChooser:
    """The rules of a route. Queries see `key` and `header.NAME` (text, absent where it is no UTF-8), `tenant` (the
    header of this name), `bytes` (key, value and headers) and `age_s` (whole seconds, below 0 for a time to come).

    Raises `UsageError` that names the rule, with the column of a query that cannot be read.
    """

    def __init__(self, rules: Sequence[LaneRule], lanes: Collection[str]) -> None:
        self._tests = [(rule.lane, _test(number, rule, lanes)) for number, rule in enumerate(rules, 1)]

    def choose(self, record: OutgoingRecord, now_ms: int) -> str:
        """The lane of the first rule that matches, else `live`. Cost: the tests up to it, about 1 us each."""
        if not self._tests:
            return LIVE
        at = self.deciding(record, now_ms)
        return LIVE if at is None else self._tests[at][0]

    def deciding(self, record: OutgoingRecord, now_ms: int) -> int | None:
        """The place (from 0) of the rule that decides; None where no rule matches."""
        moment = _Moment(record, now_ms)
        for at, (_, matches) in enumerate(self._tests):
            if matches(moment):
                return at
        return None


def with_rules(route: Route, rules: Sequence[LaneRule]) -> Route:
    """The route with other rules; `UsageError` for one that names no lane of it, or a query that cannot be read."""
    LaneChooser(rules, [lane.name for lane in route.lanes])
    return replace(route, rules=tuple(rules))


def _test(number: int, rule: LaneRule, lanes: Collection[str]) -> Callable[[_Moment], bool]:
    if rule.lane not in lanes:
        raise UsageError(
            f"rule {number}: there is no lane {rule.lane[:40]!r}", hint=f"the lanes are {', '.join(sorted(lanes))}"
        )
    try:
        return compiled(parse_query(rule.where), _field)
    except UsageError as error:
        failure = UsageError(f"rule {number} (lane {rule.lane}): {error.message}", hint=error.hint)
        failure.lines = error.lines
        raise failure from None


def text_of_bytes(data: bytes | None) -> str | None:
    """Bytes as text; None for none, and for what is no UTF-8."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def header_text(headers: Headers, name: str) -> str | None:
    """The last header of a name, as text; None where there is none, or it is null or no UTF-8."""
    found: bytes | None = None
    for own, value in headers:
        if own == name:
            found = value
    return text_of_bytes(found)


def _bytes(moment: _Moment) -> int:
    record = moment.record
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size


def _age_s(moment: _Moment) -> int:
    at_ms = moment.record.at_ms
    return 0 if at_ms is None else (moment.now_ms - at_ms) // 1000


def _header(name: str) -> Field[_Moment]:
    return TextField(lambda moment: header_text(moment.record.headers, name))


_KNOWN: Mapping[str, Field[_Moment]] = MappingProxyType(
    {
        "key": TextField(lambda moment: text_of_bytes(moment.record.key)),
        "tenant": _header("tenant"),
        "bytes": NumberField(_bytes),
        "age_s": NumberField(_age_s),
        "header.NAME": _header("NAME"),
    }
)
_known_field = fields_of(_KNOWN)


def _field(key: str) -> Field[_Moment] | None:
    return _header(key.removeprefix(HEADER)) if key.startswith(HEADER) else _known_field(key)
