"""A mapping in layers is the same as a dict that is updated, and never has many layers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.execution.decide.journal import Layers

UPDATES = st.lists(st.dictionaries(st.integers(0, 30), st.integers(), max_size=5), max_size=40)


@settings(max_examples=60)
@given(UPDATES)
def test_versions_are_those_of_a_dict_and_earlier_ones_stay_as_they_were(updates: list[dict[int, int]]) -> None:
    plain: dict[int, int] = {}
    layers: Layers[int, int] = Layers()
    versions = [(layers, dict(plain))]
    for update in updates:
        plain |= update
        layers = layers.plus(update)
        versions.append((layers, dict(plain)))
    for version, expected in versions:
        assert version == expected
        assert (len(version), bool(version), sorted(version)) == (len(expected), bool(expected), sorted(expected))
        assert all(version.get(n) == expected.get(n) for n in range(31))


def test_one_entry_at_a_time_moves_each_entry_only_a_few_times() -> None:
    moved = 0
    layers: Layers[int, int] = Layers()
    for number in range(4096):
        before = {id(layer) for layer in layers._layers}
        layers = layers.plus({number: number})
        moved += sum(len(layer) for layer in layers._layers if id(layer) not in before)
        assert len(layers._layers) <= 13
    assert len(layers) == 4096
    assert moved < 4096 * 40
