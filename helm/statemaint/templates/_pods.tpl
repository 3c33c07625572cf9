{{/* An image; a digest goes before a tag: (dict "root" $ "image" VALUES). */}}
{{- define "statemaint.image" -}}
{{- with .image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.root.Chart.AppVersion }}{{ end }}
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
  namespace: {{ .root.Release.Namespace | quote }}
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
# Only Spark's driver calls the API of Kubernetes, and its pod says so. The webhooks of IRSA and of Azure mount a token
# of their own.
automountServiceAccountToken: false
{{- end }}
{{- end -}}

{{/*
The metadata of a pod: (dict "root" $ "component" NAME "account" VALUES "with" VALUES), where wanted also "labels", that
are selected by, and "annotations" of its own. A name that is given twice has the value of `podLabels`.
*/}}
{{- define "statemaint.podMetadata" -}}
{{- $labels := merge (include "statemaint.selectorLabels" . | fromYaml) (.labels | default dict) (deepCopy .with.podLabels) (deepCopy .root.Values.commonLabels) -}}
{{- if .account.azureClientId -}}{{- $_ := set $labels "azure.workload.identity/use" "true" -}}{{- end -}}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with merge (deepCopy .with.podAnnotations) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The part of a pod's spec that is the same for all that runs the program:
(dict "root" $ "component" NAME "with" VALUES). They meet the restricted standard of Pod Security. With "token" true,
it may call the API of Kubernetes.
*/}}
{{- define "statemaint.pod" -}}
serviceAccountName: {{ include "statemaint.serviceAccountName" (dict "root" .root "component" .component "account" .with.serviceAccount) }}
automountServiceAccountToken: {{ .token | default false }}
enableServiceLinks: false
{{- with .with.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
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
{{- with .with.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The same part of a container, with the arguments of its program: (dict "root" $ "args" LIST "with" VALUES), where wanted
also "image" VALUES, "resources" VALUES and "env" LIST.
*/}}
{{- define "statemaint.container" -}}
{{- $image := .image | default .root.Values.image -}}
image: {{ include "statemaint.image" (dict "root" .root "image" $image) | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
args:
  {{- toYaml .args | nindent 2 }}
resources:
  {{- toYaml (.resources | default .with.resources) | nindent 2 }}
{{ include "statemaint.process" . }}
{{- end -}}

{{/* The rights and the environment of a container: (dict "root" $ "with" VALUES), where wanted also "env" LIST. */}}
{{- define "statemaint.process" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  - name: STATEMAINT_ORIGIN
    value: {{ include "statemaint.origin" .root }}
  - name: STATEMAINT_NAMESPACE
    value: {{ .root.Release.Namespace | quote }}
  {{- with include "statemaint.pushgatewayUrl" .root }}
  - name: STATEMAINT_PUSHGATEWAY
    value: {{ . | quote }}
  {{- end }}
  {{- range $name, $value := .root.Values.storage.env }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- with concat (.env | default list) .with.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $sources := list -}}
{{- with .with.existingSecret | default .root.Values.storage.existingSecret -}}
{{- $sources = append $sources (dict "secretRef" (dict "name" .)) -}}
{{- end -}}
{{- with concat $sources .with.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The mounts of a container that reads the queries file, and the volumes of its pod: $. */}}
{{- define "statemaint.mounts" -}}
- name: queries
  mountPath: /etc/statemaint
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- with .Values.storage.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "statemaint.volumes" -}}
- name: queries
  configMap:
    name: {{ include "statemaint.fullname" . }}-queries
- name: tmp
  emptyDir: {}
{{- with .Values.storage.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
The name of a query's CronJob: (dict "root" $ "name" QUERY). Kubernetes takes 52 characters of a-z, 0-9 and -; a
query whose name had to be changed for that gets a part of its digest, so that no two become one. Only the names of
the CronJobs of the "verb" verify end in that word.
*/}}
{{- define "statemaint.jobName" -}}
{{- $release := include "statemaint.fullname" .root | trunc 20 | trimSuffix "-" -}}
{{- $plain := regexReplaceAll "[^a-z0-9-]+" (lower .name) "-" | trimAll "-" -}}
{{- if eq .verb "verify" -}}
{{- printf "%s-%s-%s-verify" $release ($plain | trunc 14 | trimAll "-") (sha256sum .name | trunc 8) | replace "--" "-" -}}
{{- else if and (eq $plain .name) (le (len $plain) 30) (not (hasSuffix "-verify" $plain)) -}}
{{- printf "%s-%s" $release $plain -}}
{{- else -}}
{{- printf "%s-%s-%s" $release ($plain | trunc 21 | trimAll "-") (sha256sum .name | trunc 8) | replace "--" "-" -}}
{{- end -}}
{{- end -}}

{{/*
A schedule for a CronJob, moved by a part of the minutes "window" that the name gives, so that not all begin at the full
hour: (dict "schedule" TEXT "name" NAME "window" MINUTES). The hour stays. Lists and ranges of minutes are left alone.
*/}}
{{- define "statemaint.spread" -}}
{{- $plain := dict "@hourly" "0 * * * *" "@daily" "0 0 * * *" "@weekly" "0 0 * * 0" "@monthly" "0 0 1 * *" "@quarterly" "0 0 1 */3 *" "@yearly" "0 0 1 1 *" -}}
{{- $window := int .window -}}
{{- if or $window (eq .schedule "@quarterly") -}}
{{- $fields := splitList " " (regexReplaceAll " +" (get $plain .schedule | default .schedule | trim) " ") -}}
{{- $minute := first $fields -}}
{{- $number := adler32sum .name | int64 -}}
{{- if and $window (regexMatch "^[0-9]+$" $minute) -}}
{{- $minute = add (atoi $minute) (mod $number (min $window (sub 60 (atoi $minute)))) -}}
{{- else if and $window (has $minute (list "*/5" "*/10" "*/15" "*/20" "*/30")) -}}
{{- $step := trimPrefix "*/" $minute | atoi -}}
{{- $minute = printf "%d-59/%d" (mod $number (min $window $step)) $step -}}
{{- end -}}
{{- join " " (prepend (rest $fields) $minute) -}}
{{- else -}}
{{- .schedule -}}
{{- end -}}
{{- end -}}

{{/* The whole seconds of a duration such as 90s, 15m, 1.5h or 7d. */}}
{{- define "statemaint.seconds" -}}
{{- $unit := get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) (trunc -1 .) -}}
{{- mulf (float64 (trunc (int (sub (len .) 1)) .)) $unit | ceil | int64 -}}
{{- end -}}

{{/*
What is not tried again: a wrong configuration (2) and damage (3) are the same at the next attempt. A held lease (4), a
storage that fails (5) and a query that moved on (6) are not. Its argument is the name of the container.
*/}}
{{- define "statemaint.podFailurePolicy" -}}
podFailurePolicy:
  rules:
    - action: FailJob
      onExitCodes:
        containerName: {{ . }}
        operator: In
        values: [2, 3]
{{- end -}}
