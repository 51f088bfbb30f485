"""Children of a script's process: they join no run."""

import subprocess
import sys
from pathlib import Path

import pytest

SPAWNING = """
import multiprocessing
from driftline.training.optimizer.offer import check_process

def work():
    print("worked", flush=True)

check_process()
print("imported", flush=True)
if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=work)
    child.start()
    child.join()
    print("ended", child.exitcode, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_an_optimizer_outside_main_is_refused_in_a_child_that_imports_the_script(method: str, tmp_path: Path) -> None:
    """Each data process would join the run; a forked child imports nothing, and may train."""
    script = tmp_path / "script.py"
    script.write_text(SPAWNING.format(method=method))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    if method == "fork":
        assert done.stdout == "imported\nworked\nended 0\n"
    else:
        assert done.stdout == "imported\nended 1\n"
        assert "Make it under if __name__ == '__main__'" in done.stderr
