"""Log dirs in a plan's report: use before and after, new copies by dir, and what moves inside brokers."""

from collections import Counter
from collections.abc import Mapping

from kafkakit.core.plan import Plan, PlanDir
from kafkakit.core.quantities import counted, format_bytes, format_percent
from kafkakit.report.blocks import INDENT, capped, section

SHOWN_BROKERS = 40


def dirs_section(plan: Plan) -> list[str]:
    """The lines of the section "Log dirs:"; none where the plan has nothing to do with log dirs.

    One line a dir of each broker with several of them on which something changes, at most 40 brokers.
    """
    arriving = _arriving(plan)
    if not arriving and not plan.dir_moves:
        return []
    moved_in = Counter((m.broker, m.target_dir) for m in plan.dir_moves)
    moved_out = Counter((m.broker, m.source_dir) for m in plan.dir_moves)
    brokers: dict[int, list[PlanDir]] = {}
    for d in plan.dirs:
        brokers.setdefault(d.broker, []).append(d)
    touched = {b for b, _ in (*arriving, *moved_in)}
    shown = [b for b in brokers if b in touched]
    moved = sum(m.size_bytes or 0 for m in plan.dir_moves)

    def broker_lines(b: int) -> str:
        return "\n".join([f"Broker {b}", *(INDENT + _line(d, arriving, moved_in, moved_out) for d in brokers[b])])

    rows = capped(shown, broker_lines, SHOWN_BROKERS, "... and {} more (all of them in the plan file)")
    rows.append(f"inside brokers: {counted(len(plan.dir_moves), 'copy', 'copies')}, {format_bytes(moved)}")
    return section("Log dirs:", "\n".join(rows).split("\n"))


def _arriving(plan: Plan) -> Counter[tuple[int, str]]:
    return Counter((b, path) for m in plan.moves for b, path in m.dirs.items())


def _line(
    d: PlanDir,
    arriving: Mapping[tuple[int, str], int],
    moved_in: Mapping[tuple[int, str], int],
    moved_out: Mapping[tuple[int, str], int],
) -> str:
    key = (d.broker, d.path)
    words = [f"{_use(d, d.used_before_bytes)} -> {_use(d, d.used_after_bytes)}"]
    words += [f"{counted(arriving[key], 'new copy', 'new copies')}"] if arriving.get(key) else []
    words += [f"{moved_in[key]} from other dirs"] if moved_in.get(key) else []
    words += [f"{moved_out[key]} to other dirs"] if moved_out.get(key) else []
    words += [] if d.is_open else ["takes no new copies"]
    return f"{d.path}: {', '.join(words)}"


def _use(d: PlanDir, used: int) -> str:
    if not d.capacity_bytes:
        return format_bytes(used)
    return f"{format_bytes(used)} ({format_percent(used / d.capacity_bytes)})"


def dirs_data(plan: Plan) -> dict[str, object]:
    """Log dirs for JSON and YAML: each dir, each destination of a new copy, each move inside a broker."""
    return {
        "log_dirs": plan.dirs,
        "destinations": [
            {"topic": m.topic, "partition": m.partition, "broker": b, "dir": path}
            for m in plan.moves
            for b, path in sorted(m.dirs.items())
        ],
        "dir_moves": plan.dir_moves,
    }


def dir_move_rows(plan: Plan) -> tuple[tuple[object, ...], ...]:
    """One row a move inside a broker, in `DIR_MOVE_COLUMNS`."""
    return tuple((m.topic, m.partition, m.broker, m.source_dir, m.target_dir, m.size_bytes) for m in plan.dir_moves)


DIR_MOVE_COLUMNS = ("topic", "partition", "broker", "from", "to", "bytes")
