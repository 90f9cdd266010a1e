"""A thousand damages to files of every kind: none gives other results without a word."""

import warnings
from collections import Counter

import pytest
import torch

from dhilgt.store.files import FileOps
from tests.mutation_cases import DAMAGES, KINDS, PARTS, REBUILT, REFUSED, REPLACED, SAME, Bench

ALLOWED = {REFUSED, REBUILT, SAME, REPLACED}
FEW, MANY = 12, 77


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(FileOps, "fsync", lambda *_: None)  # the cache is written again and again
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the input was cleaned")
        yield
    torch.set_num_threads(before)


def outcomes(kind, folder, count):
    bench = Bench(kind, folder)
    found = [bench.outcome(number) for number in range(count)]
    wrong = [one for one in found if one.verdict not in ALLOWED]
    # Only a whole artifact may take the place of another.
    wrong += [one for one in found if one.verdict == REPLACED and not one.damage.startswith("take")]
    assert wrong == []
    return Counter(one.verdict for one in found)


@pytest.mark.parametrize("kind", KINDS)
def test_some_damages_of_every_kind(kind, tmp_path):
    counts = outcomes(kind, tmp_path, FEW)
    assert counts[REFUSED] + counts[REBUILT] >= FEW / 3


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_damages(kind, tmp_path):
    assert MANY * len(KINDS) >= 1000
    counts = outcomes(kind, tmp_path, MANY)
    print(f"{kind}: {dict(counts)}")
    if kind in PARTS:
        assert counts[REPLACED] == 0


def test_every_way_to_damage_is_among_the_few():
    assert len(DAMAGES) <= FEW
