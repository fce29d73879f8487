"""Sliders whose values stay in their range, whatever is typed into the box beside them."""

import math
from typing import Any

__all__ = ["Slider"]


class Slider:
    """A slider of the page. With each key its number box sends what stands there so far: for 0.5 first a 0."""

    def __init__(self, handle: Any) -> None:
        """handle: viser's."""
        self.handle = handle
        self._last = handle.value

    @property
    def value(self) -> float:
        """Between the slider's own ends; what is no number leaves it where it was."""
        if math.isfinite(self.handle.value):
            self._last = self.handle.value
        return min(max(self._last, self.handle.min), self.handle.max)
