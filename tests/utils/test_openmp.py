"""Threads of PyTorch give their core away, unless the user decides or PyTorch is there already."""

import os
import subprocess
import sys

import pytest

SHOWN = "import os; print(os.environ.get('GOMP_SPINCOUNT'))"


def spin(script, **variables):
    """Return what GOMP_SPINCOUNT is at the end of a script in a fresh process."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; {SHOWN}"],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "script",
    [
        "import dhilgt; dhilgt.NodeClassifier",
        "import sys; from dhilgt.cli.app import main; sys.argv = ['dhilgt', 'nothing']\n"
        "try: main()\nexcept SystemExit: pass\nimport os",
    ],
    ids=["a name that needs torch", "the command line"],
)
def test_it_is_set_before_torch_is_imported(script):
    assert int(spin(script)) < 100_000


def test_importing_the_package_alone_sets_nothing():
    assert spin("import dhilgt; dhilgt.Graph") == "None"


def test_what_the_user_has_set_stays():
    script = "import dhilgt; dhilgt.NodeClassifier"
    assert spin(script, GOMP_SPINCOUNT="77") == "77"
    assert spin(script, OMP_WAIT_POLICY="active") == "None"


def test_nothing_is_set_where_torch_would_not_read_it():
    assert spin("import torch, dhilgt; dhilgt.NodeClassifier") == "None"
