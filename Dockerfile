# One image holds the manager, the same for every cluster. The binary is static and built beforehand by `make image`,
# so the image needs no base, no shell and no network to build.
FROM scratch
COPY .local/image/multicluster-scheduler /multicluster-scheduler
USER 65532:65532
ENTRYPOINT ["/multicluster-scheduler"]
