{{- /* The GatewayClass of the installation. Values that `helm upgrade --reuse-values` takes from an older chart have no
gatewayClass. */}}

{{- define "gateway.className" -}}
{{- include "gateway.classField" (dict "root" . "variable" "CONTROLLER_GATEWAY_CLASS" "field" "name" "default" "gateway") -}}
{{- end -}}

{{- define "gateway.controllerName" -}}
{{- include "gateway.classField" (dict "root" . "variable" "CONTROLLER_NAME" "field" "controllerName" "default" "gateway-system.io/controller") -}}
{{- end -}}

{{- /* The variables of controller.extraEnv that take precedence over a value of the chart, which they were set by before
there was one, and that value. */}}
{{- define "gateway.classVariables" -}}
CONTROLLER_GATEWAY_CLASS: gatewayClass.name
CONTROLLER_NAME: gatewayClass.controllerName
{{- end -}}

{{- /* The variable in controller.extraEnv, or the field of gatewayClass. What a valueFrom refers to is not known here. */}}
{{- define "gateway.classField" -}}
{{- $value := get (.root.Values.controller.extraEnv | default dict) .variable -}}
{{- if kindIs "map" $value -}}
{{- $value = get $value "value" -}}
{{- end -}}
{{- $value | default (get (.root.Values.gatewayClass | default dict) .field) | default .default -}}
{{- end -}}
