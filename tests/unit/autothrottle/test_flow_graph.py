"""Who may pass what: a sender no more than its receivers take, and so on along the flows."""

from kafkakit.autothrottle.decide.law import Side, peers_of, sides_of, within_peers
from kafkakit.autothrottle.decide.measurements import Flow

IN, OUT = Side.INTO, Side.OUT


def flow(source: int, destination: int, ingest: float = 0.0) -> Flow:
    return Flow(source=source, destination=destination, partitions=1, left_bytes=1, ingest_per_s=ingest)


def test_ingest_adds_up_on_both_sides() -> None:
    assert sides_of([flow(1, 2, 3.0), flow(1, 3, 4.0)]) == {(1, OUT): 7.0, (2, IN): 3.0, (3, IN): 4.0}


def test_one_sender_to_many_and_many_to_one() -> None:
    flows = [flow(1, 2), flow(1, 3), flow(4, 3)]
    limits = {(1, OUT): 100.0, (4, OUT): 100.0, (2, IN): 10.0, (3, IN): 20.0}
    assert within_peers(limits, peers_of(flows)) == {(1, OUT): 30.0, (4, OUT): 20.0, (2, IN): 10.0, (3, IN): 20.0}


def test_a_limit_passes_along_a_chain_of_peers() -> None:
    flows = [flow(1, 2), flow(3, 2), flow(3, 4)]
    limits = {(1, OUT): 5.0, (2, IN): 100.0, (3, OUT): 7.0, (4, IN): 50.0}
    assert within_peers(limits, peers_of(flows)) == {(1, OUT): 5.0, (2, IN): 12.0, (3, OUT): 7.0, (4, IN): 7.0}
