{{- /* Which installation serves the GatewayClass. */}}

{{- /* Fails where another installation does. Without a cluster, as with `helm template`, nothing is known. */}}
{{- define "gateway.checkClaim" -}}
{{- $name := .Values.gatewayClass.name -}}
{{- /* A lookup of a kind that is not served fails. */}}
{{- if .Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1/GatewayClass" -}}
{{- $class := lookup "gateway.networking.k8s.io/v1" "GatewayClass" "" $name -}}
{{- $annotations := dig "metadata" "annotations" dict $class -}}
{{- $holder := get $annotations "gateway-system.io/claimed-by" -}}
{{- $own := printf "%s/%s" .Release.Namespace (include "gateway.fullname" .) -}}
{{- if and $holder (ne $holder $own) -}}
{{- $parts := splitList "/" $holder -}}
{{- /* The claim of an installation that was removed is taken over. */}}
{{- if lookup "apps/v1" "Deployment" (first $parts) (last $parts) -}}
{{- fail (printf "GatewayClass %s is served by the installation %s, so this one (%s) would not serve it: uninstall that one, or set gatewayClass.name and gatewayClass.controllerName to names of your own" $name $holder $own) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
