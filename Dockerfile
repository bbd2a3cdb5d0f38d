# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0
# A release replaces the tags by digests: --build-arg BUILDER=golang@sha256:... --build-arg BASE=gcr.io/distroless/static@sha256:...
ARG BUILDER=golang:1.26
ARG BASE=gcr.io/distroless/static:nonroot
FROM --platform=$BUILDPLATFORM ${BUILDER} AS builder
WORKDIR /workspace
ARG version=""
# docker buildx sets them for each platform. Without it they are empty, which is the platform of the build.
ARG TARGETOS TARGETARCH
COPY go.mod go.sum ./
RUN go mod download
COPY main.go ./
COPY api/ api/
COPY controllers/ controllers/
COPY internal/ internal/
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -tags=fieldsv1string -trimpath \
    -ldflags "-s -w -X github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/version.released=${version}" -o manager .

FROM ${BASE}
COPY --from=builder /workspace/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
