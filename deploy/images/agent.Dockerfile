# The image of the worker, with ffmpeg: for the built-in runtimes, which need no GPU, and as the base of images
# with a runtime of your own. docs/operators/images.md describes it.
ARG BASE=debian:12.12-slim
FROM ${BASE}

# The versions are those of the release of Debian, with its security updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates ffmpeg \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o 65532 -g 65532 -m 0700 /var/lib/reelay-agent

ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Reelay agent" \
      org.opencontainers.image.description="Turns prompts into videos on GPUs that may vanish: the worker" \
      org.opencontainers.image.url="https://github.com/reelay/reelay" \
      org.opencontainers.image.source="https://github.com/reelay/reelay" \
      org.opencontainers.image.documentation="https://github.com/reelay/reelay/blob/main/docs/operators/images.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY --chmod=0755 dist/linux_${TARGETARCH}/reelay-agent /usr/bin/reelay-agent
COPY --chmod=0644 dist/linux_${TARGETARCH}/LICENSE dist/linux_${TARGETARCH}/THIRD_PARTY_LICENSES /usr/share/doc/reelay-agent/

# The work directory has to be a volume: it can become larger than a root that is in memory.
ENV HOME=/var/lib/reelay-agent REELAY_AGENT_WORK_DIR=/var/lib/reelay-agent/work REELAY_AGENT_HEALTH=:8081 REELAY_AGENT_LOG=json
VOLUME /var/lib/reelay-agent
WORKDIR /var/lib/reelay-agent
USER 65532:65532
EXPOSE 8081
# To the agent, SIGTERM is the notice that its machine goes away.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["/usr/bin/reelay-agent", "healthcheck"]
ENTRYPOINT ["/usr/bin/reelay-agent"]
