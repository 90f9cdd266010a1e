"""The example that serves an exported model, held against the model itself."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "serve_onnx.py"


def assert_served(clf, folder):
    """Exports a classifier and asks the example for some nodes of its graph."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from dhilgt.classifier.serving import export_classifier

    clf.save(folder / "run")
    export_classifier(clf, folder / "model.onnx")
    nodes = ["node-050", "node-000", "node-089"]
    found = subprocess.run(
        [sys.executable, EXAMPLE, folder / "run" / "graph", folder / "model.onnx", *nodes],
        capture_output=True,
        text=True,
        check=True,
    )
    shares = [float(line.split("(")[1].strip(")")) for line in found.stdout.splitlines()]
    np.testing.assert_allclose(shares, clf.predict_proba(nodes).max(1), atol=6e-4)
