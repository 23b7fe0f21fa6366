# The image: one static binary on nothing. Builds for any platform that Go and the builder know:
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=1.0.0 --build-arg REVISION=$(git rev-parse HEAD) -t clusterdns .
#
# The same sources, version and Go give the same bytes: no path, time or build id is in the binary.
ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION}-bookworm AS build
WORKDIR /src
# setcap, for the one capability below.
RUN apt-get update && apt-get install -y --no-install-recommends libcap2-bin && rm -rf /var/lib/apt/lists/*
# The modules first: they change less often than the code and stay in the builder's cache.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Not before: what is declared is part of the environment of every RUN behind it, and so of what the cache is asked for.
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ARG VERSION=dev
ARG REVISION=unknown
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=${VERSION} -X main.revision=${REVISION}" -o /out/clusterdns ./cmd/clusterdns
# Port 53 for a user that is not root, also where the kernel keeps it for root: on a node's own network, and before containerd 2.
RUN setcap cap_net_bind_service=+ep /out/clusterdns

FROM scratch
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="clusterdns" \
      org.opencontainers.image.description="A Kubernetes cluster DNS server that takes CoreDNS's place" \
      org.opencontainers.image.source="https://github.com/clusterdns/clusterdns" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# For upstream servers over TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/clusterdns /clusterdns
# A number, so that runAsNonRoot can be checked without a passwd file; it is the one that distroless images call nonroot.
USER 65532:65532
WORKDIR /
EXPOSE 53/udp 53/tcp 9153/tcp
ENTRYPOINT ["/clusterdns"]
