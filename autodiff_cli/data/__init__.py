"""Tables of data: reading files, and writing them as a whole or not at all.

Files that several read at once.

Columns that are larger than memory: read in chunks, again in every pass.
"""

from __future__ import annotations
