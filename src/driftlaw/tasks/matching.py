"""Finding the answer in a response: the last number, compared as a number."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

# ASCII digits only: other scripts' digits are not what a grader of these tasks is asked to read.
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")
# A number longer than this is noise; comparing it would only cost time.
_LONGEST = 64


def last_number(text: str) -> Decimal | None:
    """The last number in `text`; thousands separators are not read. None if there is none."""
    found = _NUMBER.findall(text)
    if not found or len(found[-1]) > _LONGEST:
        return None
    try:
        return Decimal(found[-1])
    except InvalidOperation:
        return None
