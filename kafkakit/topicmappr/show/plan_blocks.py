"""The blocks that reports of plans share: lists and what changed, warnings, the outcome with its proof, data."""

from collections.abc import Mapping, Sequence

from kafkakit.core.certificate import Certificate
from kafkakit.core.errors import InfeasibleError, KafkakitError, OperationFailedError
from kafkakit.core.placement_statistics import degree_of
from kafkakit.core.plan import Plan, StorageFacts
from kafkakit.core.quantities import counted, format_bytes, format_rough_time
from kafkakit.core.tables import text_table
from kafkakit.core.topic_selection import TopicSelection
from kafkakit.report.blocks import INDENT, Deferred, attributes, gap_text, optional_section, section, text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.map_files import SavedMap, SavedPlan
from kafkakit.topicmappr.decide.scope import Scope
from kafkakit.topicmappr.show.log_dirs import dirs_section

Row = tuple[int, ...]
SHOWN_CHANGES = 40
MAPS_REFUSED = "Warnings encountered, partition map not created. Override with --ignore-warns."
NOT_SAVED = SavedPlan()


def ids(replicas: Sequence[int]) -> str:
    """A replica list as kafka-kit prints it: `[1001 1002]`."""
    return f"[{' '.join(map(str, replicas))}]"


def what_changed(old: Row, new: Row) -> str:
    """The words behind a partition's line: `no-op`, `preferred leader`, `replaced broker`, ..."""
    words = []
    if len(old) != len(new):
        words.append("decreased replication" if len(old) > len(new) else "increased replication")
        shared = min(len(old), len(new))
        old, new = old[:shared], new[:shared]
    elif old == new:
        return "no-op"
    if old != new:
        words.append("preferred leader" if sorted(old) == sorted(new) else "replaced broker")
    return ", ".join(words)


def change_line(topic: str, partition: int, old: Row, new: Row) -> str:
    """One partition's lists before and after."""
    return f"{topic} p{partition}: {ids(old)} -> {ids(new)} {what_changed(old, new)}"


def topics_sections(selection: TopicSelection) -> list[str]:
    """The topics chosen, and those left out, as kafka-kit lists them."""
    chosen = section("Topics:", selection.selected)
    return chosen + optional_section("Topics excluded:", selection.excluded)


def map_changes(scope: Scope, before: Sequence[Row], after: Sequence[Row]) -> list[str]:
    """kafka-kit's section on partitions' lists; where many stay as they are, those become one line."""
    rows = list(zip(scope.partitions, before, after, strict=True))
    changed = [row for row in rows if row[1] != row[2]]
    same = len(rows) - len(changed)
    shown, rest = (rows, []) if same <= SHOWN_CHANGES else (changed, [f"{counted(same, 'partition')} unchanged"])
    return section("Partition map changes:", [*(change_line(*p.key, old, new) for p, old, new in shown), *rest])


