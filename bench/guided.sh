#!/usr/bin/env bash
# Builds the gateway by profile-guided optimisation: once so that it counts what runs, under loads of
# the bench, and once more by these counts. Needs rustup, wrk and h2load (bench/peers/install.sh
# debian); a quarter of an hour on two cores. The gateway is then in target/guided/gateway.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly out=$PWD/target/guided
readonly counts=$out/counts
readonly scenarios=${1:-S1,S4,S6,S8,S12}
host=$(rustc -vV | sed -n 's/^host: //p')
tools=$(rustc --print target-libdir)/../bin

# Of its own flags only: those of the repository's configuration do not count beside RUSTFLAGS.
build() {
    RUSTFLAGS="-C force-frame-pointers=yes $1" CARGO_TARGET_DIR=$out/build \
        cargo build --release --locked --package proxy --target "$host"
}

rustup component add llvm-tools
rm -rf "$counts"
mkdir -p "$counts"

CARGO_PROFILE_RELEASE_LTO=thin build "-C profile-generate=$counts"
cargo build --release --locked --package bench
# It writes its counts when it ends, which it has to do before the bench loses patience.
GATEWAY_DRAIN_ACCEPT=0s target/release/bench run --gateway "$out/build/$host/release/gateway" \
    --peer gateway --scenario "$scenarios" --rounds 1 --seconds 3 --warm-up 1 --out "$out/bench"

"$tools/llvm-profdata" merge -o "$counts/all.profdata" "$counts"/*.profraw
build "-C profile-use=$counts/all.profdata"
cp "$out/build/$host/release/gateway" "$out/gateway"
echo "$out/gateway"
