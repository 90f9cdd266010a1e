"""One choice of a device, one answer to which process this is."""

import subprocess
import sys

import pytest
import torch

from dhilgt.errors import ConfigError
from dhilgt.utils import devices
from dhilgt.utils.devices import checked_process, choose_device, free_bytes, this_process


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs, as far as the choice looks."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)


def test_devices_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ConfigError, match="device = 'cuda' is not available; use cpu"):
        choose_device("cuda")


@pytest.mark.parametrize("name", ["cuda:99", "gpu", "xpu", "", 3.5, None])
def test_a_device_that_is_not_available_is_named_with_those_that_are(name):
    with pytest.raises(ConfigError, match="is not available; use cpu") as error:
        choose_device(name)
    assert repr(str(name)) in str(error.value)


@pytest.mark.usefixtures("gpus")
def test_a_gpu_without_a_number_gets_one(monkeypatch):
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda:0")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ConfigError, match="use cpu, cuda:0, cuda:1"):
        choose_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert choose_device("auto") == torch.device("cuda:1")


@pytest.mark.usefixtures("gpus")
def test_each_of_several_processes_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "6")
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert this_process() == (5, 6, 3)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda:1")
    assert choose_device("cuda:0") == torch.device("cuda:0")


def test_a_process_alone_has_no_local_rank(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert this_process() == (0, 1, 0)
    assert this_process().is_alone


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RANK": "one"}, "RANK and WORLD_SIZE must be whole numbers"),
        ({"WORLD_SIZE": "2.5"}, "RANK and WORLD_SIZE must be whole numbers"),
        ({"WORLD_SIZE": "0"}, "world_size = 0"),
        ({"WORLD_SIZE": "4", "RANK": "4"}, "rank = 4"),
    ],
    ids=str,
)
def test_a_wrong_environment_is_refused(monkeypatch, variables, words):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=words):
        this_process()


def test_a_rank_beyond_the_world_is_refused():
    assert checked_process(1, 2) == (1, 2, 0)
    with pytest.raises(ConfigError, match="rank = 2"):
        checked_process(2, 2)


def test_the_process_is_known_without_pytorch():
    code = (
        "import sys; from dhilgt.utils.devices import this_process; this_process(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_free_memory(monkeypatch):
    monkeypatch.setattr(devices, "available_bytes", lambda: 7)
    assert free_bytes(torch.device("cpu")) == 7
    assert free_bytes(torch.device("meta")) is None
