# Two images: `server`, for servers and for looking at runs, without torch; and `worker`, with it.
#
#   docker build --target server --tag driftline-server .
#   docker build --target worker --tag driftline-worker .
#
# Any base with Python 3.11 or newer (its venv module included), useradd and flock will do.
ARG BASE=python:3.13-slim-bookworm


# What builds the images, and is in none of them: pip installs uv by its hash, uv installs the rest.
FROM ${BASE} AS build
WORKDIR /build
COPY requirements-uv.txt ./
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --require-hashes -r requirements-uv.txt
ENV PATH=/opt/uv/bin:$PATH UV_NO_CACHE=1 UV_PYTHON=/opt/driftline UV_COMPILE_BYTECODE=1
RUN python3 -m venv --without-pip /opt/driftline
COPY pyproject.toml requirements-dev.txt ./


FROM build AS wheel
RUN uv pip install --constraint requirements-dev.txt hatchling
COPY . .
RUN uv build --wheel --no-build-isolation --out-dir /wheel


FROM ${BASE} AS base
# The folder's owner becomes that of a named volume that is mounted there for the first time.
RUN useradd --uid 1000 --create-home driftline \
    && install --directory --owner driftline /var/lib/driftline /var/lib/driftline/members
COPY deploy/as-member /usr/local/bin/
ENV PATH=/opt/driftline/bin:$PATH PYTHONUNBUFFERED=1 DRIFTLINE_HOME=/var/lib/driftline
WORKDIR /work
USER driftline
# In exec form, so that SIGTERM reaches Python and no shell.
ENTRYPOINT ["driftline"]


# A constraint brings versions and hashes along and installs nothing; requirements-dev.txt has those of every extra.
FROM build AS server-packages
ARG SERVER_EXTRAS="--extra metrics"
RUN uv pip install --constraint requirements-dev.txt -r pyproject.toml ${SERVER_EXTRAS}
COPY --from=wheel /wheel /wheel
RUN uv pip install --no-deps /wheel/*.whl


FROM base AS server
COPY --from=server-packages /opt/driftline /opt/driftline


# TORCH=cpu takes the pinned version from PyTorch's own index of builds for the CPU, whose hashes are not pinned.
# TORCH=pinned takes the pinned build by its hash: on Linux with CUDA, 5 GB more.
FROM build AS worker-packages
ARG TORCH=cpu
ARG WORKER_EXTRAS="--extra train --extra metrics"
RUN case "${TORCH}" in \
        cpu) uv pip install --no-deps --torch-backend cpu "$(grep --only-matching '^torch==[^ ;]*' requirements-dev.txt)" ;; \
        pinned) ;; \
        *) echo "TORCH is '${TORCH}'; it must be cpu or pinned" >&2; exit 2 ;; \
    esac && uv pip install --constraint requirements-dev.txt -r pyproject.toml ${WORKER_EXTRAS}
COPY --from=wheel /wheel /wheel
RUN uv pip install --no-deps /wheel/*.whl


FROM base AS worker
COPY --from=worker-packages /opt/driftline /opt/driftline
