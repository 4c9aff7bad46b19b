"""Rates that an operator set: for all brokers, and for single ones; they go before what a law decides."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import msgspec
from msgspec import Meta

from kafkakit.core.documents import DocumentKind, decode_json
from kafkakit.core.errors import InputError
from kafkakit.execution.decide.schedule.work import Rates

MB = 1_000_000
MAX_BROKERS = 1000
_Rate = Annotated[int, Meta(ge=1, le=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Bytes per second into and out of a broker, None: the law decides.

    With `autoremove` it ends with the moves; kafka-kit leaves that of a single broker.
    """

    into: _Rate | None = None
    out: _Rate | None = None
    autoremove: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """All overrides; `every` is for all brokers."""

    every: Override | None = None
    of: Annotated[Mapping[Annotated[int, Meta(ge=0, le=2**31 - 1)], Override], Meta(max_length=MAX_BROKERS)] = field(
        default_factory=dict
    )

    @property
    def ending_with_moves(self) -> tuple[int | None, ...]:
        """Which of them end with the moves, None for the one for all."""
        every = (None,) if self.every is not None and self.every.autoremove else ()
        return (*every, *(broker for broker, override in self.of.items() if override.autoremove))

    def with_one(self, broker: int | None, override: Override | None) -> "Overrides":
        """All overrides, of which one is replaced or removed; `broker` None is the one for all."""
        if broker is None:
            return replace(self, every=override)
        others = {b: o for b, o in self.of.items() if b != broker}
        return replace(self, of=dict(sorted((others if override is None else {**others, broker: override}).items())))

    def over(self, rates: Rates | None, brokers: Collection[int]) -> Rates | None:
        """The rates of a law with the overrides in their place, for each of these brokers; None: no rates at all."""
        every = self.every or Override()
        if rates is None and self.every is None and not self.of.keys() & set(brokers):
            return None
        law = rates or Rates()
        into_of: dict[int, int] = {}
        out_of: dict[int, int] = {}
        for broker in sorted(brokers):
            own = self.of.get(broker, Override())
            into = own.into or every.into or law.into_broker(broker)
            out = own.out or every.out or law.out_of_broker(broker)
            if into is not None:
                into_of[broker] = into
            if out is not None:
                out_of[broker] = out
        return Rates(into_of=into_of, out_of=out_of)


OVERRIDES_DOCUMENT = DocumentKind("autothrottle-overrides", Overrides)


class _Znode(msgspec.Struct):
    rate: int = 0
    autoremove: bool = False


def encode_znode(override: Override | None) -> bytes:
    """kafka-kit's form, whole MB/s and one rate for both directions; None is its mark for a removal, rate 0.

    Raises `InputError` for what that form cannot say.
    """
    rate = 0 if override is None else override.into or 0
    if override is not None and (override.into != override.out or not rate or rate % MB):
        raise InputError(
            "the override",
            "kafka-kit's znodes hold whole MB/s, the same in and out",
            hint="leave out --zk-config-prefix",
        )
    return msgspec.json.encode(_Znode(rate // MB, override is not None and override.autoremove))


def decode_znode(data: bytes, source: str) -> Override | None:
    """Read kafka-kit's form, and the plain number of its first versions; None for no data and for a rate of 0."""
    if not data.strip():
        return None
    found = _Znode(rate=int(data)) if data.strip().isdigit() and len(data) < 12 else decode_json(data, _Znode, source)
    if found.rate <= 0:
        return None
    return Override(into=found.rate * MB, out=found.rate * MB, autoremove=found.autoremove)
