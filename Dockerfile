# One image for every process of the farm: the client and the control, tile and isolated workers.
#
#   docker build -t tessera .
#   docker run --rm tessera tessera --help
#   docker run --init --stop-timeout 30 tessera python -m worker --role tiles
#
# Start workers with an init (compose: `init: true`), which passes SIGTERM on: as process 1 Python would
# ignore it until the worker has set its handlers. On SIGTERM a worker stores what its tiles have and
# leaves within 20 s (GRACEFUL_SHUTDOWN in workflows/policies.py), so give it longer than that to stop.
#
# There is no HEALTHCHECK: a worker serves nothing, and one that is stuck is found by Temporal, which
# gives its tiles to another when their heartbeats end. A worker that dies is started again by its
# restart policy.
FROM python:3.12-slim-bookworm

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app

# The dependencies alone first: this layer stays while only the sources change.
COPY pyproject.toml constraints.txt ./
# Traces are part of the image (the extra otel); they cost nothing until the OTEL_ variables ask for them.
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
        print(*project['dependencies'], *project['optional-dependencies']['otel'], sep='\n')" \
        > dependencies.txt \
    && pip install -c constraints.txt -r dependencies.txt \
    && rm dependencies.txt

COPY . .
# Editable, so that the sources are in one place: the compiled kernels are cached by file name.
# Their time stamps are cut to whole seconds, as an image's layers do: the kernel cache compares them, and
# kernels cached below would otherwise count as stale in every container.
RUN pip install --no-deps -e . && find . -name '*.py' -exec touch -d @0 {} +

# Match this to your user (--build-arg UID=$(id -u)) to share folders with the client.
ARG UID=1000
RUN useradd --uid "$UID" --create-home tessera
USER $UID

# The kernels are compiled for the pinned CPU target, not for the machine that builds the image.
RUN python -c "from tracer.render import warm; warm()"

CMD ["tessera", "--help"]
