# harmonia on the official PostgreSQL images:
#
#   docker build --build-arg PG_MAJOR=17 -t harmonia:pg17 .

ARG PG_MAJOR=15
ARG DEBIAN_CODENAME=bookworm
FROM postgres:$PG_MAJOR-$DEBIAN_CODENAME
ARG PG_MAJOR

COPY . /tmp/harmonia

RUN apt-get update && \
	apt-mark hold locales && \
	apt-get install -y --no-install-recommends build-essential postgresql-server-dev-$PG_MAJOR && \
	cd /tmp/harmonia && \
	make clean PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config && \
	make PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config && \
	make install PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config && \
	mkdir /usr/share/doc/harmonia && \
	cp LICENSE README.md /usr/share/doc/harmonia && \
	rm -r /tmp/harmonia && \
	apt-get remove -y build-essential postgresql-server-dev-$PG_MAJOR && \
	apt-get autoremove -y && \
	apt-mark unhold locales && \
	rm -rf /var/lib/apt/lists/*
