# The image of the manager, the same for every cluster. `make image` builds the binary first. The binary is static, so
# the image needs no base image and no shell, and building the image needs no network.
FROM scratch
COPY .local/image/multicluster-scheduler /multicluster-scheduler
USER 65532:65532
ENTRYPOINT ["/multicluster-scheduler"]
