{{- /* Images, security contexts and environment of containers. */}}

{{- /* The reference of an image. Takes root, and image: the section of the component. */}}
{{- define "gateway.image" -}}
{{- $registry := .image.registry | default .root.Values.image.registry -}}
{{- $tag := .image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ .image.repository }}:{{ $tag }}
{{- end -}}

{{- /* The fields of own, with those of given over them; a field that is given as null is left out. */}}
{{- define "gateway.securityContext" -}}
{{- $fields := deepCopy .own -}}
{{- /* `merge` would take false for a field that is not given. */}}
{{- range $name, $value := .given -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $fields $name -}}
{{- else -}}
{{- $_ := set $fields $name $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $fields -}}
{{- end -}}

{{- define "gateway.podSecurityContext" -}}
{{- $own := dict
  "runAsGroup" 65532
  "runAsNonRoot" true
  "runAsUser" 65532
  "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- include "gateway.securityContext" (dict "own" $own "given" .Values.podSecurityContext) -}}
{{- end -}}

{{- define "gateway.containerSecurityContext" -}}
{{- $own := dict
  "allowPrivilegeEscalation" false
  "capabilities" (dict "drop" (list "ALL"))
  "readOnlyRootFilesystem" true -}}
{{- include "gateway.securityContext" (dict "own" $own "given" .Values.securityContext) -}}
{{- end -}}

{{- /* The environment of the controller: `controller run --help` names the variables. */}}
{{- define "gateway.controllerEnvironment" -}}
{{- $ports := .Values.controller.service.ports -}}
{{- $own := dict
  "CONTROLLER_DISCOVERY_NAMESPACE_SELECTORS" (toJson .Values.discoveryNamespaceSelectors)
  "CONTROLLER_GATEWAY_CLASS" (include "gateway.className" .)
  "CONTROLLER_GATEWAY_CLASS_PARAMETERS_REFS" (include "gateway.parametersRefs" .)
  "CONTROLLER_HEALTH_ADDRESS" (printf "[::]:%d" (int $ports.health))
  "CONTROLLER_INFERENCE_EXTENSION" (toString .Values.inferenceExtension.enabled)
  "CONTROLLER_LOG_LEVEL" .Values.controller.logLevel
  "CONTROLLER_NAME" (include "gateway.controllerName" .)
  "CONTROLLER_METRICS_ADDRESS" (printf "[::]:%d" (int $ports.metrics))
  "CONTROLLER_NODE_ADDRESSES" (toString ((.Values.nodeAddresses | default dict).enabled | default false))
  "CONTROLLER_PROXY_IMAGE" (include "gateway.image" (dict "root" . "image" .Values.proxy.image))
  "CONTROLLER_PROXY_IMAGE_PULL_POLICY" (.Values.image.pullPolicy | default "IfNotPresent")
  "CONTROLLER_SERVICE" (include "gateway.fullname" .)
  "CONTROLLER_XDS_ADDRESS" (printf "[::]:%d" (int $ports.agwGrpc))
  "CONTROLLER_XDS_MODE" .Values.controller.xds.mode
  "CONTROLLER_X_BACKEND" (toString .Values.xBackend.enabled) -}}
{{- range $name, $_ := fromYaml (include "gateway.classVariables" .) }}
{{- if hasKey ($.Values.controller.extraEnv | default dict) $name }}
{{- $_ := unset $own $name }}
{{- end }}
{{- end }}
{{- range $name, $value := $own }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $path := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" }}
{{- $_ := set $own $name $path }}
- name: {{ $name | quote }}
  valueFrom: {fieldRef: {fieldPath: {{ $path }}}}
{{- end }}
{{- range $name, $entry := .Values.controller.extraEnv }}
{{- if hasKey $own $name }}
{{- fail (printf "controller.extraEnv.%s: the chart sets this variable itself; use the value that it is made of" $name) }}
{{- end }}
- name: {{ $name | quote }}
{{- include "gateway.extraEnvValue" (dict "key" (printf "controller.extraEnv.%s" $name) "entry" $entry) | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* value or valueFrom of an entry of controller.extraEnv. */}}
{{- define "gateway.extraEnvValue" -}}
{{- if not (kindIs "map" .entry) -}}
value: {{ include "gateway.scalar" .entry }}
{{- else if and (hasKey .entry "value") (hasKey .entry "valueFrom") -}}
{{- fail (printf "%s: both value and valueFrom are set; set one of them" .key) -}}
{{- else if hasKey .entry "value" -}}
value: {{ include "gateway.scalar" .entry.value }}
{{- else if .entry.valueFrom -}}
{{- include "gateway.checkSource" . -}}
valueFrom: {{ toJson .entry.valueFrom }}
{{- else -}}
{{- fail (printf "%s: neither value nor valueFrom is set; set one of them" .key) -}}
{{- end -}}
{{- end -}}

{{- /* Fails where valueFrom is not one whole reference. */}}
{{- define "gateway.checkSource" -}}
{{- $key := printf "%s.valueFrom" .key -}}
{{- $needed := dict
  "configMapKeyRef" (list "name" "key")
  "fieldRef" (list "fieldPath")
  "resourceFieldRef" (list "resource")
  "secretKeyRef" (list "name" "key") -}}
{{- if ne (len .entry.valueFrom) 1 -}}
{{- fail (printf "%s: %s are set; set one of them" $key (keys .entry.valueFrom | sortAlpha | join " and ")) -}}
{{- end -}}
{{- range $source, $reference := .entry.valueFrom -}}
{{- if not (hasKey $needed $source) -}}
{{- fail (printf "%s.%s: there is no such source; use one of %s" $key $source (keys $needed | sortAlpha | join ", ")) -}}
{{- end -}}
{{- range $field := get $needed $source -}}
{{- if not (and (kindIs "map" $reference) (get $reference $field)) -}}
{{- fail (printf "%s.%s: %s is missing; %s needs %s" $key $source $field $source (get $needed $source | join " and ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A scalar as a quoted string: a number without an exponent. */}}
{{- define "gateway.scalar" -}}
{{- if kindIs "string" . }}{{ quote . }}{{ else }}{{ toJson . | quote }}{{ end -}}
{{- end -}}

{{- /* gatewayClassParametersRefs as JSON. */}}
{{- define "gateway.parametersRefs" -}}
{{- range $class, $reference := .Values.gatewayClassParametersRefs -}}
{{- range $field := list "name" "namespace" -}}
{{- if not (get $reference $field) -}}
{{- fail (printf "gatewayClassParametersRefs.%s: %s is missing; an entry needs both name and namespace of GatewayParameters" $class $field) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson .Values.gatewayClassParametersRefs -}}
{{- end -}}
