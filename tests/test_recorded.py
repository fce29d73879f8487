"""Work that is recorded: on a CPU a plain call, on a GPU the same results replayed."""

from functools import partial

import pytest
import torch
from torch import Tensor

from skillfield.recorded import Recorded

CPU = torch.device("cpu")


def leak(level: Tensor, inflow: Tensor) -> tuple[Tensor, Tensor]:
    """Half of what is there runs out, the inflow comes in: the doubled level, and all of it. Changes the level."""
    level.mul_(0.5).add_(inflow)
    return 2 * level, level.sum()


def test_on_a_cpu_it_is_simply_called() -> None:
    """Every time, with the very tensors that were given, of any shape, and what it returns is handed on as it is."""
    given: list[tuple[Tensor, ...]] = []
    returned: list[Tensor] = []

    def work(*inputs: Tensor) -> Tensor:
        given.append(inputs)
        returned.append(torch.zeros(2))
        return returned[-1]

    recorded = Recorded(work, CPU)
    inputs = [(torch.ones(count), torch.ones(count, 3)) for count in range(1, 7)]
    results = [recorded(*each) for each in inputs]
    assert len(given) == 6
    for ours, theirs in zip(given, inputs, strict=True):
        assert ours[0] is theirs[0]
        assert ours[1] is theirs[1]
    assert all(ours is theirs for ours, theirs in zip(results, returned, strict=True))


def test_state_is_changed_once_per_call() -> None:
    """From 8, with an inflow of 1: 5, 3.5, 2.75, 2.375, 2.1875; no call rehearses."""
    level = torch.tensor([8.0])
    recorded = Recorded(partial(leak, level), CPU)
    totals = [float(recorded(torch.ones(1))[1]) for _ in range(5)]
    assert totals == [5.0, 3.5, 2.75, 2.375, 2.1875]


def test_an_error_of_the_work_is_not_hidden() -> None:
    """It comes out as it was raised."""

    def work(number: Tensor) -> Tensor:
        raise ValueError("no such number")

    with pytest.raises(ValueError, match="no such number"):
        Recorded(work, CPU)(torch.ones(1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_recording_with_state_does_what_plain_calls_do() -> None:
    """Ten calls, rehearsed, recorded and replayed, each with new inputs: the same results and the same state."""
    device = torch.device("cuda")
    ours, theirs = (torch.full((100, 3), 8.0, device=device) for _ in range(2))
    recorded = Recorded(partial(leak, ours), device)
    places = []
    for call in range(10):
        inflow = torch.rand(100, 3, device=device) + call
        result = recorded(inflow)
        places.append(result[0].data_ptr())
        for replayed, plain in zip(result, leak(theirs, inflow), strict=True):
            torch.testing.assert_close(replayed, plain, rtol=0, atol=0)
        assert torch.equal(ours, theirs)
        del inflow  # a recording that kept the address of its first input would read what comes next
    assert len(set(places[3:])) == 1  # what it returns lies where it lay: it has been recorded


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_fused_recording_draws_anew_each_time() -> None:
    """Noise that is compiled and recorded differs from call to call, and has the mean and spread that it should."""
    device = torch.device("cuda")
    recorded = Recorded(lambda mean: mean + torch.randn_like(mean), device)
    recorded.fuse()
    drawn = torch.stack([recorded(torch.full((1000,), 5.0, device=device)).clone() for _ in range(10)])
    assert drawn.unique(dim=0).shape == drawn.shape
    assert abs(float(drawn.mean()) - 5.0) < 0.05
    assert abs(float(drawn.std()) - 1.0) < 0.05
