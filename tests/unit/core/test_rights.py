"""What a user lacks, with the rights that other rights imply."""

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.rights import DUTIES, lacking, lacking_on_topics
from tests.rigs.documents import acl_markdown

OPERATIONS = ("read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs")
SETS = st.frozensets(st.sampled_from(OPERATIONS))


def test_rights_that_others_imply_are_not_missing() -> None:
    assert lacking({"describe", "describe_configs"}, {"alter", "alter_configs"}) == ()
    assert lacking({"describe"}, {"describe_configs"}) == ("describe",)
    assert lacking({"alter"}, {"describe"}) == ("alter",)
    assert lacking({"alter"}, None) == (), "a cluster that does not tell is believed to allow it"
    assert lacking_on_topics({"describe", "alter_configs"}, {"b": {"read"}, "a": set(), "c": None}) == {
        "alter_configs": ["a", "b"],
        "describe": ["a"],
    }


@given(SETS, SETS, SETS)
def test_more_rights_never_lack_more(needed: frozenset[str], granted: frozenset[str], more: frozenset[str]) -> None:
    missing = set(lacking(needed, granted))
    assert missing <= needed - granted
    assert set(lacking(needed, granted | more)) <= missing
    assert lacking(needed, granted | missing) == ()


def test_no_line_names_a_right_that_another_of_its_rights_implies() -> None:
    for duty in DUTIES:
        for operations in duty.rights.values():
            for operation in operations:
                assert lacking({operation}, operations - {operation}) == (operation,), duty.name
        assert f"| {duty.name} |" in acl_markdown()
