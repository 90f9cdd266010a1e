"""Real graphs, when the environment variable DHILGT_DATA names the folder that holds them."""

import os

import pytest

from tests.raw_graphs import structure

needs_data = pytest.mark.skipif(
    "DHILGT_DATA" not in os.environ, reason="DHILGT_DATA names no folder of real graphs"
)


def load(name):
    return structure(name)
