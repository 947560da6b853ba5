"""Griffe extension: render ``Example:`` in a docstring like ``Examples:``, as a code block."""

import re
from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
