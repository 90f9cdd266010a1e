"""The settings of tokens: their defaults, their limits, and what is said when they are wrong."""

import numpy as np
import pytest

from dhilgt import MemoryLimitError, Tokens, TokenSampler, TokenSpec
from tests.tokens.cases import generated_labels


@pytest.mark.parametrize(
    ("given", "num_out", "num_in"),
    [
        ({}, 16, 15),
        ({"size": 1}, 0, 0),
        ({"size": 2}, 1, 0),
        ({"size": 3}, 1, 1),
        ({"size": 33}, 16, 16),
        ({"size": 1024}, 512, 511),
        ({"num_out": 0}, 0, 31),
        ({"num_out": 31}, 31, 0),
        ({"num_in": 0}, 31, 0),
        ({"num_in": 5}, 26, 5),
        ({"num_out": 3, "num_in": 4}, 3, 4),
    ],
    ids=str,
)
def test_slots_that_are_not_assigned_are_shared_out(given, num_out, num_in):
    spec = TokenSpec(**given)
    assert (spec.num_out, spec.num_in) == (num_out, num_in)


def test_numpy_numbers_are_numbers():
    plain = TokenSpec(size=16, num_out=4, num_in=5, out_exponent=-2, in_exponent=0.5, seed=7)
    other = TokenSpec(
        size=np.int32(16),
        num_out=np.int64(4),
        num_in=np.uint8(5),
        out_exponent=np.int64(-2),
        in_exponent=np.float32(0.5),
        seed=np.uint64(7),
        spill=np.bool_(False),
    )
    assert other == plain
    assert other.to_dict() == plain.to_dict()
    assert {type(value) for value in other.to_dict().values()} == {int, float, bool, type(None)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 0}, "size = 0; pass a whole number from 1 to 1024"),
        ({"size": 1025}, "size = 1025"),
        ({"size": -3}, "size = -3"),
        ({"size": 2.0}, r"size = 2\.0"),
        ({"size": True}, "size = True"),
        ({"size": "32"}, "size = '32'"),
        ({"size": None}, "size = None"),
        ({"num_out": -1}, "num_out = -1"),
        ({"num_out": 32}, "num_out = 32; pass a whole number from 0 to 31"),
        ({"num_in": 2**70}, "num_in = 11"),
        ({"num_in": 1.5}, r"num_in = 1\.5"),
        ({"num_out": 20, "num_in": 12}, r"1 \+ num_out \+ num_in = 33 slots.*size = 32; lower"),
        ({"out_exponent": float("nan")}, "out_exponent = nan; pass a number from -64 up to 64"),
        ({"in_exponent": float("inf")}, "in_exponent = inf"),
        ({"in_exponent": -64.5}, r"in_exponent = -64\.5"),
        ({"in_exponent": "-1"}, "in_exponent = '-1'"),
        ({"out_exponent": None}, "out_exponent = None"),
        ({"out_exponent": True}, "out_exponent = True"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": 2**64}, "seed = 18446744073709551616"),
        ({"seed": 0.5}, r"seed = 0\.5"),
        ({"spill": "no"}, "spill = 'no'; pass True or False"),
        ({"spill": 1}, "spill = 1"),
        ({"fill": "neighbours"}, "fill = 'neighbours'; pass one of \"neighbors\", or None"),
        ({"fill": True}, "fill = True"),
        ({"fill": []}, r"fill = \[\]"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        TokenSpec(**given)
    with pytest.raises(ValueError, match=message):
        TokenSampler(generated_labels(), progress=False, **given)
    with pytest.raises(ValueError, match=message):
        Tokens.build(generated_labels(), progress=False, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"copies": 0}, "copies = 0; pass a whole number from 1"),
        ({"copies": -1}, "copies = -1"),
        ({"copies": 1.0}, r"copies = 1\.0"),
        ({"copies": True}, "copies = True"),
        ({"copies": 2**40}, "copies = 1099511627776"),
        ({"bits": 5}, "bits = 5; pass 8 or 4"),
        ({"bits": 8.0}, r"bits = 8\.0"),
        ({"bits": "8"}, "bits = '8'"),
        ({"nodes": [1, 2, 1]}, "nodes lists 1 2 times"),
        ({"nodes": [400]}, r"nodes\[0\] = 400"),
        ({"nodes": np.zeros(7, bool)}, "covers 7 nodes, the graph has 400"),
    ],
    ids=str,
)
def test_token_sets_that_make_no_sense_are_refused_before_work_starts(tmp_path, given, message):
    with pytest.raises(ValueError, match=message):
        Tokens.build(generated_labels(), path=tmp_path / "tokens", progress=False, **given)
    assert not list(tmp_path.iterdir())


def test_an_unknown_setting_is_refused():
    with pytest.raises(TypeError, match="sizes"):
        TokenSampler(generated_labels(), sizes=32, progress=False)


def test_specs_travel_through_plain_values():
    spec = TokenSpec(size=9, seed=2**64 - 1, fill="neighbors", spill=True)
    assert TokenSpec.from_dict({**spec.to_dict(), "copies": 3}) == spec
    with pytest.raises(KeyError, match="seed"):
        TokenSpec.from_dict({k: v for k, v in spec.to_dict().items() if k != "seed"})


@pytest.mark.parametrize(("directed", "pairs"), [(False, 496), (True, 992)])
def test_pairs_of_a_row(directed, pairs):
    assert TokenSpec().num_pairs(directed) == pairs


# ---- memory ------------------------------------------------------------------------------------


def test_holders_that_do_not_fit_are_refused_with_both_numbers():
    with pytest.raises(MemoryLimitError, match=r"need .* beyond the labels, 1 kB are allowed"):
        TokenSampler(generated_labels(), max_memory="1kB", progress=False)


def test_tables_that_do_not_fit_are_refused_with_both_numbers():
    """The tables of large rows are taken when the first row is asked for."""
    made = TokenSampler(
        generated_labels(), size=1024, max_memory="300kB", threads=1, progress=False
    )
    assert made.ids([0]).shape == (1, 1024)
    with pytest.raises(MemoryLimitError, match=r"300 kB are allowed; .*smaller size"):
        made.rows([0])


def test_rows_that_do_not_fit_into_memory_are_refused_before_they_are_drawn():
    with pytest.raises(MemoryLimitError, match=r"rows take 251 MB, 200 MB.*give a path"):
        Tokens.build(generated_labels(), copies=1000, max_memory="200MB", progress=False)
