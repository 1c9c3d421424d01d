// Package suite keeps the modules of the conformance suite of the Inference Extension in go.mod, and
// the endpoint picker that its tests use. The suite's own test binary is built from them, unmodified.
package suite

import (
	_ "sigs.k8s.io/gateway-api-inference-extension/conformance"
	_ "sigs.k8s.io/gateway-api-inference-extension/pkg/lwepp/server"
)
