# harmonia on the official PostgreSQL images:
#
#   docker build --build-arg PG_MAJOR=17 -t harmonia:pg17 .
#
# With the device daemon, for "docker run --gpus all" and harmonia.gpu = on:
#
#   docker build --build-arg DAEMON=cuda -t harmonia:cuda .
#
# The extension alone, as CloudNativePG mounts it into servers (packaging/README.md):
#
#   docker build --target cnpg --build-arg PG_MAJOR=18 --build-arg DEBIAN_CODENAME=trixie .

ARG PG_MAJOR=15
ARG DEBIAN_CODENAME=bookworm
ARG CUDA_VERSION=12.6.3
ARG DAEMON=none

FROM postgres:$PG_MAJOR-$DEBIAN_CODENAME AS extension
ARG PG_MAJOR
ENV PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config
COPY . /harmonia
WORKDIR /harmonia
RUN tools/setup.sh build && \
	make -j "$(nproc)" && \
	make install DESTDIR=/installed && \
	mkdir -p /installed/usr/share/doc/harmonia && \
	cp -R LICENSE README.md CHANGELOG.md doc /installed/usr/share/doc/harmonia

FROM extension AS daemon-none
RUN mkdir /daemon

# An older system than PostgreSQL's images, so that its libraries will do for the daemon there.
FROM nvidia/cuda:$CUDA_VERSION-devel-ubuntu22.04 AS daemon-cuda
ARG PG_MAJOR
COPY . /harmonia
WORKDIR /harmonia
RUN tools/setup.sh device && \
	make -C cuda -j "$(nproc)" build/harmonia_gpud && \
	install -D cuda/build/harmonia_gpud "/daemon/usr/lib/postgresql/$PG_MAJOR/lib/harmonia_gpud"

FROM daemon-$DAEMON AS daemon

FROM scratch AS cnpg
ARG PG_MAJOR
COPY --from=extension /installed/usr/lib/postgresql/$PG_MAJOR/lib/harmonia.so /lib/
COPY --from=extension /installed/usr/share/postgresql/$PG_MAJOR/extension/ /share/extension/
COPY LICENSE /licenses/harmonia/

FROM postgres:$PG_MAJOR-$DEBIAN_CODENAME
COPY --from=extension /installed/ /
COPY --from=daemon /daemon/ /
