{{- /* Names and labels. */}}

{{- define "gateway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if .Values.nameOverride -}}
{{- printf "%s-%s" .Release.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* For objects of the cluster: releases in other namespaces may have the same name. */}}
{{- define "gateway.clusterName" -}}
{{- printf "%s-%s" (include "gateway.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- /* For the Role in each namespace with Gateways, which may be the release's too. */}}
{{- define "gateway.deployerName" -}}
{{- printf "%s-deployer" (include "gateway.clusterName" .) -}}
{{- end -}}

{{- define "gateway.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "gateway.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- /* Proxies carry the same labels with other names. */}}
{{- define "gateway.selectorLabels" -}}
app.kubernetes.io/name: controller
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- /* The labels of an object. Takes root, and own labels which commonLabels cannot replace. */}}
{{- define "gateway.labels" -}}
{{- $standard := dict
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/managed-by" .root.Release.Service
  "app.kubernetes.io/part-of" "gateway"
  "app.kubernetes.io/version" (.root.Chart.AppVersion | replace "+" "_")
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- toYaml (merge dict (.own | default dict) $standard .root.Values.commonLabels) -}}
{{- end -}}

{{- define "gateway.controllerLabels" -}}
{{- include "gateway.labels" (dict "root" . "own" (fromYaml (include "gateway.selectorLabels" .))) -}}
{{- end -}}
