"""Check of the fused path on a GPU against the reference in float64: `python -m bench.gpu_check`.

The test suite does the same and more where pytest is; this needs PyTorch and Triton alone.
"""

import torch
from torch.nn.functional import cross_entropy

from dhilgt.benchmark.speed.cases import Batch, Step, draw_batch
from dhilgt.model.dhilgt import DHILGT
from dhilgt.model.kernels.cuda_graphs import StepGraphs

# Relative distance of logits and of all gradients together.
TOLERANCE = {"fp32": 5e-5, "bf16": 6e-2}
CUDA = torch.device("cuda")
SIZES = [(1, 128, 8), (12, 128, 90), (31, 64, 250), (32, 128, 8), (60, 128, 8), (64, 256, 40)]


def error(computed: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the norm of the error relative to that of the exact tensor."""
    return float((computed.double() - exact).norm() / exact.norm())


def gradient(model: DHILGT) -> torch.Tensor:
    """Return all gradients in one row."""
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def agreement(
    precision: str, packing: str, slots: int, width: int, high: int
) -> tuple[float, float]:
    """Return the errors of logits and gradients, without dropout and with random biases."""
    x, index, spd, classes = draw_batch(CUDA, 96, slots, 0.7, 500)
    far = torch.randint(1, high, spd.shape, device=CUDA, dtype=torch.uint8)
    far[torch.rand(far.shape, device=CUDA) < 0.1] = 255
    far[torch.rand(far.shape, device=CUDA) < 0.1] = 254
    step = Step("fused", precision, (x, index, far, classes), width, packing=packing)
    ours = step.model.eval()
    for name, parameter in ours.named_parameters():
        if name.endswith("_bias"):
            torch.nn.init.normal_(parameter)
    exact = DHILGT(x.shape[1], width, ours.config.out_channels, attention="reference")
    exact.load_state_dict(ours.state_dict())
    exact = exact.to(CUDA).double().eval()
    expected = exact(x.double(), index, far)
    cross_entropy(expected, classes).backward()
    with step.context():
        logits = ours(x, index, far)
    cross_entropy(logits.float(), classes).backward()
    assert ours.attention_used == "fused", ours.attention_used
    return error(logits.detach(), expected.detach()), error(gradient(ours), gradient(exact))


def repeats(precision: str, batch: Batch) -> bool:
    """Return whether training passes with one seed give the same bits, recomputing or not."""
    gradients = []
    for recompute in (False, False, True):
        step = Step("fused", precision, batch, 128, recompute=recompute)
        torch.manual_seed(3)
        with step.context():
            logits = step.model(*batch[:3])
        cross_entropy(logits.float(), batch[3]).backward()
        gradients.append(gradient(step.model).clone())
    return all(torch.equal(gradients[0], other) for other in gradients[1:])


def recorded(precision: str, batch: Batch) -> float:
    """Return the error of the weights after recorded steps, relative to plain ones."""
    weights = []
    for record in (False, True):
        step = Step("fused", precision, batch, 128)
        graphs = StepGraphs(step.model, step.optimizer, None, step.context)
        torch.manual_seed(4)
        for number in range(6):
            if not (record and number):
                step.train()
            elif graphs.step(batch[:3], batch[3]) is None:
                return float("inf")
        weights.append(torch.cat([p.detach().flatten() for p in step.model.parameters()]))
    return error(weights[1], weights[0].double())


def main() -> None:
    """Check everything; the exit status is 0 if all errors are within the tolerance."""
    ok = True
    for precision, most in TOLERANCE.items():
        for packing in ("off", "on"):
            for size in SIZES:
                logits, gradients = agreement(precision, packing, *size)
                good = logits < most and gradients < most
                ok &= good
                errors = f"logits {logits:.1e}, gradients {gradients:.1e}"
                what = f"{precision}, packing {packing}, {size}"
                print(f"{what}: {errors}", "" if good else "BAD", flush=True)
        batch = draw_batch(CUDA, 534, 32, 0.6, 890)
        same, apart = repeats(precision, batch), recorded(precision, batch)
        # Adam takes steps of full size also for gradients that are noise around zero.
        ok &= same and apart < max(most, 2e-3)
        print(f"{precision}: repeats {same}, recorded steps off by {apart:.1e}", flush=True)
    raise SystemExit(0 if ok else "the fused path is off")


if __name__ == "__main__":
    main()
