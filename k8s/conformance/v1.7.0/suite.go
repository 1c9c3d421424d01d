// Package suite keeps the modules of the conformance suite in go.mod. `e2e conformance` builds the
// suite's own test binary, unmodified.
package suite

import _ "sigs.k8s.io/gateway-api/conformance"
