"""What `ports.ClusterAdmin` promises about ACLs, ids of topics and producers; for the fake and for real brokers.

A subclass gives the `rig` fixture, whose cluster has an authorizer.
"""

from dataclasses import replace

from kafkakit.core.cluster_facts import AclBinding, AclOperation, AclPattern, AclPermission, AclResourceKind, ItemError
from tests.contracts.admin import TP, Rig, error_name, make_topic
from tests.rigs.waiting import eventually

TOPIC = AclResourceKind.TOPIC


def denial(name: str, principal: str = "User:*") -> AclBinding:
    """Nothing may be written."""
    return AclBinding(
        kind=TOPIC, name=name, principal=principal, operation=AclOperation.WRITE, permission=AclPermission.DENY
    )


class SecurityContract:
    """Promises of a cluster with an authorizer."""

    def test_bindings_are_created_once_and_deleted_exactly(self, rig: Rig) -> None:
        assert rig.admin.create_acls([]) == rig.admin.delete_acls([]) == {}
        name = rig.new_name()
        deny = denial(name, "User:guest")
        near = (
            replace(deny, host="127.0.0.9"),
            replace(deny, operation=AclOperation.DESCRIBE_CONFIGS),
            replace(deny, permission=AclPermission.ALLOW),
            replace(deny, principal="User:*"),
            replace(deny, pattern=AclPattern.PREFIXED),
        )
        for _ in range(2):
            assert rig.admin.create_acls([deny, *near]) == dict.fromkeys((deny, *near))
        eventually(rig, lambda: rig.admin.describe_acls(TOPIC, name) == tuple(sorted((deny, *near))))
        for _ in range(2):
            assert rig.admin.delete_acls([deny]) == {deny: None}
        eventually(rig, lambda: rig.admin.describe_acls(TOPIC, name) == tuple(sorted(near)))
        assert rig.admin.delete_acls(near) == dict.fromkeys(near)
        eventually(rig, lambda: rig.admin.describe_acls(TOPIC, name) == ())

    def test_the_bindings_of_a_resource_are_those_of_its_name_of_a_prefix_and_of_all(self, rig: Rig) -> None:
        name = rig.new_name()
        one, every = denial(f"{name}-1"), denial("*", "User:nobody")
        prefix = replace(denial(name), pattern=AclPattern.PREFIXED)
        others = (denial(name), replace(one, kind=AclResourceKind.GROUP, operation=AclOperation.READ))
        made = (one, every, prefix, *others)
        assert rig.admin.create_acls(made) == dict.fromkeys(made)
        try:
            eventually(rig, lambda: rig.admin.describe_acls(TOPIC, f"{name}-1") == tuple(sorted((one, every, prefix))))
            group = rig.admin.describe_acls(AclResourceKind.GROUP, f"{name}-1")
            assert group == (others[1],)
            eventually(rig, lambda: set(made) <= set(rig.admin.describe_acls(None, None) or ()))
            of_topics = rig.admin.describe_acls(TOPIC, None) or ()
            assert set(made) - set(of_topics) == {others[1]}
            assert list(of_topics) == sorted(of_topics)
        finally:
            assert rig.admin.delete_acls(made) == dict.fromkeys(made)

    def test_a_topic_is_deleted_by_its_id_and_never_its_successor(self, rig: Rig) -> None:
        key = TP(make_topic(rig, rig.brokers[:1]), 0)
        first = rig.admin.partition_states([key.topic])[key].topic_id
        assert first is not None
        for _ in range(2):
            assert rig.admin.delete_topic_by_id(first) is None
            eventually(rig, lambda: rig.admin.partition_states([key.topic]) == {})
        eventually(rig, lambda: rig.admin.create_topic(key.topic, {0: rig.brokers[:1]}, {}) is None)
        eventually(rig, lambda: key in rig.admin.partition_states([key.topic]))
        assert rig.admin.delete_topic_by_id(first) is None
        rig.pass_time()
        second = rig.admin.partition_states([key.topic])[key].topic_id
        assert second not in (None, first)

    def test_a_partition_without_producers_and_one_that_is_not_there(self, rig: Rig) -> None:
        key, gone = TP(make_topic(rig, rig.brokers[:1]), 0), TP(rig.new_name(), 0)
        assert rig.admin.describe_producers([]) == {}
        eventually(rig, lambda: rig.admin.describe_producers([key]) == {key: ()})
        found = rig.admin.describe_producers([gone, key, TP(key.topic, 9)])
        assert list(found) == [gone, key, TP(key.topic, 9)]
        unknown = [error for error in found.values() if isinstance(error, ItemError)]
        assert [error_name(error) for error in unknown] == ["UnknownTopicOrPartitionError"] * 2
        assert key.topic not in {p.topic for each in rig.admin.list_transactions() for p in each.partitions}


class NoAuthorizerContract:
    """Promises of a cluster without an authorizer."""

    def test_without_an_authorizer_there_are_no_bindings_and_none_are_made(self, rig: Rig) -> None:
        deny = denial(rig.new_name())
        assert rig.admin.describe_acls(TOPIC, deny.name) is rig.admin.describe_acls(None, None) is None
        for answers in (rig.admin.create_acls([deny]), rig.admin.delete_acls([deny])):
            assert {each: error_name(error) for each, error in answers.items()} == {deny: "SecurityDisabledError"}
