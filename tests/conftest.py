"""How property tests run: no deadline, since a busy machine is no error; in continuous integration always the same
examples, elsewhere new ones each time."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("everywhere", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("everywhere")
