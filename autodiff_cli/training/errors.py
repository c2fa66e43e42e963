"""What can be wrong with the options of a fit."""

from __future__ import annotations


class OptionError(ValueError):
    """An option that does not exist, cannot have that value, or does not go with another."""


class ClusterError(RuntimeError):
    """A cluster that fails for good while a fit runs on it."""
