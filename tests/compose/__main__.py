"""`python -m tests.compose`: run docker-compose.yml for real, from the build of the images to the end of a run."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from driftline.broker.embedded.files import cache_root
from tests.compose import stand_in, story
from tests.compose.engine import Engine, NotRunnable, own_engine, running_engine
from tests.compose.stack import Stack
from tests.support import ROOT

BUILD_S = 3600.0


@click.command()
@click.option(
    "--stand-in", "stands_in", is_flag=True,
    help="Start an engine for this, and make stand-ins for the images that a registry would hold (Debian, root).",
)  # fmt: skip
@click.option("--build/--no-build", "builds", default=True, help="Our images; else as they are from last time.")
def main(*, stands_in: bool, builds: bool) -> None:
    """Build, start, scale, stop and continue a run in containers, and take everything away again."""
    began_s = time.monotonic()
    try:
        with _engine(stands_in=stands_in) as (engine, variables):
            if builds:
                _build(engine, variables)
            stack = Stack(engine, variables)
            try:
                story.tell(stack)
            except AssertionError:
                click.echo(stack.compose("logs", "--no-color", "--tail", "15"), err=True)
                raise
            finally:
                stack.remove()
    except NotRunnable as error:
        click.echo(f"compose-test: {error}", err=True)
        sys.exit(2)
    click.echo(f"compose-test passed in {time.monotonic() - began_s:.0f} s; no container, network or volume is left")


@contextmanager
def _engine(*, stands_in: bool) -> Iterator[tuple[Engine, dict[str, str]]]:
    if not stands_in:
        yield running_engine(), {}
        return
    kept = cache_root() / "compose-test"
    kept.mkdir(parents=True, exist_ok=True)
    click.echo(f"an engine of our own; its images are kept for the next time, in {kept} (remove it to make room)")
    with own_engine(kept / "engine") as engine:
        with story.step("stand-ins for python and apache/kafka") as say:
            stand_in.make_images(engine, kept)
            say(f"{stand_in.PYTHON}, {stand_in.KAFKA}")
        # PyTorch's own index is not reached either, so torch comes as pinned, with CUDA.
        yield engine, {"KAFKA_IMAGE": stand_in.KAFKA, "BASE": stand_in.PYTHON, "TORCH": "pinned"}


def _build(engine: Engine, variables: dict[str, str]) -> None:
    for role in ("server", "worker"):
        with story.step(f"docker build --target {role}") as say:
            arguments = [
                word
                for name in ("BASE", "TORCH")
                if name in variables
                for word in ("--build-arg", f"{name}={variables[name]}")
            ]
            image = f"driftline-{role}"
            network = ("--network", "host") if variables.get("BASE") == stand_in.PYTHON else ()
            build = ("build", *network, *arguments, "--target", role, "--tag", image, str(ROOT))
            engine.docker(*build, timeout_s=BUILD_S)
            size = int(engine.docker("image", "inspect", "--format", "{{.Size}}", image))
            say(f"{image}: {size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
