from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def labelled_names() -> Path:
    """The CSV of labelled tool names: in the folder named by ONCEGATE_SHARED, or in ../shared beside the project."""
    shared = Path(os.environ.get("ONCEGATE_SHARED") or ROOT.parent / "shared")
    path = shared / "cases" / "tools_open.csv"
    if not path.is_file():
        pytest.skip(f"labelled names are not here: {path}")
    return path


@pytest.fixture(scope="session")
def accuracy() -> ModuleType:
    """The accuracy script beside this file, as a module."""
    spec = importlib.util.spec_from_file_location("heuristics_accuracy", Path(__file__).with_name("accuracy.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
