{{/* The image of the program; a digest goes before a tag. */}}
{{- define "statemaint.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* The name of a component's service account: (dict "root" $ "component" NAME "account" VALUES). */}}
{{- define "statemaint.serviceAccountName" -}}
{{- if .account.create -}}
{{- .account.name | default (printf "%s-%s" (include "statemaint.fullname" .root) .component) -}}
{{- else -}}
{{- .account.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "statemaint.serviceAccount" -}}
{{- if .account.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "statemaint.serviceAccountName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "statemaint.labels" . | nindent 4 }}
  {{- $annotations := dict }}
  {{- with .account.awsRoleArn }}{{ $_ := set $annotations "eks.amazonaws.com/role-arn" . }}{{ end }}
  {{- with .account.azureClientId }}{{ $_ := set $annotations "azure.workload.identity/client-id" . }}{{ end }}
  {{- with .account.gcpServiceAccount }}{{ $_ := set $annotations "iam.gke.io/gcp-service-account" . }}{{ end }}
  {{- with merge (deepCopy .account.annotations) $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# No pod calls the API of Kubernetes. The webhooks of IRSA and of Azure mount a token of their own.
automountServiceAccountToken: false
{{- end }}
{{- end -}}

{{/* Labels of a pod that must change nothing in its selector: (dict "root" $ "account" VALUES). */}}
{{- define "statemaint.podLabels" -}}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- if .account.azureClientId }}
azure.workload.identity/use: "true"
{{- end }}
{{- end -}}

{{/*
The part of a pod's spec that is the same for all that runs the program:
(dict "root" $ "component" NAME "with" VALUES). They meet the restricted standard of Pod Security.
*/}}
{{- define "statemaint.pod" -}}
serviceAccountName: {{ include "statemaint.serviceAccountName" (dict "root" .root "component" .component "account" .with.serviceAccount) }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .root.Values.storage.runAsUser | int64 }}
  runAsGroup: {{ .root.Values.storage.runAsGroup | int64 }}
  {{- with .root.Values.storage.fsGroup }}
  fsGroup: {{ . | int64 }}
  # The owner of what is there stays; a large volume would take minutes.
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .with.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .with.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .with.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The same part of a container, with the arguments of its program: (dict "root" $ "args" LIST "with" VALUES). */}}
{{- define "statemaint.container" -}}
image: {{ include "statemaint.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args:
  {{- toYaml .args | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  {{- toYaml .with.resources | nindent 2 }}
env:
  - name: STATEMAINT_ORIGIN
    value: {{ include "statemaint.origin" .root }}
  - name: STATEMAINT_NAMESPACE
    value: {{ .root.Release.Namespace }}
  {{- with include "statemaint.pushgatewayUrl" .root }}
  - name: STATEMAINT_PUSHGATEWAY
    value: {{ . | quote }}
  {{- end }}
  {{- range $name, $value := .root.Values.storage.env }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
{{- with .with.existingSecret | default .root.Values.storage.existingSecret }}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end -}}

{{/*
The name of a query's CronJob: (dict "root" $ "name" QUERY). Kubernetes takes 52 characters of a-z, 0-9 and -; a
query whose name had to be changed for that gets a part of its digest, so that no two become one.
*/}}
{{- define "statemaint.jobName" -}}
{{- $release := include "statemaint.fullname" .root | trunc 20 | trimSuffix "-" -}}
{{- $plain := regexReplaceAll "[^a-z0-9-]+" (lower .name) "-" | trimAll "-" -}}
{{- if and (eq $plain .name) (le (len $plain) 30) -}}
{{- printf "%s-%s" $release $plain -}}
{{- else -}}
{{- printf "%s-%s-%s" $release ($plain | trunc 21 | trimAll "-") (sha256sum .name | trunc 8) | replace "--" "-" -}}
{{- end -}}
{{- end -}}

{{/* The whole seconds of a duration such as 90s, 15m, 1.5h or 7d. */}}
{{- define "statemaint.seconds" -}}
{{- $unit := get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) (trunc -1 .) -}}
{{- mulf (float64 (trunc (int (sub (len .) 1)) .)) $unit | ceil | int64 -}}
{{- end -}}
