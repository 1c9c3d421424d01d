// A configuration with something of everything that the page shows.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

/** Text that would do harm if it became HTML. */
export const HOSTILE = `<img src=x onerror="alert('harm')"><script>alert('harm')</script>`;

/** Where the https listener and the TCP listener are, beside the first. */
export const LISTENERS = 3;

export function world({ ports: [web, tls, raw], origin, dead, extra = "" }) {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: gateway
  listeners:
  - {name: web, port: ${web}, protocol: HTTP}
  - {name: secure, port: ${tls}, protocol: HTTPS, hostname: '*.example.com', tls: {certificateRefs: [{name: certificate}]}}
  - {name: raw, port: ${raw}, protocol: TCP}
---
{apiVersion: v1, kind: Secret, metadata: {name: certificate, namespace: shop}, type: kubernetes.io/tls, data: ${certificate()}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: web}, {name: edge, sectionName: secure}]
  hostnames: [shop.example.com]
  rules:
  - name: checkout
    matches:
    - {path: {type: PathPrefix, value: /cart}, method: POST}
    - {path: {type: Exact, value: /checkout}, headers: [{name: x-tester, value: 'yes'}]}
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: x-seen-by, value: edge}], remove: [x-tester]}
    timeouts: {request: 10s, backendRequest: 2s}
    retry: {attempts: 2, codes: [503]}
    backendRefs: [{name: carts, port: 80, weight: 9}, {group: gateway-system.io, kind: Backend, name: legacy, weight: 1}]
  - backendRefs: [{group: gateway-system.io, kind: Backend, name: legacy}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: moved, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: web}]
  hostnames: [old.example.com]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {hostname: shop.example.com, statusCode: 301}}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: broken, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: web}]
  hostnames: [broken.example.com]
  rules:
  - {matches: [{path: {value: /dead}}], backendRefs: [{group: gateway-system.io, kind: Backend, name: dead}]}
  - backendRefs: [{name: nowhere, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: hostile, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: web}]
  hostnames: [hostile.example.com]
  rules:
  - matches: [{headers: [{name: x-harm, value: ${JSON.stringify(HOSTILE)}}]}]
    backendRefs: [{group: gateway-system.io, kind: Backend, name: legacy}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: stock, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: secure}]
  hostnames: [stock.example.com]
  rules: [{matches: [{method: {service: shop.Stock, method: Get}}], backendRefs: [{name: carts, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata: {name: raw, namespace: shop}
spec: {parentRefs: [{name: edge, sectionName: raw}], rules: [{backendRefs: [{group: gateway-system.io, kind: Backend, name: legacy}]}]}
---
{apiVersion: v1, kind: Service, metadata: {name: carts, namespace: shop}, spec: {ports: [{port: 80, targetPort: ${origin}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: carts-1, namespace: shop, labels: {kubernetes.io/service-name: carts}}
addressType: IPv4
endpoints: [{addresses: [127.0.0.1]}, {addresses: [127.0.0.2]}]
ports: [{port: ${origin}}]
---
{apiVersion: gateway-system.io/v1alpha1, kind: Backend, metadata: {name: legacy, namespace: shop}, spec: {addresses: [{host: 127.0.0.1, port: ${origin}}]}}
---
{apiVersion: gateway-system.io/v1alpha1, kind: Backend, metadata: {name: dead, namespace: shop}, spec: {addresses: [{host: 127.0.0.1, port: ${dead}}]}}
---
apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {name: house-rules, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}]
  accessLog: {format: json, sample: 0.5, filter: {statusAtLeast: 500}}
  limits: {headBytes: 32768, requestBodyBytes: 1048576}
---
apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {name: sturdy, namespace: shop}
spec:
  targetRefs: [{group: gateway-system.io, kind: Backend, name: legacy}]
  ejection: {consecutiveFailures: 3, base: 1m}
${extra}`;
}

/** One more route, to be seen without loading the page again. */
export function route(name) {
  return `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ${name}, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: web}]
  hostnames: [${name}.example.com]
  rules: [{backendRefs: [{group: gateway-system.io, kind: Backend, name: legacy}]}]
`;
}

let made;

/** A certificate of this run, as the data of a Secret. */
function certificate() {
  if (made) return made;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "certificate-"));
  const [key, chain] = ["key.pem", "chain.pem"].map((name) => path.join(folder, name));
  const subject = ["-subj", "/CN=shop.example.com", "-addext", "subjectAltName=DNS:*.example.com"];
  const kind = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-days",
    "90",
  ];
  execFileSync("openssl", ["req", "-x509", ...kind, ...subject, "-keyout", key, "-out", chain], {
    stdio: "ignore",
  });
  const [tlsKey, tlsChain] = [key, chain].map((file) => fs.readFileSync(file).toString("base64"));
  fs.rmSync(folder, { recursive: true });
  made = JSON.stringify({ "tls.crt": tlsChain, "tls.key": tlsKey });
  return made;
}
