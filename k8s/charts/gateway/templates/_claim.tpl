{{- /* What an installation must not share with another one: its GatewayClass and its namespace. Without a cluster, as with
`helm template`, nothing is known of others.

Objects are listed, not read by name: whoever installs the chart may list them, since its ClusterRole grants that, and nobody
may grant what they may not do themselves. */}}

{{- /* Fails where another installation serves the GatewayClass. */}}
{{- define "gateway.checkClaim" -}}
{{- $name := include "gateway.className" . -}}
{{- /* A lookup of a kind that is not served fails. */}}
{{- if .Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1/GatewayClass" -}}
{{- $own := printf "%s/%s" .Release.Namespace (include "gateway.fullname" .) -}}
{{- range $class := dig "items" list (lookup "gateway.networking.k8s.io/v1" "GatewayClass" "" "") -}}
{{- $holder := get ($class.metadata.annotations | default dict) "gateway-system.io/claimed-by" -}}
{{- if and (eq $class.metadata.name $name) $holder (ne $holder $own) -}}
{{- $parts := splitList "/" $holder -}}
{{- range $deployment := dig "items" list (lookup "apps/v1" "Deployment" (first $parts) "") -}}
{{- /* The claim of an installation that was removed is taken over. */}}
{{- if eq $deployment.metadata.name (last $parts) -}}
{{- fail (printf "GatewayClass %s is served by the installation %s, so this one (%s) would not serve it: uninstall that one, or set gatewayClass.name and gatewayClass.controllerName to names of your own" $name $holder $own) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Fails where the namespace has an installation: controllers of a namespace elect one leader, and only that one writes. */}}
{{- define "gateway.checkNamespace" -}}
{{- if .Release.IsInstall -}}
{{- range $deployment := dig "items" list (lookup "apps/v1" "Deployment" .Release.Namespace "") -}}
{{- $labels := $deployment.metadata.labels | default dict -}}
{{- $isController := and (eq (get $labels "app.kubernetes.io/name") "controller") (eq (get $labels "app.kubernetes.io/part-of") "gateway") -}}
{{- if and $isController (ne (get $labels "app.kubernetes.io/instance") $.Release.Name) -}}
{{- fail (printf "namespace %s has a controller already, Deployment %s, with which this one would elect a common leader: install it in a namespace of its own" $.Release.Namespace $deployment.metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