def distribution(plan: Plan, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[str]:
    """kafka-kit's section on what each broker leads and follows, with those that were empty and stay so."""
    emptied = {load.broker for load in plan.before.brokers if load.replicas}
    loads = [load for load in plan.after.brokers if load.replicas or load.broker not in emptied]
    return section(
        "Broker distribution:",
        [
            f"degree [min/max/avg]: {degree_of(before)} -> {degree_of(after)}",
            "-",
            *(
                f"Broker {b.broker} - leader: {b.leaders}, follower: {b.replicas - b.leaders}, total: {b.replicas}"
                for b in loads
            ),
        ],
    )


def broker_table(plan: Plan) -> list[str]:
    """The section on replicas and preferred leaders of each broker before and after, within the plan's topics."""
    before = {load.broker: load for load in plan.before.brokers}
    after = {load.broker: load for load in plan.after.brokers}
    rows = []
    for broker in sorted({*before, *after}):
        old, new = before.get(broker), after.get(broker)
        counts = (old.replicas if old else 0, new.replicas if new else 0, old.leaders if old else 0)
        rows.append((broker, (new or before[broker]).rack, *counts, new.leaders if new else 0))
    table = text_table(("broker", "rack", "replicas", "after", "leaders", "after"), rows)
    return section("Brokers:", table.splitlines())


def sizes_words(storage: StorageFacts) -> str:
    """Where sizes come from, and their age where they have one."""
    age = f", {format_rough_time(storage.age_s)} old" if storage.age_s else ""
    return f"sizes from {storage.source}{age}"


def warn_section(warnings: Sequence[str]) -> str:
    """The WARN section, sorted by text."""
    return text_of(section("WARN:", sorted(warnings) or ["[none]"]))


def files_section(maps: Sequence[SavedMap] | None) -> str:
    """The list of written maps, the combined ones first; nothing where no maps are wanted."""
    if maps is None:
        return ""
    if not maps:
        return "\nNo partition reassignments, skipping map generation\n"
    ordered = sorted(maps, key=lambda saved: not saved.combined)
    return text_of(
        section("New partition maps:", (f"{m.path}{' [combined map]' if m.combined else ''}" for m in ordered))
    )


def plan_section(plan: Plan, saved: SavedPlan = NOT_SAVED) -> str:
    """What the plan costs and why nothing cheaper exists, and the exact next command on its own line."""
    return text_of([*dirs_section(plan), *outcome(plan, cost_line(plan), saved)])


def outcome(plan: Plan, cost: str, saved: SavedPlan) -> list[str]:
    """The section on a plan's cost and proof, with its file and the command that carries it out."""
    lines = [cost, f"why: {plan.certificate.argument}", *(f"note: {note}" for note in plan.notes)]
    if saved.path:
        lines.append(f"saved to: {saved.path}")
    if not saved.next_command:
        return section("Plan:", lines)
    return [*section("Plan:", [*lines, "next:"]), saved.next_command]


def cost_line(plan: Plan) -> str:
    """One line: partitions, copies, bytes where known, bound and gap."""
    c = plan.certificate
    copies = sum(len(m.adding) for m in plan.moves)
    sizes = [m.bytes_moved for m in plan.moves]
    known = f" ({format_bytes(sum(s for s in sizes if s is not None))})" if copies and None not in sizes else ""
    noun = "leader change" if c.unit == "leaders" else "replica"
    bound = format_bytes(c.lower_bound) if c.unit == "bytes" else counted(c.lower_bound, noun)
    return (
        f"{counted(len(plan.moves), 'partition')} to change, {counted(copies, 'replica')} to copy{known}; "
        f"lower bound {bound}, gap {gap_text(c.gap)} ({c.status})"
    )


def refusal(plan: Plan, reasons: tuple[str, ...], left_alone: int, *, what: str = "plan") -> KafkakitError:
    """Why nothing was written: partitions that cannot be served, else other warnings."""
    if reasons:
        return InfeasibleError(
            f"no plan fits: {'; '.join(reasons)}",
            reasons=reasons if len(reasons) > 1 else (),
            hint=f"--ignore-warns plans the rest and leaves {left_alone} partition(s) as they are",
        )
    return OperationFailedError(
        f"no {what} written because of warnings: {'; '.join(plan.warnings)}",
        hint="--ignore-warns writes it anyway",
    )


def refusal_line(left_alone: int) -> str:
    """The last lines when warnings stop a plan."""
    left = f"; {counted(left_alone, 'partition')} cannot be served" if left_alone else ""
    return f"\n{INDENT}No plan written because of the warnings above{left}. --ignore-warns writes it without them.\n"


def refused(command: str, text: str, failure: KafkakitError) -> Report:
    """The report of a plan that was not written."""
    return Report(command=command, data={}, text=text, failure=failure, refused=True)


def moves_data(plan: Plan) -> Deferred:
    """Every partition that changes, for JSON and YAML."""
    return Deferred(
        lambda: (
            {"topic": m.topic, "partition": m.partition, "before": m.before, "after": m.after,
             "bytes_moved": m.bytes_moved, "change": what_changed(m.before, m.after)}
            for m in plan.moves
        )
    )  # fmt: skip


def certificate_data(certificate: Certificate) -> dict[str, object]:
    """The certificate as JSON fields."""
    return attributes(certificate, "unit objective lower_bound gap status argument")


def remarks_data(plan: Plan) -> Mapping[str, object]:
    """Notes and warnings."""
    return {"notes": plan.notes, "warnings": plan.warnings}
