"""Print the page: ``python -m tests.one_update > docs/one-update.md``."""

import sys

from tests.one_update.page import one_update

sys.stdout.write(one_update())
