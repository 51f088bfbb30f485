"""The tasks that come with driftline, by the name that the command line knows.

The values say where a task is, and nothing is imported before it is asked for: listing them needs no torch.
"""

from collections.abc import Mapping
from types import MappingProxyType

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "digits": "driftline.training.task.builtin.digits:Digits",
        "fashion": "driftline.training.task.builtin.fashion:Fashion",
    }
)
