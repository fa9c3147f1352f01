"""Processes in other folders must be able to import the faulty commands, which are modules of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])


@pytest.fixture(autouse=True, scope="session")
def _tests_can_be_imported() -> None:
    os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
