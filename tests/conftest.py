"""How property tests run: no deadline, since a busy machine is no error; in continuous integration always the same
examples, elsewhere new ones each time."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.support")

settings.register_profile("everywhere", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("everywhere")
