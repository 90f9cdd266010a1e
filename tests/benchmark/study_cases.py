"""Records of DHIL-GT with known scores, and a recipe small enough to train with."""

from dhilgt.benchmark import Results
from dhilgt.benchmark.running.data import about
from tests.benchmark.cases import GPU, changed, unrun

TINY = """\
dhilgt:
  model: {hidden_channels: 8, num_layers: 1, heads: 2}
  training: {epochs: 2}
"""


def tiny_recipe(folder):
    path = folder / "tiny.yaml"
    path.write_text(TINY, encoding="utf-8")
    return path


def scored(cell, score, **more):
    """The record that a cell with this test score would have."""
    figures = {
        "status": "ok",
        "scores": {"test": {about(cell.data).metrics[0]: score}},
        "split_hash": f"{cell.data} {cell.seed}",
        "environment": GPU,
    }
    return changed(unrun(cell), **(figures | more))


def write(path, lines):
    with Results(path).open(resume=False) as results:
        for line in lines:
            results.add(line)
    return path
