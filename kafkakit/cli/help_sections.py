"""Which section of a command's help an option stands in; a command that is not named here has one section."""

from collections.abc import Mapping, Sequence

OPTIONS = "Options"
TARGET, GOAL, LIMITS = "Target", "Goal", "Limits"
KAFKA_KIT, OUTPUT = "kafka-kit compatibility", "Output"
WATCH = "Watch"
SECTIONS = (TARGET, GOAL, LIMITS, WATCH, OUTPUT, KAFKA_KIT, OPTIONS)
"""In the order in which help prints them."""

_PLANNING: Mapping[str, str] = {
    TARGET: "brokers topics topics_exclude topics_like map_string to snapshot sizes_from sizes_file metrics_age "
    "partitions partition_bytes",
    GOAL: "replication force_rebuild sub_affinity minimize optimize_leadership leader_evac_brokers leader_evac_topics "
    "placement optimize band bands free_range free_ranges count_band metric balance_dirs balance_within leader_band "
    "min_rack_ids spread spread_by affinity anti_affinity broker_set broker_sets_by best_effort slack",
    LIMITS: "max_moves max_moved_bytes pin locality_scoped max_rack_violations max_disk_use head_room "
    "exclude_receivers exclude_givers max_replicas max_leaders max_topic_leaders partition_size_factor",
    OUTPUT: "plan report out_path out_file skip_no_ops phased_reassignment chunk_step_size ignore_warns exit_code "
    "fail_on verbose",
    KAFKA_KIT: "tolerance partition_limit partition_size_threshold storage_threshold storage_threshold_gb use_meta "
    "zk_addr zk_prefix zk_metrics_prefix zk_tags_prefix kafka_addr",
}
_MOVING: Mapping[str, str] = {
    TARGET: "to new restore run",
    GOAL: "placement min_rack_ids spread",
    LIMITS: "throttle throttle_broker throttle_dirs max_in max_out max_moves one_replica "
    "max_disk_use disk_headroom stall_timeout wait leaders_at_once leaders_pause",
}
_ROLLOUT: Mapping[str, str] = {
    TARGET: "topics brokers all_brokers cluster_default delete file cluster_name finding findings steps "
    "rehearse accept_unlike restart_with leave_restarts settle",
    WATCH: "window windows every baseline metrics prometheus_url datadog_tags api_key_file app_key_file datadog_site "
    "prometheus_selector prometheus_token_file prometheus_user prometheus_password_file",
    OUTPUT: "plan exit_code",
    KAFKA_KIT: "zk_tags_prefix",
}


def _by_name(sections: Mapping[str, str]) -> dict[str, str]:
    return {name: title for title, names in sections.items() for name in names.split()}


_TABLES = {
    "topicmappr": _by_name(_PLANNING),
    "broker": _by_name(_MOVING),
    "reassign": _by_name(_MOVING),
    "config": _by_name(_ROLLOUT),
}


def section_of(words: Sequence[str], name: str) -> str:
    """The section of the parameter `name` of the command with these words after the program's name."""
    return _TABLES.get(words[0] if words else "", {}).get(name, OPTIONS)
