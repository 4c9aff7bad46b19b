"""What other tools use of `lint`: what files and clusters hold as pieces, and a run of the rules over them."""

from kafkakit.lint.decide.decision import KeptFindings, LintChoice, LintRequest, lint, lint_request, read_kept_findings
from kafkakit.lint.decide.files import FileReading
from kafkakit.lint.decide.lint_config import RuleSet
from kafkakit.lint.decide.pieces import Pieces, TopicPiece
