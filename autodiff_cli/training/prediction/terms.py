"""The terms on which a model was fitted, as far as they matter to what is predicted with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """What a fit was asked for.

    Attributes:
        likelihood: whether a model that is its own loss is minus a log-likelihood.
        weighted: whether rows had weights, or standard deviations.
        weights, sigma: the column that held them; None if they were given otherwise.
        absolute_sigma: whether standard deviations are taken as they are.
    """

    likelihood: bool = False
    weighted: bool = False
    weights: str | None = None
    sigma: str | None = None
    absolute_sigma: bool = False

    @property
    def weighing(self) -> str | None:
        """The column that says how far off a row may be."""
        return self.weights if self.sigma is None else self.sigma
