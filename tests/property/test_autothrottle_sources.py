"""Whatever Datadog answers and whatever is stated as a capacity: no exception, no senseless value, no lost host."""

import math
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.autothrottle.decide.law import read_cap_map, read_capacity_file
from kafkakit.autothrottle.decide.measurements import HostQueriesAsked, HostTags, hosts_of, measured_by_host, read_tags
from kafkakit.core.errors import InputError
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.storage_reading import Sample

AT = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
ASKED = HostQueriesAsked()
HOSTS = st.sampled_from(["a", "b", "c", "d"])
LABELS = st.fixed_dictionaries({}, optional={"host": HOSTS | st.just("")})
VALUES = st.floats(0, 1e12) | st.sampled_from([math.nan, math.inf, -1.0])
SAMPLES = st.builds(
    Sample, LABELS, VALUES, st.integers(-1000, 400).map(lambda seconds: AT - timedelta(seconds=seconds))
)
ANSWERS = st.dictionaries(st.sampled_from(sorted(ASKED.texts())), st.lists(SAMPLES, max_size=8).map(tuple), max_size=2)
TAGS = st.dictionaries(HOSTS, st.builds(HostTags, broker=st.none() | st.integers(1, 3)), max_size=4)


@settings(max_examples=200, deadline=None)
@given(ANSWERS, TAGS)
def test_what_is_told_is_sound_and_what_is_not_is_named(
    answers: dict[str, tuple[Sample, ...]], tags: dict[str, HostTags]
) -> None:
    found = measured_by_host(answers, tags, ASKED, AT)
    assert set(found.brokers) <= {t.broker for t in tags.values()}
    for seen in found.brokers.values():
        for value in (seen.into.total, seen.out.total):
            assert value is None or (math.isfinite(value) and value >= 0)
    assert found.measured_ms == -1 or epoch_ms(AT) - 120_000 <= found.measured_ms <= epoch_ms(AT)
    words = "; ".join(found.problems)
    used = {t.broker for h, t in tags.items() if h in hosts_of(answers)}
    for host in hosts_of(answers):
        told = tags.get(host)
        if told is not None and told.broker is None:
            assert f"{host}" in words
    if used - {None} - set(found.brokers):
        assert words
    mixed = {name: tuple(reversed(samples)) for name, samples in reversed(answers.items())}
    if all(len({s.labels.get("host") for s in samples}) == len(samples) for samples in answers.values()):
        assert measured_by_host(mixed, tags, ASKED, AT) == found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=20) | st.builds("broker_id:{}".format, st.text(max_size=12)), max_size=5))
def test_any_tags_can_be_read(tags: list[str]) -> None:
    broker = read_tags(tags, ASKED).broker
    assert broker is None or 0 <= broker < 2**31


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.dictionaries(st.text(max_size=4), st.floats(), max_size=3).map(str))
def test_any_statement_of_capacities_is_read_or_refused(text: str) -> None:
    data = [part.encode("utf-8", "surrogatepass") for part in (text, f"instance_types:\n  x: {text}\n")]
    for number in range(3):
        try:
            found = read_cap_map(text) if number == 2 else read_capacity_file(data[number], "f")
        except InputError:
            continue
        assert all(math.isfinite(rate) and rate > 0 for rate in found.of_type.values())
