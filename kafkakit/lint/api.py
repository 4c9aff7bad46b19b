"""What other tools use of `lint`: the topics that files declare."""

from kafkakit.lint.decide.pieces import TopicPiece

__all__ = ["TopicPiece"]
