"""Preferred leaders: one replica of each partition, spread as evenly as the candidates allow; with the proof.

Every choice of leaders is one kind of flow; callers differ in who may lead a list, what each candidate costs, and which
leaderships stay and are counted beside those chosen. Ceilings limit the leaders on a broker, and the leaders of one
topic on a broker.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.core.plan import Proof
from kafkakit.placement.network import Block, FlowNetwork, block_proof, blocks_of, reach_by, solve_levels

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


Row = tuple[int, ...]
Lists = Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Who may lead what: `broker[offsets[r]:offsets[r + 1]]` are the candidates of row r, as broker positions.

    `rows` maps rows to partitions; partitions without a candidate have no row. `cost` is what each candidate costs.
    `count` is the number of brokers that may lead at all.
    """

    count: int
    rows: "Ints"
    offsets: "Ints"
    broker: "Ints"
    cost: "Ints"

    @property
    def present(self) -> "Bools":
        """Which candidates lead now, where a change of leader is what costs."""
        present: Bools = self.cost == 0
        return present


def candidates_of(candidates: Lists, brokers: Sequence[int], current: Lists | None = None) -> Candidates:
    """The candidates that are among `brokers`, at 1 each but for the present leader, the first of `current`.

    Without `current` each costs its place among the candidates of its row.
    """
    import numpy as np

    ids = np.array(sorted(brokers), dtype=np.int64)
    replica = np.array([b for row in candidates for b in row], dtype=np.int64)
    part = np.repeat(np.arange(len(candidates)), np.array([len(row) for row in candidates], dtype=np.int64))
    known = np.isin(replica, ids)
    part, replica = part[known], replica[known]
    rows, starts = np.unique(part, return_index=True)
    offsets = np.append(starts, len(part))
    if current is None:
        cost = np.arange(len(part)) - np.repeat(starts, np.diff(offsets))
    else:
        leader = np.array([row[0] if row else -1 for row in current], dtype=np.int64)
        cost = np.where(replica == leader[part], 0, 1)
    return Candidates(count=len(ids), rows=rows, offsets=offsets, broker=np.searchsorted(ids, replica), cost=cost)


def choose_leaders(who: Candidates, base: Sequence[int] | None = None, *, level_price: int | None = None) -> "Ints":
    """The leader of each row, as a broker position: loads decreasingly minimal, then least cost.

    `base` says how many other partitions each broker leads already. Exact: a change costs 1 and a level more than
    any chain of changes through all brokers can, so evenness comes first; other costs need such a `level_price`.
    0.1 s for 20,000 partitions on 100 brokers, 3 s for 200,000 on 600.
    """
    import numpy as np

    held = np.zeros(who.count, dtype=np.int64) if base is None else np.array(base, dtype=np.int64)
    price = 2 * who.count + 2 if level_price is None else level_price
    return _choose(who, held, price, np.bincount(who.broker, minlength=who.count))


def pass_leaders(candidates: Lists, led: Mapping[int, int]) -> list[int]:
    """Choose one broker of each candidate row; `led` counts the leaderships that stay where they are.

    The resulting counts are as even as the candidates allow; of equally even choices the one whose leaders are the
    earliest in their rows, added up. Every row has at least one broker. Exact.
    """
    import numpy as np

    brokers = sorted({b for row in candidates for b in row})
    who = candidates_of(candidates, brokers)
    base = np.array([led.get(b, 0) for b in brokers], dtype=np.int64)
    return [brokers[k] for k in _choose(who, base, int(who.cost.sum()) + 1, None).tolist()]


