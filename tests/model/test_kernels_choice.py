"""When the fused kernels are taken, and what the trainer does with them.

Where there is no GPU the kernels run in Triton's interpreter, on the CPU.
"""

import contextlib
import os
import re
import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton", reason="the fused kernels need the package triton")

from dhilgt.errors import TrainingWarning
from dhilgt.loader.batch import TokenBatch
from dhilgt.model import attention
from dhilgt.model.config import DHILGTConfig
from dhilgt.model.kernels import cuda_graphs as recordings
from dhilgt.model.kernels import obstacle
from dhilgt.model.kernels.attention import draw_seed
from dhilgt.training.config import TrainConfig
from dhilgt.training.optimizer import set_rate
from dhilgt.training.trainer import Trainer
from tests.model.cases import batch_of, gradients, model_of

torch.set_num_threads(1)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# ---- the choice --------------------------------------------------------------------------------


def config_of(**settings):
    values = {"in_channels": 4, "hidden_channels": 32, "out_channels": 2, **settings}
    return DHILGTConfig(**values)


def chosen(device="cuda", slots=33, dtype=torch.float32, **settings):
    return attention.choose_path(config_of(**settings), slots, torch.device(device), dtype)


def test_cuda_takes_the_kernels_by_default_and_the_cpu_does_not():
    assert chosen() == "fused"
    assert chosen("cpu") == "reference"
    assert chosen(attention="sdpa") == "sdpa"
    assert chosen(attention="reference") == "reference"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"slots": 125}, "129 slots with virtual nodes are more than the 128"),
        ({"hidden_channels": 2048}, "2048 hidden_channels are more than the 1024"),
        ({"hidden_channels": 256, "heads": 1}, "256 channels per head are more than the 128"),
        ({"ffn_channels": 5000}, "5000 ffn_channels are more than the 4096"),
        ({"dtype": torch.float64}, "not in torch.float64"),
    ],
    ids=str,
)
def test_what_does_not_fit_takes_another_path_and_says_so_once(settings, reason):
    attention._warn_once.cache_clear()
    with pytest.warns(TrainingWarning, match=reason) as caught:
        paths = {chosen(**settings) for _ in range(2)}
    assert paths == {"sdpa"}
    assert len(caught) == 1


