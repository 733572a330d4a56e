"""Local convolutions: tokens mix with the one before them, within their block."""

import torch

from outrider.drafters.dflash.network import GROUP, LocalConvolution

WIDTH, BLOCK = 2 * GROUP, 3


def test_a_new_convolution_changes_nothing() -> None:
    x = torch.randn(2, 2 * BLOCK, WIDTH)
    assert torch.equal(LocalConvolution(WIDTH, BLOCK)(x, torch.sin), x.sin())


def test_each_channel_has_a_coefficient_and_each_group_an_addition() -> None:
    convolution = LocalConvolution(WIDTH, BLOCK)
    for weight in convolution.parameters():
        torch.nn.init.normal_(weight)
    base = convolution.base_kernel
    x = torch.randn(1, 2 * BLOCK, WIDTH)
    added = convolution.kernel_projection(x[0]).view(2 * BLOCK, 2, 2, WIDTH // GROUP)

    def convolved(rows: torch.Tensor, side: int) -> torch.Tensor:
        out = torch.zeros_like(rows)
        for token in range(2 * BLOCK):
            for channel in range(WIDTH):
                own, before = base[side, :, channel] + added[token, side, :, channel // GROUP]
                out[token, channel] = own * rows[token, channel]
                if token % BLOCK:
                    out[token, channel] += before * rows[token - 1, channel]
        return out

    with torch.no_grad():
        right = convolved(convolved(x[0], 0).sin(), 1)
        torch.testing.assert_close(convolution(x, torch.sin)[0], right)
