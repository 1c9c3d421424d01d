#!/bin/sh
# Builds the gateway with profile-guided optimisation: an instrumented gateway serves scenarios of the bench,
# and the compiler optimises the program for what it did there. Prints the paths of the program and of the
# profile.
#
# pgo.sh profile: makes the profile only, as `e2e image gateway --train` does for an image.
#
# Needs wrk and h2load (bench/peers/install.sh debian) and `rustup component add llvm-tools`. Builds three
# programs, two of them with the release profile: some 20 minutes on two cores, 17 with CARGO_PROFILE_RELEASE_LTO=thin.
set -eu
case $# in
0) goal=program ;;
1) goal=$1 ;;
*) goal= ;;
esac
case $goal in
program | profile) ;;
*)
    echo "usage: $0 [program | profile]" >&2
    exit 2
    ;;
esac
cd "$(dirname "$0")/.."

# HTTP/1 and 2, TLS, WebSocket, gRPC, many routes, uploads, and bodies over HTTP/2 on both sides, each with
# both I/O drivers.
scenarios=S1,S2,S4,S5,S6,S8,S9,S11,S12,S13,S18
work="$PWD/target/pgo"
host=$(rustc -vV | sed -n 's/^host: //p')
merge="$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata"
[ -x "$merge" ] || {
    echo "error: llvm-profdata is missing: run rustup component add llvm-tools" >&2
    exit 1
}
for tool in wrk h2load; do
    command -v "$tool" >/dev/null || {
        echo "error: $tool is missing: run bench/peers/install.sh debian" >&2
        exit 1
    }
done

# Builds the gateway with this option of the compiler. RUSTFLAGS replaces the flags of .cargo/config.toml.
build() {
    RUSTFLAGS="-C force-frame-pointers=yes -C $2" \
        cargo build --release --locked --package proxy --target "$host" --target-dir "$work/$1"
}

rm -rf "$work/counts"
# Whole-program optimisation makes no difference to what is counted.
(
    export CARGO_PROFILE_RELEASE_LTO=thin
    build instrumented "profile-generate=$work/counts"
)
# Counts are written at the end of a process, which the bench does not wait for long.
GATEWAY_DRAIN_ACCEPT=1ms GATEWAY_DRAIN_DEADLINE=100ms \
    cargo run --release --locked --package bench -- run --peer gateway --scenario "$scenarios" --rounds 1 --seconds 1 \
    --gateway "$work/instrumented/$host/release/gateway" --out "$work/bench"
"$merge" merge --output "$work/gateway.profdata" "$work/counts"
if [ "$goal" = program ]; then
    build optimised "profile-use=$work/gateway.profdata"
    echo "program: $work/optimised/$host/release/gateway"
fi
echo "profile: $work/gateway.profdata"
