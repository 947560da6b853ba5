# rince on a CPU, as a user that is not root: docker build -t rince . && docker run --rm rince demo
# Data and results: docker run --rm -v "$PWD":/data rince audit a.npy b.npy
FROM python:3.12-slim

# The small build of torch. For GPUs: --build-arg TORCH_ARGS=
ARG TORCH_ARGS="--index-url https://download.pytorch.org/whl/cpu"
ARG EXTRAS="train,audit,cluster"

RUN useradd --uid 1000 --create-home rince && install -d -o rince /data
WORKDIR /build
COPY constraints.txt pyproject.toml README.md LICENSE MANIFEST.in ./
COPY src ./src
RUN pip install --no-cache-dir $TORCH_ARGS "$(grep '^torch==' constraints.txt)"
RUN pip install --no-cache-dir -c constraints.txt ".[$EXTRAS]"

# For containers with a read-only file system and for user ids without a home: only /data and /tmp are written to.
ENV MPLCONFIGDIR=/tmp/matplotlib PYTHONUNBUFFERED=1
USER rince
WORKDIR /data
ENTRYPOINT ["rince"]
CMD ["--help"]
