"""A drafter that denoises a block in steps, with a known q for each place. Exact.

A masked diffusion model has, at each step, a distribution for every place that is still masked,
given those that are not. Such drafters mostly reveal the place that they are surest of. Then the
token of place 3 may be drawn before that of place 1, from q_3, and place 1 from q_1(. | x_3).
Verified from left to right with these two, the text is not the target's: once x_1 was accepted or
not, x_3 no longer has the distribution q_3. `test_papers.py` has the enumeration.

Known and right is q where a token depends on those to its left alone. So here each step reveals
places from the left, the first one and all after it with

    max over x of q_i(x | what is revealed) >= confidence

which is decided before they are drawn. A low confidence is one pass for the block, 1 a pass for
each token; the text is the same target's in either case.
"""

from typing import final

from outrider import Context, Pen

from outrider_papers.small_model import SmallModel


@final
class Diffusion(SmallModel):
    """Denoises a block from the left, several places a step where it is sure of them.

    confidence: how likely the likeliest token of a place must be to be drawn in the same step.
    order, counts: of the small model.
    """

    def __init__(self, confidence: float = 0.5, order: int = 2, counts: str = "context") -> None:
        super().__init__(order, counts)
        self.confidence = confidence

    def propose(self, context: Context, pen: Pen) -> None:
        text = self.read(context)
        while pen.open:
            masked = self.block(text, pen.remaining)
            for place, logits in enumerate(masked):
                is_sure = float(logits.softmax(-1).max()) >= self.confidence
                if not pen.open or (place and not is_sure):
                    break
                text.append(pen.draw(logits))
