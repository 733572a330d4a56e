"""Numbers of a device are as wide as it has them, and what goes there is not waited for."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from outrider.contract.devices import placed, wide, widest
from tests.devices import FAR, accelerator


def test_a_device_without_float64_computes_in_float32() -> None:
    exact = torch.tensor([1 / 3], dtype=torch.float64)
    with accelerator(with_float64=False):
        far = wide(exact, FAR)
        assert (far.dtype, far.device) == (torch.float32, FAR)
        assert wide(far, torch.device("cpu")).dtype == torch.float64
        assert wide(far.bfloat16()).dtype == torch.float32
        with pytest.raises(TypeError, match="no float64"):
            far.double()
    with accelerator():
        assert wide(exact, FAR).dtype == widest(FAR) == torch.float64


@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_a_device_that_torch_only_pretends_to_have_is_asked_too(device: str) -> None:
    with FakeTensorMode():
        far = wide(torch.ones(3), torch.device(device))
        assert (far.dtype, far.device.type) == (torch.float64, device)
        assert placed([1, 2], far.device).device == far.device