def even_leaders(
    current: Lists,
    lists: Lists,
    brokers: Sequence[int],
    candidates: Lists | None = None,
    base: Sequence[int] | None = None,
) -> list[Row]:
    """Put the leaders that `choose_leaders` finds in front, the others staying in order.

    `candidates` are the replicas of each list that may lead it (None: all); a list without one stays as it is. Where
    a list is empty, since its replicas find no broker, the current one stays: its leader counts beside `base`.
    """
    who = candidates_of(lists if candidates is None else candidates, brokers, current)
    staying = Counter(old[0] for old, new in zip(current, lists, strict=True) if old and not new)
    led = [staying[b] + n for b, n in zip(sorted(brokers), base or [0] * len(brokers), strict=True)]
    return in_front(lists, who, choose_leaders(who, led), brokers)


def in_front(lists: Lists, who: Candidates, chosen: "Ints", brokers: Sequence[int]) -> list[Row]:
    """The lists with their chosen leaders first."""
    ids = sorted(brokers)
    ordered = list(lists)
    for i, leader in zip(who.rows.tolist(), chosen.tolist(), strict=True):
        replicas = ordered[i]
        if replicas[0] != ids[leader]:
            ordered[i] = (ids[leader], *(b for b in replicas if b != ids[leader]))
    return ordered


def _choose(who: Candidates, base: "Ints", level_price: int, most: "Ints | None") -> "Ints":
    """One candidate of each row, by a flow: even loads at `level_price` a level, then the least cost."""
    import numpy as np

    count = len(who.rows)
    if not count:
        return np.zeros(0, dtype=np.int64)
    row = np.repeat(np.arange(count), np.diff(who.offsets))
    arcs: list[int] = []

    def build(network: FlowNetwork) -> int:
        first = network.nodes(who.count)
        source = network.nodes(count)
        network.supply(source + np.arange(count), 1)
        arcs[:] = [network.arcs(source + row, first + who.broker, 1, who.cost)]
        return first

    network, _ = solve_levels(build, base, count, scale=level_price, most=most)
    chosen: Ints = who.broker[network.flow(arcs[0]) > 0]
    return chosen


_FAR = 1 << 40


def leader_proof(who: Candidates, chosen: "Ints", brokers: Sequence[int], fixed: Sequence[int]) -> Proof:
    """Price brokers and blocks so that the fewest changes come out as the bound; `brokers` are sorted ids.

    `fixed` counts the leaderships by broker that are not to choose, beside which the others were chosen.

    Passing a leadership on from broker i to j changes the cost by -1, 0 or 1, whichever is best over the
    partitions that i leads and j holds. Prices are shortest distances over these steps, which exist because the
    choice is optimal. O(brokers cubed) at worst, in practice a few rounds over a brokers x brokers matrix.
    """
    import numpy as np

    steps = _steps(who, chosen)
    loads = np.bincount(chosen, minlength=who.count) + np.array(fixed, dtype=np.int64)
    blocks = blocks_of(loads.tolist(), reach_by(steps < _FAR))
    prices, block_prices = _prices(steps, loads, blocks)
    proof = block_proof("leaders", brokers, blocks, prices, block_prices)
    standing = dict(zip(brokers, fixed, strict=True))
    return replace(proof, limits=tuple(replace(limit, fixed=standing[limit.broker]) for limit in proof.limits))


def _steps(who: Candidates, chosen: "Ints") -> "Ints":
    """The least change in cost of passing one leadership from row to column; `_FAR` where none can be passed."""
    import numpy as np

    sizes = np.diff(who.offsets)
    leader = np.repeat(chosen, sizes)
    cost = who.cost
    leads = who.broker == leader
    paid = np.repeat(cost[leads], sizes)
    steps = np.full((who.count, who.count), _FAR, dtype=np.int64)
    np.minimum.at(steps, (leader[~leads], who.broker[~leads]), (cost - paid)[~leads])
    return steps


