"""What a cluster id looks like: it becomes the name of a folder."""

import re

_CLUSTER_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def cluster_id_problem(cluster_id: str) -> str | None:
    """What is wrong with a cluster id, in words; None when nothing is."""
    return None if _CLUSTER_ID.fullmatch(cluster_id) else f"cluster_id {cluster_id!r:.80} is not a Kafka cluster id"
