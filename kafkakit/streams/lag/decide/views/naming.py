"""Which stream a topic is a part of: lanes are topics named `<stream>.<lane>.<epoch>`."""

LANES = ("live", "slow", "retry", "dlq")


def stream_of(topic: str) -> str:
    """The stream of a topic; a topic that is not named like a lane is a stream by itself."""
    rest, dot, epoch = topic.rpartition(".")
    stream, second, lane = rest.rpartition(".")
    if dot and second and stream and lane in LANES and epoch.isascii() and epoch.isdigit():
        return stream
    return topic
