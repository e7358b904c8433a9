# The image of the servers and the CLI: one static program, without a shell. The context is the root of the
# checkout; deploy/images/build.sh unpacks the program of a release into it. docs/operators/images.md describes it.
#
# Another base must have the certificates of public authorities, or REELAY_STORE cannot be a public https store.
ARG BASE=gcr.io/distroless/static-debian12:nonroot
FROM ${BASE}

ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Reelay" \
      org.opencontainers.image.description="Turns prompts into videos on GPUs that may vanish: the servers and the CLI" \
      org.opencontainers.image.url="https://github.com/reelay/reelay" \
      org.opencontainers.image.source="https://github.com/reelay/reelay" \
      org.opencontainers.image.documentation="https://github.com/reelay/reelay/blob/main/docs/operators/images.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY --chmod=0755 dist/linux_${TARGETARCH}/reelay /usr/bin/reelay
COPY --chmod=0644 dist/linux_${TARGETARCH}/LICENSE dist/linux_${TARGETARCH}/THIRD_PARTY_LICENSES /usr/share/doc/reelay/

# Outside a container, the API listens at the loopback address only.
ENV REELAY_LISTEN=0.0.0.0:8080 REELAY_LOG=json
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["/usr/bin/reelay", "healthcheck"]
ENTRYPOINT ["/usr/bin/reelay"]
CMD ["api"]