def test_a_model_made_for_the_kernels_runs_where_they_do_not(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    attention._warn_once.cache_clear()
    model, batch = model_of(attention="fused"), batch_of()
    with pytest.warns(TrainingWarning, match="run on CUDA, not on cpu"):
        out = model(*batch)
    assert model.attention_used == "reference"
    torch.testing.assert_close(out, model_of(attention="reference")(*batch))


WITHOUT_INTERPRETER = """
import sys
import warnings

import torch

from dhilgt.errors import TrainingWarning
from dhilgt.loader.batch import TokenBatch
from dhilgt.training.config import TrainConfig
from dhilgt.training.trainer import Trainer
from tests.model.cases import batch_of, gradients, model_of

slots = int(sys.argv[1])
torch.set_num_threads(1)
inputs = batch_of(4, slots)
batch = TokenBatch(inputs, torch.arange(4) % 3, torch.arange(4))


class Loader:
    num_nodes = 4

    def __len__(self):
        return 1

    def set_epoch(self, epoch):
        pass

    def iterate(self, start_batch=0):
        return iter([batch][start_batch:])


def answers(path):
    model = model_of(attention=path)
    logits = model(*inputs).detach()
    weights = model.readout_weights(*inputs).detach()
    grads = gradients(model, inputs)
    trainer = Trainer(model, TrainConfig(epochs=2, warmup_epochs=0), device="cpu", progress=False)
    result = trainer.fit(Loader(), Loader())
    assert result.attention == "reference", result.attention
    probabilities = torch.from_numpy(trainer.predict(Loader())[1])
    return [logits, weights, *grads.values(), *model.state_dict().values(), probabilities]


expected = answers("reference")
with warnings.catch_warnings(record=True) as raised:
    warnings.simplefilter("always")
    actual = answers("fused")
assert all(torch.equal(*pair) for pair in zip(actual, expected, strict=True))
messages = [str(one.message) for one in raised if one.category is TrainingWarning]
assert len(messages) == 1, messages
print(messages[0])
"""


def without_interpreter(slots):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", WITHOUT_INTERPRETER, str(slots)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_where_kernels_cannot_run_all_of_the_work_takes_the_reference():
    # In a process of its own: Triton reads whether to interpret kernels as it is imported.
    message = without_interpreter(slots=6)
    assert 'the kernels run on CUDA, not on cpu; "reference" is used instead' in message


@pytest.mark.parametrize("setting", ["fused", "auto"])
def test_rows_too_long_for_the_kernels_reach_none_of_them(monkeypatch, setting):
    # With the kernels interpreted, or on a GPU, length alone decides.
    def launched(*_, **__):
        raise AssertionError("a kernel was launched")

    for name in ("attend_forward", "make_codes"):
        monkeypatch.setattr(f"dhilgt.model.kernels.attention.{name}", launched)
    attention._warn_once.cache_clear()
    model = model_of(attention=setting, num_virtual=2).to(DEVICE)
    batch = tuple(part.to(DEVICE) for part in batch_of(2, 127))
    silent = setting == "auto" and DEVICE.type == "cpu"  # "auto" never means kernels there
    warned = (
        contextlib.nullcontext() if silent else pytest.warns(TrainingWarning, match="129 slots")
    )
    with warned:
        grads = gradients(model, batch)
    assert model.attention_used == attention.plain_path(DEVICE)
    plain = model_of(attention=model.attention_used, num_virtual=2).to(DEVICE)
    for name, expected in gradients(plain, batch).items():
        torch.testing.assert_close(grads[name], expected)


def test_without_triton_there_is_a_reason(monkeypatch):
    monkeypatch.setattr("dhilgt.model.kernels.has_triton", lambda: False)
    reason = obstacle(config_of(), 33, torch.device("cuda"), torch.float32)
    assert reason is not None
    assert "pip install triton" in reason


def test_every_kernel_compiles_for_a_gpu():
    # The interpreter takes more than the compiler does. No GPU is needed for this.
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.model.compile_kernels"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    spilled = [int(bytes_) for bytes_ in re.findall(r"spilled (\d+)", done.stdout)]
    # The kernel of a whole layer is as fast as others only with all of its numbers on the chip, but
    # some bytes.
    assert len(spilled) == done.stdout.count("\n") > 0, done.stdout
    assert max(spilled) <= 1024
    assert sorted(spilled)[-4] == 0  # the backward pass of attention, packed or not, spills a few


def test_seeds_follow_the_generator():
    torch.manual_seed(1)
    one, two = draw_seed(DEVICE), draw_seed(DEVICE)
    torch.manual_seed(1)
    assert torch.equal(draw_seed(DEVICE), one)
    assert not torch.equal(one, two)


# ---- the trainer -------------------------------------------------------------------------------


def test_a_rate_on_the_device_is_changed_in_place():
    # A recorded step reads it where it was.
    rate = torch.tensor(1e-3)
    optimizer = torch.optim.AdamW(torch.nn.Linear(2, 2).parameters(), lr=rate)
    held = optimizer.param_groups[0]["lr"]
    set_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is held
    assert float(held) == 0.25


def test_the_result_names_the_path():
    x, index, spd = batch_of(4, 3)
    batch = TokenBatch((x, index, spd), torch.arange(4) % 3, torch.arange(4))

    class Loader:
        num_nodes = 4

        def __len__(self):
            return 1

        def set_epoch(self, epoch):
            pass

        def iterate(self, start_batch=0):
            return iter([batch][start_batch:])

    for path, used in (("auto", "reference"), ("sdpa", "sdpa")):
        config = TrainConfig(epochs=2, warmup_epochs=0)
        model = model_of(attention=path)
        result = Trainer(model, config, device="cpu", progress=False).fit(Loader())
        assert result.attention == used
        assert result.to_dict()["attention"] == used


class FakeGenerator:
    """Knows whether it draws for a recording, as PyTorch's does."""

    def __init__(self):
        self.state = {"recording": False}

    def clone_state(self):
        return dict(self.state)

    def graphsafe_set_state(self, state):
        self.state = state


@pytest.mark.parametrize("breaks", [False, True])
def test_a_recording_that_breaks_leaves_generator_and_memory_as_they_were(monkeypatch, breaks):
    generator, pools = FakeGenerator(), {"the pool"}

    @contextlib.contextmanager
    def graph(*_, **__):
        generator.state["recording"] = True
        try:
            yield
        finally:
            if breaks:  # what PyTorch does then: it raises before it has put anything back
                raise RuntimeError("operation failed due to a previous error during capture")
            generator.state["recording"] = False
            pools.clear()

    monkeypatch.setattr(torch.cuda, "default_generators", (generator,))
    monkeypatch.setattr(torch.cuda, "graph", graph)
    for name in ("stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(recordings, "recording_stream", lambda device: None)
    end = "_cuda_endAllocateToPool"
    monkeypatch.setattr(torch._C, end, lambda device, pool: pools.remove(pool), raising=False)
    broken = pytest.raises(RuntimeError, match="previous error")
    expected = broken if breaks else contextlib.nullcontext()
    with expected, recordings.recording(None, "the pool", torch.device("cuda", 0)):
        assert generator.state["recording"]
    assert not generator.state["recording"]
    assert not pools
