"""What every section of settings is made of: numbers read strictly, unknown keys refused."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _real(value: Any) -> Any:
    """Accept 1, 1.5 and the YAML 1.1 trap `1e-4` (which YAML reads as text); refuse true and text."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError("must be a number") from None
    if isinstance(value, (int, float)) and not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Real = Annotated[float, BeforeValidator(_real)]
Int = Annotated[int, Field(strict=True)]


class Section(BaseModel):
    """A group of settings: unknown keys are errors, values never change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