def _prices(steps: "Ints", loads: "Ints", blocks: Sequence[Block]) -> tuple[list[int], list[int]]:
    """Broker and block prices: a full broker's is at least its block's, a broker with room has at most that."""
    import numpy as np

    count = len(loads)
    size = count + len(blocks)
    arcs = np.full((size, size), _FAR, dtype=np.int64)
    arcs[:count, :count] = steps
    for k, block in enumerate(blocks):
        for i in block.brokers:
            if loads[i] == block.low:
                arcs[i, count + k] = 0
            else:
                arcs[count + k, i] = 0
    prices = np.zeros(size, dtype=np.int64)
    for _ in range(size + 1):
        lower = np.minimum(prices, (arcs + prices).min(axis=1))
        if (lower == prices).all():
            return prices[:count].tolist(), prices[count:].tolist()
        prices = lower
    raise AssertionError("a cheaper choice of leaders exists")


NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLimits:
    """Brokers by position, partitions by number.

    Each broker may lead `most` of the partitions that choose a leader, the `fixed` ones not counted, and `of_topic` of
    one topic in all (None: any number). `topic` numbers the topic of each partition; `led` are leaders of fixed ones
    by (topic, broker).
    """

    most: "Ints"
    topic: "Ints"
    fixed: "Bools"
    of_topic: int | None = None
    led: Mapping[tuple[int, int], int]

    def topic_most(self, topic: int, broker: int) -> int:
        """How many partitions of the topic that choose a leader the broker may lead."""
        if self.of_topic is None:
            raise ValueError("there is no limit for each topic")
        return max(0, self.of_topic - self.led.get((topic, broker), 0))


def leaders_within(
    lists: Lists, current: Lists, brokers: Sequence[int], limits: LeaderLimits, *, even: bool = False
) -> "Ints":
    """The position of each list's leader among the sorted `brokers`, `NO_LEADER` where none is left within the limits.

    As few lists as can be are left without; then, with `even`, leaders are as even as can be, else as few as can be
    change of those that are in their list still, and the others are as even as that allows. Fixed lists keep their
    first. Exact. One flow, as `choose_leaders`.
    """
    import numpy as np

    fixed = limits.fixed.tolist()
    who = candidates_of([() if f else row for f, row in zip(fixed, lists, strict=True)], brokers, current)
    place = {b: i for i, b in enumerate(brokers)}
    found = np.array([place[row[0]] if f and row else NO_LEADER for f, row in zip(fixed, lists, strict=True)])
    rows = len(who.rows)
    if not rows:
        return found.astype(np.int64)
    sizes = np.diff(who.offsets)
    row = np.repeat(np.arange(rows), sizes)
    staying = np.bincount(row[who.present], minlength=rows) > 0
    later = np.arange(len(row)) != np.repeat(who.offsets[:-1], sizes)
    # A level outweighs all changes along a chain of brokers; a change that is not wanted outweighs all levels.
    level = 2 * who.count + 2
    change = 1 if even else level * (rows + 1)
    nowhere = 2 * change * (who.count + 1) + level * (rows + 2)
    cost = np.where(staying[row], change * ~who.present, later)
    arcs: list[int] = []

    def build(network: FlowNetwork) -> int:
        first, source = network.nodes(who.count + 1), network.nodes(rows)
        network.supply(source + np.arange(rows), 1)
        network.arcs(source + np.arange(rows), first + who.count, 1, nowhere)
        heads = first + who.broker
        if limits.of_topic is not None:
            cells, cell = np.unique(limits.topic[who.rows[row]] * who.count + who.broker, return_inverse=True)
            most = [limits.topic_most(*divmod(key, who.count)) for key in cells.tolist()]
            heads = network.nodes(len(cells)) + cell
            network.arcs(heads.min() + np.arange(len(cells)), first + cells % who.count, np.array(most), 0)
        arcs[:] = [network.arcs(source + row, heads, 1, cost)]
        return first

    base = np.append(np.bincount(found[found >= 0], minlength=who.count), 0)
    network, _ = solve_levels(build, base, rows, scale=level, most=np.append(np.maximum(limits.most, 0), rows))
    led = network.flow(arcs[0]) > 0
    found[who.rows[row[led]]] = who.broker[led]
    return found.astype(np.int64)
