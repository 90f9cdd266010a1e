"""The graphs of bench.made_graphs are what their descriptions say, and the page has its lines."""

from pathlib import Path

import numpy as np
import pytest
from bench import made_graphs

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_a_board_shows_how_many_mines_its_cells_touch():
    side = 6
    graph = made_graphs.grid(0, side)
    mines = graph.labels.reshape(side, side)
    shown = graph.features.argmax(1).reshape(side, side)
    for row in range(side):
        for column in range(side):
            near = mines[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
            touched = near.sum() - mines[row, column]
            assert graph.degrees[row * side + column] == near.size - 1
            assert shown[row, column] in (7, min(touched, 6))  # 7: not shown
    assert 0 < (shown == 7).sum() < side**2


@pytest.mark.filterwarnings("ignore::dhilgt.errors.GraphWarning")
def test_a_chain_joins_each_node_to_the_next_and_to_one_nearby():
    graph = made_graphs.chain(0, 50)
    for node in range(49):
        row = graph.targets[graph.offsets[node] : graph.offsets[node + 1]]
        assert node + 1 in row
        assert np.abs(row - node).max() <= 4
    assert set(graph.masks) == {"train", "val", "test"}


def test_the_page_has_the_table_of_its_lines():
    made = made_graphs.table(made_graphs.read(RESULTS / "made-graphs.jsonl"))
    assert (RESULTS / "made-graphs-table.md").read_text(encoding="utf-8") == made + "\n"
