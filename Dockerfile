# An image with the program and nothing else. The tools see what is mounted:
#
#   docker build -t toolgate .
#   docker run --rm -i -v "$PWD:/workspace" toolgate
#
# There is no shell in it, so `shell` can only start programs that are mounted;
# docs/install.md says how to put it into an image that has some.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X toolgate/internal/app.release=${VERSION}" -o /out/toolgate . \
 && mkdir -p /out/workspace /out/state /out/tmp && chmod 1777 /out/tmp /out/state

FROM scratch
LABEL io.modelcontextprotocol.server.name="io.github.toolgate/toolgate" \
      org.opencontainers.image.source="https://github.com/toolgate/toolgate" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/toolgate /toolgate
COPY --from=build --chown=1000:1000 /out/workspace /workspace
COPY --from=build /out/state /state
COPY --from=build /out/tmp /tmp
ENV TOOLGATE_HOME=/state
USER 1000:1000
WORKDIR /workspace
ENTRYPOINT ["/toolgate"]
CMD ["serve"]
