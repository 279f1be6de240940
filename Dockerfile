# arena for CPUs: play, evaluate, train, serve. docs/index.md shows how to run it.
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY . .
# pip finds a CPU build of the torch that the extra names.
RUN python -m venv /opt/arena \
    && /opt/arena/bin/pip install --no-cache-dir --constraint constraints.txt '.[train]'

FROM python:3.12-slim-bookworm
COPY --from=build /opt/arena /opt/arena
RUN useradd --create-home --uid 1000 arena && install --directory --owner arena /data
ENV PATH=/opt/arena/bin:$PATH PYTHONUNBUFFERED=1
USER arena
WORKDIR /data
VOLUME /data
ENTRYPOINT ["arena"]
CMD ["--help"]
