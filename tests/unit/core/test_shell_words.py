import shlex
import subprocess

from hypothesis import example, given
from hypothesis import strategies as st

from kafkakit.core.text import quote

WORDS = [
    "plain",
    "two words",
    "it's",
    "a\nb",
    "a\tb",
    "\x1b[31mred",
    "\u202egnp.exe",
    "\\n",
    "é\n'\\",
    "-x",
    "",
    "$HOME\n",
]


def test_a_pasted_line_reaches_the_name_whatever_is_in_it() -> None:
    lines = "".join(f"printf '%s\\0' {quote(word)}\n" for word in WORDS)
    found = subprocess.run(["bash", "-c", lines], capture_output=True, check=True).stdout.decode().split("\0")
    assert found == [*WORDS, ""]


@given(st.text(st.characters(exclude_characters="\0")))
@example("a\nb")
def test_a_quoted_word_is_one_printable_line_and_ordinary_ones_are_as_ever(word: str) -> None:
    quoted = quote(word)
    assert quoted.isprintable()
    if word.isprintable():
        assert quoted == shlex.quote(word)
