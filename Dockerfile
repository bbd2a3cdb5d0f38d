# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0
# Dependabot reads images in FROM only, not in ARG. Another image or a digest: --build-context golang:1.26=docker-image://golang@sha256:...
FROM --platform=$BUILDPLATFORM golang:1.26 AS builder
WORKDIR /workspace
ARG version=""
# docker buildx sets them for each platform. Without it they are empty, which is the platform of the build.
ARG TARGETOS TARGETARCH
COPY go.mod go.sum ./
RUN go mod download
COPY main.go ./
COPY api/ api/
COPY controllers/ controllers/
COPY exp/ exp/
COPY internal/ internal/
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -tags=fieldsv1string -trimpath \
    -ldflags "-s -w -X github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/version.released=${version}" -o manager .

FROM gcr.io/distroless/static:nonroot
COPY --from=builder /workspace/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
