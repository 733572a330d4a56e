"""Numbers of a device are as wide as it has them, and what goes there is not waited for."""

import pytest
import torch

from outrider.contract.devices import wide, widest
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
