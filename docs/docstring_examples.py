"""An extension of Griffe: ``Example:`` in a docstring becomes a block of code, as ``Examples:`` does."""

import re
from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
