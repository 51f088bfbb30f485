"""Which engine computes is one word, an argument before the environment, and never changes a bit."""

import sys

import pytest

from driftline.errors import ConfigError
from driftline.rules import choose_engine, compiled
from driftline.rules.engines import NUMPY, SWITCH


def test_numpy_computes_unless_something_else_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where numba is installed: compiling takes seconds at every start."""
    for word in (None, "", "numpy"):
        monkeypatch.delenv(SWITCH, raising=False)
        if word is not None:
            monkeypatch.setenv(SWITCH, word)
        assert choose_engine() is NUMPY
    assert str(NUMPY).startswith("update rules computed by numpy ")


def test_an_argument_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment counts where none is passed."""
    monkeypatch.setenv(SWITCH, "torch")
    assert choose_engine("numpy") is NUMPY
    with pytest.raises(ConfigError, match="DRIFTLINE_RULES: 'torch' is neither numpy nor numba"):
        choose_engine()
    with pytest.raises(ConfigError, match="rules engine: 'fast' is neither numpy nor numba"):
        choose_engine("fast")


def test_numba_that_is_asked_for_and_missing_is_an_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not numpy in silence: the user counts on the speed."""
    monkeypatch.setattr(compiled, "compile_loops", compiled.compile_loops.__wrapped__)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setenv(SWITCH, "numba")
    with pytest.raises(ConfigError, match=r"DRIFTLINE_RULES: numba cannot be imported .*'driftline\[fast\]'"):
        choose_engine()


def test_an_engine_with_other_bits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what differs."""
    found = ("9.9", lambda kernel: kernel, ("adamw {}: 3 of 3009 numbers differ",))
    monkeypatch.setattr(compiled, "compile_loops", lambda: found)
    with pytest.raises(ConfigError) as refused:
        choose_engine("numba")
    assert "numba 9.9 computes other bits on this machine; choose numpy" in refused.value.problems[0]
    assert refused.value.problems[1:] == found[2]
