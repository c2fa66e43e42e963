"""The version, said once: the package, the command, and model files read it here."""

__version__ = "0.1.0"
