"""``driftline chaos``: train while things go wrong on purpose, then prove the run."""

import click

from driftline.cli.options import say


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog='Example: driftline chaos "kill server-1@50, pause worker-2@80 for 5s" digits --steps 120',
)
@click.argument("faults")
@click.argument("training", nargs=-1, type=click.UNPROCESSED, metavar="TASK [OPTIONS OF train]...")
@click.pass_context
def chaos(context: click.Context, faults: str, training: tuple[str, ...]) -> None:
    """Train TASK, let FAULTS happen, and prove the run when it is over.

    The same as `driftline train TASK --chaos FAULTS`, and then `driftline verify`: exit code 0 means that the run
    reached its end, and that recomputing its log gives the recorded bits. docs/chaos.md says what FAULTS may be.
    """
    from driftline.cli.train import train  # noqa: PLC0415 - keeps --help fast
    from driftline.cli.verify import verify  # noqa: PLC0415 - ditto

    with train.make_context("train", ["--chaos", faults, *training], parent=context.parent) as inner:
        run = train.invoke(inner)
        where = _where(inner)
    say(f"proving run {run}")
    with verify.make_context("verify", [run, *where], parent=context.parent) as inner:
        verify.invoke(inner)


def _where(training: click.Context) -> list[str]:
    """Return the options by which `verify` finds the same Kafka; what variables and files say it finds itself."""
    options = {"bootstrap_servers": "--bootstrap-servers", "home": "--home", "config": "--config"}
    found = {options[name]: value for name, value in training.params.items() if name in options and value is not None}
    return [word for option, value in found.items() for word in (option, str(value))]
