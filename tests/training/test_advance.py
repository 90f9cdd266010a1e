"""A training in parts: `advance` to an epoch, other work, and on; the same as one `fit`."""

import signal

import pytest
import torch

from dhilgt.errors import TrainingInterrupted
from tests.training.cases import loaders, same, trainer, weights
from tests.training.test_signals import Signalling

torch.set_num_threads(1)


def whole(**changes):
    """Train in one go; return the weights and the result."""
    one = trainer(**changes)
    result = one.fit(*loaders())
    return weights(one.model), result


def test_parts_make_the_same_run_as_one_fit():
    expected, result = whole(weight_average=0.5)
    one = trainer(weight_average=0.5)
    state = one.advance(*loaders(), until=3)
    assert (state.epoch, len(state.history)) == (3, 3)
    torch.rand(5)  # other work draws random numbers
    assert one.advance(*loaders(), until=7).epoch == 7
    found = one.fit(*loaders())
    assert same(weights(one.model), expected)
    assert found.history == result.history
    assert (found.best_epoch, found.epochs) == (result.best_epoch, 10)


def test_two_trainings_in_turns_do_not_touch_each_other():
    alone, _ = whole()
    pair = trainer(), trainer()
    for until in (2, 5, 10):
        for one in pair:
            one.advance(*loaders(), until=until)
    for one in pair:
        one.fit(*loaders())
        assert same(weights(one.model), alone)


def test_a_run_past_the_epoch_is_left_as_it_is():
    one = trainer()
    one.advance(*loaders(), until=4)
    before = weights(one.model)
    assert one.advance(*loaders(), until=2).epoch == 4
    assert same(weights(one.model), before)


def test_patience_ends_a_part_too():
    one = trainer(patience=1, epochs=60)
    stopped = one.advance(*loaders(), until=60)
    assert stopped.epoch < 60
    assert one.fit(*loaders()).stopped_early


def test_a_checkpoint_goes_on_in_another_trainer():
    expected, result = whole()
    first = trainer()
    first.advance(*loaders(), until=4)
    second = trainer()
    second.restore(first.checkpoint())
    second.advance(*loaders(), until=6)
    found = second.fit(*loaders())
    assert same(weights(second.model), expected)
    assert found.history == result.history


def test_a_part_that_is_interrupted_can_be_kept():
    expected, _ = whole()
    first = trainer()
    first.advance(*loaders(), until=2)
    train, val = loaders()
    asking = Signalling(range(40), shuffle=True, at=3, signum=signal.SIGTERM)
    with pytest.raises(TrainingInterrupted):
        first.advance(asking, val, until=5)
    kept = first.checkpoint()
    assert kept.values["state"]["epoch"] == 2
    second = trainer()
    second.restore(kept)
    second.fit(train, val)
    assert same(weights(second.model), expected)


@pytest.mark.parametrize("until", [1, 10])
def test_a_stop_in_the_last_epoch_of_a_part_is_not_lost(until):
    one = trainer()
    asking = Signalling(range(40, 60), at=3 * until, signum=signal.SIGTERM)  # its last batch
    with pytest.raises(TrainingInterrupted):
        one.advance(loaders()[0], asking, until=until)


def test_a_run_that_was_ended_at_once_cannot_be_kept():
    one = trainer()
    asking = Signalling(range(40), at=2, signum=signal.SIGINT, times=2)
    with pytest.raises(TrainingInterrupted, match="at once"):
        one.advance(asking, None, until=5)
    assert one.checkpoint() is None


def test_parts_in_a_folder(tmp_path):
    expected, _ = whole()
    one = trainer(tmp_path / "run")
    one.advance(*loaders(), until=3)
    again = trainer(tmp_path / "run", resume=True)
    again.advance(*loaders(), until=5)
    again.fit(*loaders())
    assert same(weights(again.model), expected)
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 10
