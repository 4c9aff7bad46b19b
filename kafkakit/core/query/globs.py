"""Patterns with `*` (any text) and `?` (one character), matched in time linear in the text."""

from collections.abc import Callable


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a whole text fits the pattern.

    Without `?` each piece between stars is searched once, from the left; with it the states of the pattern are the
    bits of one number, moved along with each character. O(text) for a pattern of up to 64 characters or so, else
    O(text x pattern / 64); nothing is tried twice.
    """
    if "?" in pattern:
        # Most texts fail with stars in place of question marks, which is quicker to see.
        loose, exact = glob_matcher(pattern.replace("?", "*")), _by_bits(pattern)
        return lambda text: loose(text) and exact(text)
    first, *rest = pattern.split("*")
    if not rest:
        return pattern.__eq__
    *middle, last = rest
    inner = [piece for piece in middle if piece]
    least = len(first) + len(last)
    if not inner:
        return lambda text: len(text) >= least and text.startswith(first) and text.endswith(last)

    def matches(text: str) -> bool:
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        for piece in inner:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True

    return matches


def _by_bits(pattern: str) -> Callable[[str], bool]:
    """The pattern as an automaton: bit i is set when the first i characters (stars aside) have matched."""
    stays = takes_any = count = 0
    takes: dict[str, int] = {}
    for char in pattern:
        if char == "*":
            stays |= 1 << count
            continue
        if char == "?":
            takes_any |= 1 << count
        else:
            takes[char] = takes.get(char, 0) | 1 << count
        count += 1
    done = 1 << count

    def matches(text: str) -> bool:
        states = 1
        for char in text:
            states = (states & stays) | (states & (takes.get(char, 0) | takes_any)) << 1
            if not states:
                return False
        return bool(states & done)

    return matches
