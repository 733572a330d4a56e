"""Rows that are appended, cropped and moved, in a buffer that doubles."""

import math
from mmap import mmap
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

SPARE = 256
"""How many rows a new buffer has room for beyond those needed."""


@final
class GrowingTensor:
    """A tensor that grows along its second to last dimension, mostly without copying its rows.

    Its content is the first part of a larger buffer: appending writes after it, and
    cropping moves its end. In training, where a backward pass needs unchanged tensors,
    `concatenate` replaces `append`.

    spare: how many rows to make room for beyond those needed. Defaults to 256.
    zeros: whether a new buffer is filled with zeros. By default it is uninitialised.
    """

    def __init__(self, *, spare: int = SPARE, zeros: bool = False) -> None:
        self._spare, self._zeros = spare, zeros
        self._buffer: Tensor | None = None
        self._length = 0
        self._is_shared = False  # with a backward pass, which needs the buffer unchanged

    def __len__(self) -> int:
        """Returns the number of rows that are in use."""
        return self._length

    @property
    def content(self) -> Float[Tensor, "*outer rows width"]:
        """Returns the rows in use, as a view that later calls may change."""
        assert self._buffer is not None
        return self._buffer.narrow(-2, 0, self._length)

    def append(self, new: Float[Tensor, "*outer new width"]) -> Float[Tensor, "*outer rows width"]:
        """Appends rows, and returns all that are in use."""
        self.place(new).copy_(new)
        return self.content

    def place(self, new: Float[Tensor, "*outer new width"]) -> Float[Tensor, "*outer new width"]:
        """Appends as many rows as `new` has, and returns them, for `new` to be copied there."""
        return self.extend(new).narrow(-2, self._length - new.shape[-2], new.shape[-2])

    def extend(
        self, new: Float[Tensor, "*outer new width"]
    ) -> Float[Tensor, "*outer capacity width"]:
        """Reserves as many rows as `new` has, and returns the buffer that they are to be put in."""
        buffer = self.reserve(self._length + new.shape[-2], new)
        self._length += new.shape[-2]
        return buffer

    def concatenate(
        self, new: Float[Tensor, "*outer new width"]
    ) -> Float[Tensor, "*outer rows width"]:
        """Appends rows like `append`, in a new tensor that gradients flow through."""
        self._buffer = torch.cat([self.content, new], dim=-2) if self._length else new
        self._length, self._is_shared = self._buffer.shape[-2], True
        return self._buffer

    def reserve(
        self, rows: int, like: Float[Tensor, "*outer any width"]
    ) -> Float[Tensor, "*outer capacity width"]:
        """Makes room for at least `rows` rows, and returns the whole buffer, used and unused.

        like: a tensor of the shape, precision and device to use if there is no buffer yet.
        """
        old = self._buffer
        if old is not None and rows <= old.shape[-2] and not self._is_shared:
            return old
        like = like if old is None else old
        capacity = rows + self._spare if old is None else max(rows + self._spare, 2 * old.shape[-2])
        shape = (*like.shape[:-2], capacity, like.shape[-1])
        self._buffer = _zeros(like, shape) if self._zeros else like.new_empty(shape)
        if old is not None:
            self._buffer.narrow(-2, 0, old.shape[-2]).copy_(old)
        self._is_shared = False
        return self._buffer

    def crop(self, length: int) -> None:
        """Keeps the first `length` rows."""
        self.hold(min(self._length, length))

    def hold(self, length: int) -> None:
        """Takes the first `length` rows of the buffer for its content."""
        self._length = length

    def clear(self) -> None:
        """Forgets all rows, so that nothing of them, not even what is no number, is multiplied."""
        self._length = 0
        if self._buffer is not None:
            with torch.inference_mode():
                self._buffer.zero_()

    def retain_rows(self, start: int, rows: Int[Tensor, "retained"]) -> None:
        """Moves some rows to `start` and the positions after it, in order, and drops the others.

        rows: the indices of these rows, counted from the first row of the content.
        """
        if self._buffer is None:
            return
        buffer = self.reserve(self._length, self._buffer)
        buffer.narrow(-2, start, len(rows)).copy_(buffer.index_select(-2, rows))
        self._length = start + len(rows)

    def select(self, indices: Int[Tensor, "selected"]) -> None:
        """Keeps some entries of the first dimension, such as the texts of a batch.

        The buffer stays where it is if there are as many of them as before.
        """
        if self._buffer is not None:
            chosen, is_whole = self._buffer[indices], len(indices) == len(self._buffer)
            self._buffer = self._buffer.copy_(chosen) if is_whole else chosen


def _zeros(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Returns a tensor of zeros, with the precision and device of `like`.

    On a CPU the system hands out zeros where they are first used, so a buffer that stays partly
    unused costs neither the time nor the memory of all of it. NumPy's would come in pages of two
    megabytes, of which a text uses a part.
    """
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    memory = mmap(-1, math.prod(shape) * like.element_size())
    return torch.frombuffer(memory, dtype=like.dtype, count=math.prod(shape)).view(shape)
