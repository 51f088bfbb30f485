"""docs/optimizer.md: each row of its table is held by a test."""

import ast
import re

import pytest

from tests.support import ROOT

PAGE = (ROOT / "docs" / "optimizer.md").read_text()
TESTS = (
    *sorted((ROOT / "tests" / "unit").glob("**/test_*.py")),
    *sorted((ROOT / "tests" / "integration").glob("test_scripts*.py")),
)

HELD_BY = {
    "`zero_grad()`, hooks": "test_step_hooks",
    "a learning rate scheduler of the Optimizer": "test_scheduler",
    'a learning rate scheduler with `schedule="script"`': "test_a_scheduler_counts",
    "a scheduler of the wrapped optimizer": "test_scheduler_of_the_wrapped_optimizer",
    "`clip_grad_norm_`": "test_clip_grad_norm",
    "gradient accumulation": "test_gradient_accumulation",
    "a closure": "test_closure",
    "`GradScaler`": "test_grad_scaler",
    "gradients that are not finite": "test_gradients_that_are_not_finite",
    "parameters without a gradient": "test_parameters_without_a_gradient",
    "frozen parameters": "test_frozen_parameters",
    "tied weights": "test_tied_weights",
    "buffers, such as those of BatchNorm": "test_batch_norm",
    "parameters in bfloat16 or float16": "test_bfloat16",
    "parameter groups": "test_parameter_groups",
    "`add_param_group()` later": "test_add_param_group",
    "LBFGS, RMSprop": "test_other_rules",
    "sparse gradients": "test_sparse_gradients",
    "an exponential moving average": "test_ema",
    "`torch.compile`": "test_compile",
    "`DataParallel`": "test_wrapper",
    "several optimizers, one model": "test_several_optimizers_of_one_model",
    "weights that the script changes": "test_changed_weights_are_refused_at_the_next_step",
    "momentum, betas, weight decay": "test_other_numbers_of_a_group_that_a_script_changes_are_named_once",
    "a frozen layer": "test_a_layer_that_is_to_learn_later_is_named_once",
    "tools that read the optimizer's state": "test_a_tool_that_reads_the_optimizers_state_makes_no_step",
    "a module with extra state": "test_extra_state_is_refused_by_name",
    "parameters that are spread over devices": "test_a_parameter_that_is_spread_over_devices_is_refused_by_name",
    "an Optimizer at module level": "test_an_optimizer_outside_main_is_refused_in_a_child_that_imports_the_script",
    "`copy.deepcopy`, `pickle`": "test_copies_are_refused",
    "`load_state_dict()`": "test_the_state_says_where_the_state_is",
    "a `DataLoader` with worker processes": "test_data_loader_workers",
    "a `DataLoader` with `driftline.Sampler`": "test_sampler",
    "`driftline.Sampler` with `drop_last`": "test_sampler_drop_last",
    "a `DataLoader` with a batch sampler": "test_sampler_in_batches",
    "`driftline.Sampler` and gradient accumulation": "test_sampler_with_accumulation",
    "a loop over a `driftline.Sampler` that ends early": "test_samples_that_were_drawn_and_not_used_are_drawn_again",
    "a loader that reads too far ahead": "test_a_loader_that_draws_too_far_ahead_is_refused",
    "`step()` in a forked child": "test_a_step_in_a_forked_child_is_refused",
    "a notebook's cell that is run again": "test_a_cell_that_is_run_again_takes_over",
    "an Optimizer that is garbage collected": "test_an_optimizer_that_is_dropped_leaves",
    "Ctrl-C in a wait": "test_an_interrupt_ends_a_wait",
    "a wait that takes longer": "test_a_wait_names_the_members_it_is_for_and_the_next_step_goes_on",
    "`pull()` between": "test_pull_between_backward_and_step_is_refused",
    "the run's end": "test_a_run_with_an_end",
    "a loop over a `driftline.Sampler` that never asks": "test_a_loop_that_does_not_ask_whether_the_run_has_ended",
    "SIGTERM, SIGHUP": "test_a_closed_terminal_ends_it_too_unless_it_is_ignored",
    "local steps, time boxes": "test_settings_that_cannot_be_are_refused_together",
}
"""How a row begins → the test that holds it."""


def rows() -> list[str]:
    """Return the first cell of every row of the table."""
    table = PAGE.partition("## What happens with")[2].partition("\n## ")[0]
    return [row for row in re.findall(r"^\| (.+?) \|", table, re.MULTILINE) if row != "what"]


def test_every_row_has_a_test_and_every_test_a_row() -> None:
    """No promise without a test; no test of a row that is gone."""
    unheld = [row for row in rows() if not any(row.startswith(start) for start in HELD_BY)]
    orphans = [start for start in HELD_BY if not any(row.startswith(start) for row in rows())]
    assert (unheld, orphans) == ([], [])


@pytest.mark.parametrize("name", sorted(set(HELD_BY.values())))
def test_the_tests_are_there(name: str) -> None:
    """Under the names that the table above says."""
    functions = {
        node.name for file in TESTS for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)
    }
    assert name in functions


def test_the_page_names_every_member() -> None:
    """And every name of the package."""
    for name in ("step(", "pull(", "close(", "version", "done", "state_dict(", "load(", "follow(", "verify(", "train("):
        assert name in PAGE


def test_the_plain_script_and_the_one_of_a_run_differ_in_one_line_and_its_import() -> None:
    """Nothing else has to change."""
    alone, together = ((ROOT / "examples" / name).read_text() for name in ("plain_loop_alone.py", "plain_loop.py"))
    before, after = alone.splitlines(), together.splitlines()
    removed = [line for line in before if line not in after]
    added = [line for line in after if line not in before]
    assert removed == ["opt = torch.optim.AdamW(model.parameters(), lr=3e-3)"]
    assert added == [
        "import driftline",
        'opt = driftline.Optimizer(torch.optim.AdamW(model.parameters(), lr=3e-3), model, "kafka:///plain-loop", workers=2)',  # noqa: E501 - as it is
    ]
    rest = [line for line in after if line != added[0]]
    assert [line if line != added[1] else removed[0] for line in rest if line] == [line for line in before if line]
