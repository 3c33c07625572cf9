{{- define "statemaint.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's own name is enough if it contains "statemaint"; 50 leaves room for "-pushgateway". */}}
{{- define "statemaint.fullname" -}}
{{- $name := include "statemaint.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels that a Service may select by: none of them changes with an upgrade. */}}
{{- define "statemaint.selectorLabels" -}}
app.kubernetes.io/name: {{ include "statemaint.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "statemaint.labels" -}}
{{ include "statemaint.selectorLabels" . }}
app.kubernetes.io/part-of: statemaint
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Name and labels of one object: (dict "root" $ "component" "queries" "labels" extra). */}}
{{- define "statemaint.metadata" -}}
name: {{ include "statemaint.fullname" .root }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "statemaint.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The address that tasks push to; empty when there is no Pushgateway. */}}
{{- define "statemaint.pushgatewayUrl" -}}
{{- if .Values.pushgateway.enabled -}}
http://{{ include "statemaint.fullname" . }}-pushgateway.{{ .Release.Namespace }}:{{ .Values.pushgateway.port | int }}
{{- else -}}
{{- .Values.pushgateway.url -}}
{{- end -}}
{{- end -}}

{{/*
files/alerts.yaml with the values in place of its defaults. Each pattern includes the text around the
default, so that a number never replaces another's default.
*/}}
{{- define "statemaint.alerts" -}}
{{- $stale := .Values.alerts.staleAfterSeconds | int64 -}}
{{- $chain := .Values.alerts.maxChainLength | int64 -}}
{{- $rules := .Files.Get "files/alerts.yaml" -}}
{{- $rules = $rules | replace "(statemaint_last_run_timestamp_seconds) * 0 + 21600" (printf "(statemaint_last_run_timestamp_seconds) * 0 + %d" $stale) -}}
{{- $rules = $rules | replace "(statemaint_chain_length_max) > 200" (printf "(statemaint_chain_length_max) > %d" $chain) -}}
{{- with .Values.alerts.runbookBaseUrl -}}
{{- $rules = $rules | replace "runbook_url: \"docs/" (printf "runbook_url: \"%s/docs/" (trimSuffix "/" .)) -}}
{{- end -}}
{{- with .Values.dashboard.grafanaUrl -}}
{{- $rules = $rules | replace "dashboard_url: \"/d/" (printf "dashboard_url: \"%s/d/" (trimSuffix "/" .)) -}}
{{- end -}}
{{- with .Values.airflow.url -}}
{{- $rules = $rules | replace "dag_url: \"/dags/" (printf "dag_url: \"%s/dags/" (trimSuffix "/" .)) -}}
{{- end -}}
{{- $rules -}}
{{- end -}}

{{/*
A dashboard with the addresses of the values in place of its defaults (helm/dashboards/board.py):
(dict "root" $ "text" text).
*/}}
{{- define "statemaint.board" -}}
{{- $text := .text -}}
{{- with .root.Values.airflow.url -}}
{{- $text = $text | replace "\"http://localhost:8080\"" (trimSuffix "/" . | quote) -}}
{{- end -}}
{{- with .root.Values.alerts.runbookBaseUrl -}}
{{- $text = $text | replace "\"docs/runbook.md\"" (printf "%s/docs/runbook.md" (trimSuffix "/" .) | quote) -}}
{{- end -}}
{{- $text -}}
{{- end -}}
