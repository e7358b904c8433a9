# The image of the worker with the diffusers runtime, for NVIDIA's GPUs. torch brings the libraries of CUDA that
# it needs, so the base can be the smallest with which the driver works; it must have Python 3.11 or newer.
# docs/operators/images.md describes it.
ARG BASE=nvidia/cuda:13.0.1-base-ubuntu24.04
FROM ${BASE}

# The versions are those of the release of Ubuntu, with its security updates. triton compiles code when it runs.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates ffmpeg gcc libc6-dev python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o 65532 -g 65532 -m 0700 /var/lib/reelay-agent

# The layer of the packages, 7 GB, changes with their versions only.
COPY gpu/runtimes/diffusers/requirements.txt /opt/runtime/requirements.txt
RUN python3 -m venv /opt/runtime/venv \
    && /opt/runtime/venv/bin/python -m pip install --no-cache-dir --only-binary :all: --no-deps --require-hashes -r /opt/runtime/requirements.txt
COPY gpu/runtimes/python/reelay_runtime /opt/runtime/lib/reelay_runtime
COPY gpu/runtimes/diffusers/reelay_diffusers /opt/runtime/lib/reelay_diffusers

ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Reelay agent with diffusers" \
      org.opencontainers.image.description="Turns prompts into videos on GPUs that may vanish: the worker with the diffusers runtime" \
      org.opencontainers.image.url="https://github.com/reelay/reelay" \
      org.opencontainers.image.source="https://github.com/reelay/reelay" \
      org.opencontainers.image.documentation="https://github.com/reelay/reelay/blob/main/docs/operators/images.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY --chmod=0755 dist/linux_${TARGETARCH}/reelay-agent /usr/bin/reelay-agent
COPY --chmod=0644 dist/linux_${TARGETARCH}/LICENSE dist/linux_${TARGETARCH}/THIRD_PARTY_LICENSES /usr/share/doc/reelay-agent/

ENV HOME=/var/lib/reelay-agent REELAY_AGENT_WORK_DIR=/var/lib/reelay-agent/work REELAY_AGENT_HEALTH=:8081 REELAY_AGENT_LOG=json \
    PATH=/opt/runtime/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/opt/runtime/lib \
    PYTHONDONTWRITEBYTECODE=1 REELAY_AGENT_RUNTIME="diffusers=python3 -m reelay_diffusers" \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
VOLUME /var/lib/reelay-agent
WORKDIR /var/lib/reelay-agent
USER 65532:65532
EXPOSE 8081
# To the agent, SIGTERM is the notice that its machine goes away.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["/usr/bin/reelay-agent", "healthcheck"]
ENTRYPOINT ["/usr/bin/reelay-agent"]
