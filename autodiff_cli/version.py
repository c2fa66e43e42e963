"""The version of the package, which the command line and model files read from here."""

__version__ = "0.1.0"
