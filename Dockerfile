# syntax=docker/dockerfile:1
# docker build -t decomposerl .                  the UI and every command, on a processor
# docker build -t decomposerl:gpu --target gpu . the same with vLLM; needs the NVIDIA container toolkit to run
# docs/how-to/docker.md has the commands that run them.

FROM python:3.11-slim-bookworm AS base
ENV DECOMPOSERL_DATA=/data \
    DAGSTER_HOME=/data/.dagster_home \
    HF_HOME=/data/hub \
    OMP_NUM_THREADS=1 \
    PYTHONUNBUFFERED=1
RUN useradd --create-home --uid 1000 decomposerl && install --directory --owner=decomposerl /data
WORKDIR /app
COPY . .
ENTRYPOINT ["/app/docker/start"]
CMD ["dagster", "dev", "--host", "0.0.0.0", "--port", "3000", "--workspace", "workspace.yaml"]
EXPOSE 3000
VOLUME /data

# torch brings CUDA; Triton compiles its kernels with gcc.
FROM base AS gpu
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc g++ libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install -c constraints-gpu.txt -e ".[web,science,gpu,hub,retrieve,rewards]"
USER 1000
# For the processor that builds; another one compiles again.
RUN python -m decomposerl.kernels.ahead_of_time

FROM base AS cpu
ARG PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install ${PIP_ARGS} -c constraints-cpu.txt -e ".[web,embed,science,train,hub,retrieve,rewards]"
USER 1000
# For the processor that builds; another one compiles again.
RUN python -m decomposerl.kernels.ahead_of_time
