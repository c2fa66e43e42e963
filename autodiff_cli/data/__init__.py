"""Data: tables in memory, files of many formats, streaming of files that are larger than memory, and atomic writing of
files.
"""

from __future__ import annotations
