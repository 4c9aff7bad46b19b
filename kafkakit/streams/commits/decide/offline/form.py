"""The forms that a commit's metadata can be written in."""

from enum import StrEnum


class Form(StrEnum):
    """What to write: KKM1 in one of its alphabets, parallel-consumer's map, or Kafka Streams' times."""

    B = "b"
    W = "w"
    J = "j"
    PC = "pc"
    STREAMS = "streams"
