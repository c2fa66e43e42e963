"""Legal names: those of a formula, in a language that does not allow all of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import chain, count

# What letters are called that have no other way to be written with the letters from a to z.
_MARKS = {"\u0302": "_hat", "\u0303": "_tilde", "\u0304": "_bar", "\u0307": "_dot", "\u0308": "_ddot", "\u20d7": "_vec"}


@dataclass(frozen=True)
class LegalNames:
    """What a language allows for names.

    Attributes:
        keywords: words that mean something.
        is_legal: whether a text is a name, but for the keywords.
        folds_case: whether large and small letters are the same.
    """

    keywords: frozenset[str]
    is_legal: Callable[[str], bool]
    folds_case: bool = False

    def legal(self, names: Iterable[str], taken: Set[str]) -> dict[str, str]:
        """A legal name for each name, all different from one another and from those that are taken.

        A name that is legal stays as it is.

        >>> names = LegalNames(frozenset({"for"}), plain)
        >>> names.legal(["x", "for", "λ", "x₁", "x̂", "lambda"], {"x"})
        {'x': 'x_', 'for': 'for_', 'λ': 'lambda', 'x₁': 'x1', 'x̂': 'x_hat', 'lambda': 'lambda_'}
        """
        used = {self._folded(name) for name in taken | self.keywords}
        found: dict[str, str] = {}
        for name in names:
            stem = name if self.is_legal(name) else spelt_out(name)
            tries = chain([stem, f"{stem}_"], (f"{stem}_{k}" for k in count(2)))
            found[name] = legal = next(text for text in tries if self._folded(text) not in used)
            used.add(self._folded(legal))
        return found

    def allows(self, name: str) -> bool:
        """Whether a text can be a name as it stands."""
        return self.is_legal(name) and self._folded(name) not in map(self._folded, self.keywords)

    def fresh(self, taken: Set[str]) -> Iterator[str]:
        """Names for what has none, `t1`, `t2` and so on, without those that are taken."""
        used = {self._folded(name) for name in taken | self.keywords}
        return (name for name in (f"t{k}" for k in count(1)) if name not in used)

    def _folded(self, name: str) -> str:
        return name.lower() if self.folds_case else name


def plain(name: str) -> bool:
    """Whether a text is made of the letters from a to z, digits and underscores, a letter first."""
    return name.isascii() and name.isidentifier() and not name.startswith("_")


def spelt_out(name: str) -> str:
    """A name in plain letters.

    >>> [spelt_out(name) for name in ("λ", "Δt", "θ_0", "x₁", "x̂", "né", "ж", "Temp [°C]")]
    ['lambda', 'Deltat', 'theta_0', 'x1', 'x_hat', 'ne', 'zhe', 'Temp_degree_sign_C']
    """
    letters = "".join(map(_spelt, unicodedata.normalize("NFD", name)))
    words = "_".join(filter(None, letters.split("_")))
    return words if words[:1].isalpha() else f"v{words}"


def _spelt(character: str) -> str:
    if character.isascii():
        return character if character.isalnum() else "_"
    if unicodedata.combining(character):
        return _MARKS.get(character, "")
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    described = unicodedata.name(character, f"u{ord(character):x}")
    letter = described.rpartition(" ")[2].replace("LAMDA", "LAMBDA")
    if "SMALL LETTER" in described or "SUBSCRIPT" in described:
        return letter.lower()
    if "CAPITAL LETTER" in described:
        return letter.capitalize()
    return f"_{described.lower().replace(' ', '_').replace('-', '_')}_"
