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
app.kubernetes.io/name: {{ include "statemaint.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
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
name: {{ include "statemaint.fullname" .root }}-{{ .component }}{{ .suffix | default "" }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "statemaint.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The label `origin` of all metrics of this release. */}}
{{- define "statemaint.origin" -}}
{{ .Release.Namespace }}.{{ include "statemaint.fullname" . }}
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
files/alerts.yaml with the values: thresholds, labels, links, and without the disabled alerts. Each pattern includes
the text around the default, so that a number never replaces another's default.
*/}}
{{- define "statemaint.alerts" -}}
{{- $alerts := .Values.alerts -}}
{{- $changes := list
  (list "* 0 + 21600" (printf "* 0 + %d" ($alerts.staleAfterSeconds | int64)))
  (list "_interval_seconds) * 2.5" (printf "_interval_seconds) * %v" $alerts.staleAfterIntervals))
  (list "_chain_length_max) > 200" (printf "_chain_length_max) > %d" ($alerts.maxChainLength | int64)))
  (list "_restart_seconds) > 300" (printf "_restart_seconds) > %d" ($alerts.maxRestartSeconds | int64)))
  (list "_lag_versions) > 300" (printf "_lag_versions) > %d" ($alerts.maxSnapshotLag | int64)))
  (list "> 0) > 3600" (printf "> 0) > %d" ($alerts.maxLeaseWaitSeconds | int64)))
  (list "_verify_timestamp_seconds) > 1209600" (printf "_verify_timestamp_seconds) > %d" ($alerts.verifyAfterSeconds | int64)))
  (list "_savepoint_expected_interval_seconds) * 3" (printf "_savepoint_expected_interval_seconds) * %v" $alerts.savepointAfterIntervals))
  (list "[1d])) > 2" (printf "[1d])) > %d" ($alerts.maxPushLosses | int64)))
  (list "_reading_timestamp_seconds) > 900" (printf "_reading_timestamp_seconds) > %d" ($alerts.exporterStaleSeconds | int64)))
  (list ">= 0.5" (printf ">= %v" $alerts.storageDownShare))
-}}
{{- with .Values.queries.alert_labels -}}
{{- $changes = append $changes (list "namespace, owner" (printf "namespace, owner, %s" (join ", " .))) -}}
{{- end -}}
{{- /* By the name of its Service or of its monitor, the exporter is the job of this name. */ -}}
{{- with include "statemaint.fullname" . -}}
{{- if not (contains "statemaint" .) -}}
{{- $changes = append $changes (list "(statemaint|" (printf "(%s|statemaint|" .)) -}}
{{- end -}}
{{- end -}}
{{- $links := dict -}}
{{- with .Values.dashboard.grafanaUrl -}}{{- $_ := set $links "dashboard_url" (printf "%s/d/statemaint" (trimSuffix "/" .)) -}}{{- end -}}
{{- with .Values.airflow.url -}}{{- if $.Values.airflow.enabled -}}{{- $_ := set $links "dag_url" (printf "%s/dags/" (trimSuffix "/" .)) -}}{{- end -}}{{- end -}}
{{- $groups := list -}}
{{- range $group := (.Files.Get "files/alerts.yaml" | fromYaml).groups -}}
{{- $chosen := get $alerts.groups (trimPrefix "statemaint-" $group.name) -}}
{{- $rules := list -}}
{{- range $rule := $group.rules -}}
{{- range $change := $changes -}}
{{- $_ := set $rule "expr" (replace (index $change 0) (index $change 1) $rule.expr) -}}
{{- end -}}
{{- if $rule.alert -}}
{{- $notes := $rule.annotations -}}
{{- $ofQuery := contains "$labels.query" $notes.summary -}}
{{- with $alerts.runbookBaseUrl -}}
{{- $_ := set $notes "runbook_url" (printf "%s/docs/runbook.md#%s" (trimSuffix "/" .) (lower $rule.alert)) -}}
{{- end -}}
{{- with $links.dashboard_url -}}
{{- $_ := set $notes "dashboard_url" (ternary (printf "%s-query?var-query={{ $labels.query }}&var-origin={{ $labels.origin }}" .) . $ofQuery) -}}
{{- end -}}
{{- with $links.dag_url -}}
{{- if $ofQuery -}}
{{- $dag := "printf \"statemaint_query_info{query=%q,origin=%q,namespace=%q,dag!=''}\" $labels.query $labels.origin $labels.namespace | query" -}}
{{- $_ := set $notes "dag_url" (printf "{{ with %s }}%s{{ . | first | label \"dag\" }}{{ end }}" $dag .) -}}
{{- end -}}
{{- end -}}
{{- $changed := get $alerts.rules $rule.alert | default dict -}}
{{- $_ := set $rule "labels" (merge (dict) ($changed.labels | default dict) (deepCopy $chosen.labels) (deepCopy $alerts.additionalRuleLabels) $rule.labels) -}}
{{- with $changed.severity -}}{{- $_ := set $rule.labels "severity" . -}}{{- end -}}
{{- with get $changed "for" -}}{{- $_ := set $rule "for" . -}}{{- end -}}
{{- end -}}
{{- if not (has $rule.alert $alerts.disabled) -}}{{- $rules = append $rules $rule -}}{{- end -}}
{{- end -}}
{{- $_ := set $group "rules" $rules -}}
{{- with $chosen.interval -}}{{- $_ := set $group "interval" . -}}{{- end -}}
{{- if and $chosen.enabled $rules -}}{{- $groups = append $groups $group -}}{{- end -}}
{{- end -}}
groups:
  {{- toYaml $groups | nindent 2 }}
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
