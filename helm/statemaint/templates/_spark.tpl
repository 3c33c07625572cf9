{{/*
The jobs on Spark as JSON: {"all": [{"name", "verb", "schedule", "args"}]}, one for each verb that is enabled and each
shard. The operator adds 20 characters to a name, and makes labels of 63 of it.
*/}}
{{- define "statemaint.sparkJobs" -}}
{{- $spark := .Values.spark -}}
{{- $release := include "statemaint.fullname" . | trunc 17 | trimSuffix "-" -}}
{{- $shards := int $spark.shards -}}
{{- $all := list -}}
{{- range $verb := list "maintain" "verify" "savepoint" -}}
{{- $job := get $spark $verb -}}
{{- range $number := ternary (untilStep 1 (int (add1 $shards)) 1) list $job.enabled -}}
{{- $name := printf "%s-spark-%s" $release $verb -}}
{{- $args := list $verb "--queries" "/etc/statemaint/queries.yaml" -}}
{{- if gt $shards 1 -}}
{{- $name = printf "%s-%d" $name $number -}}
{{- $args = concat $args (list "--shard" (printf "%d/%d" $number $shards)) -}}
{{- end -}}
{{- if $spark.history -}}
{{- $args = concat $args (list "--history" $spark.history) -}}
{{- end -}}
{{- if $spark.keepHistory -}}
{{- $args = concat $args (list "--keep-history" $spark.keepHistory) -}}
{{- end -}}
{{- $all = append $all (dict "name" $name "verb" $verb "schedule" $job.schedule "args" (concat $args $job.extraArgs)) -}}
{{- end -}}
{{- end -}}
{{- dict "all" $all | toJson -}}
{{- end -}}

{{/*
The template of a pod that Spark makes: (dict "root" $ "container" NAME "token" BOOL "env" LIST). The names of its
containers are Spark's.
*/}}
{{- define "statemaint.sparkPod" -}}
{{- $spark := .root.Values.spark -}}
metadata:
  {{- include "statemaint.podMetadata" (dict "root" .root "component" "spark" "account" $spark.serviceAccount "with" $spark) | nindent 2 }}
spec:
  {{- include "statemaint.pod" (dict "root" .root "component" "spark" "with" $spark "token" .token) | nindent 2 }}
  containers:
    - name: {{ .container }}
      {{- include "statemaint.process" (dict "root" .root "with" $spark "env" .env) | nindent 6 }}
      volumeMounts:
        {{- include "statemaint.sparkMounts" .root | nindent 8 }}
  volumes:
    {{- include "statemaint.sparkVolumes" .root | nindent 4 }}
{{- end -}}

{{/* Java asks who its user is, and ends where the image does not know: the values choose the user. */}}
{{- define "statemaint.sparkMounts" -}}
{{ include "statemaint.mounts" . }}
- name: users
  mountPath: /etc/passwd
  subPath: passwd
  readOnly: true
{{- end -}}

{{- define "statemaint.sparkVolumes" -}}
{{ include "statemaint.volumes" . }}
- name: users
  configMap:
    name: {{ include "statemaint.fullname" . }}-spark
{{- end -}}

{{/* The text of a value: Helm reads every number as one with a fraction, and would write 5e+07. */}}
{{- define "statemaint.setting" -}}
{{- ternary . (toJson .) (kindIs "string" .) -}}
{{- end -}}

{{/*
The variable of a pod by which each Spark that Python starts there has the settings: the whole one of a CronJob, or the
one that a task starts on an executor for Hadoop's clients: (dict "conf" VALUES). PySpark splits it as a shell does.
*/}}
{{- define "statemaint.submitArgs" -}}
{{- $words := list -}}
{{- range $key, $value := .conf -}}
{{- $words = concat $words (list "--conf" (printf "%s=%s" $key (include "statemaint.setting" $value) | squote)) -}}
{{- end -}}
{{- dict "name" "PYSPARK_SUBMIT_ARGS" "value" (join " " (append $words "pyspark-shell")) | toJson -}}
{{- end -}}

{{/* What is wrong with the values of the jobs on Spark, as a JSON list. */}}
{{- define "statemaint.sparkProblems" -}}
{{- $problems := list -}}
{{- $spark := .Values.spark -}}
{{- if $spark.enabled -}}
{{- if not $spark.image.repository -}}
{{- $problems = append $problems "spark.image.repository: is empty, and that image has Spark; build the target spark (or hadoop) of the Dockerfile of the repository, push it, and name it here" -}}
{{- end -}}
{{- if .Values.cronJobs.enabled -}}
{{- $problems = append $problems "spark.enabled: the CronJobs of cronJobs.enabled would work on the same queries; enable one of the two" -}}
{{- end -}}
{{- if and $spark.maintain.enabled .Values.airflow.enabled -}}
{{- $problems = append $problems "spark.maintain.enabled: Airflow would maintain the same queries; set airflow.enabled to false, or set spark.maintain.enabled to false and let Airflow run queries on Spark (engine: spark)" -}}
{{- end -}}
{{- $saved := list -}}
{{- range (include "statemaint.queries" . | fromJson).all -}}
{{- if and .query.savepoint (ne (toString .query.enabled) "false") -}}
{{- $saved = append $saved .name -}}
{{- $place := include "statemaint.place" .query.savepoint.to | fromJson -}}
{{- if and $spark.savepoint.enabled (hasPrefix "file://" $place.host) (ne (include "statemaint.isMounted" (dict "path" $place.path "root" $)) "true") -}}
{{- $problems = append $problems (printf "queries.queries.%s.savepoint.to: %s is a path, and no entry of storage.volumeMounts has it; mount the volume that it is on" .key .query.savepoint.to) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $spark.savepoint.enabled (not $saved) -}}
{{- $problems = append $problems "spark.savepoint.enabled: no query says where its savepoints are; add savepoint: {to: ADDRESS} to one, or set it to false" -}}
{{- end -}}
{{- if not (or $spark.maintain.enabled $spark.verify.enabled $spark.savepoint.enabled) -}}
{{- $problems = append $problems "spark.enabled: nothing would run; enable spark.maintain, spark.verify or spark.savepoint" -}}
{{- end -}}
{{- if and $spark.keepHistory (not $spark.history) -}}
{{- $problems = append $problems "spark.keepHistory: has no effect without spark.history; name its place there, or take it out" -}}
{{- end -}}
{{- if eq (include "statemaint.hasSecret" $spark.history) "true" -}}
{{- $problems = append $problems "spark.history: the address has a secret in it, which would be shown; give it without, and the credentials as for the checkpoints" -}}
{{- end -}}
{{- if $spark.history -}}
{{- $place := include "statemaint.place" $spark.history | fromJson -}}
{{- if and (hasPrefix "file://" $place.host) (ne (include "statemaint.isMounted" (dict "path" $place.path "root" $)) "true") -}}
{{- $problems = append $problems (printf "spark.history: %s is a path, and no entry of storage.volumeMounts has it; mount the volume that it is on" $spark.history) -}}
{{- end -}}
{{- end -}}
{{- $given := "^spark\\.(master|submit\\.deployMode)$" -}}
{{- if eq $spark.mode "sparkapplication" -}}
{{- $given = "^spark\\.(master|submit\\.deployMode|(driver|executor)\\.(cores|instances|memory|memoryOverhead))$" -}}
{{- end -}}
{{- range $key, $value := $spark.sparkConf -}}
{{- if regexMatch $given $key -}}
{{- $problems = append $problems (printf "spark.sparkConf.%s: the chart gives it itself, by spark.mode and the values of the mode; take it out" $key) -}}
{{- end -}}
{{- /* Hadoop replaces ${env.NAME} by that variable. */}}
{{- $names := or (regexMatch "(?i)(provider|file|\\.secrets\\.[^.]+|\\.secretKeyRef\\.[^.]+)$" $key) (regexMatch "^[$]{env[.]\\w+}$" (toString $value)) -}}
{{- if or (and (not $names) (regexMatch "(?i)(secret|password|passwd|token|credential|private|account.?key|access.?key)" $key)) (eq (include "statemaint.hasSecret" (toString $value)) "true") -}}
{{- $problems = append $problems (printf "spark.sparkConf.%s: a secret would stand in the manifests; write ${env.NAME} for a setting of spark.hadoop, and give that variable from a Secret in spark.extraEnv" $key) -}}
{{- end -}}
{{- if contains "'" (toString $value) -}}
{{- $problems = append $problems (printf "spark.sparkConf.%s: has an apostrophe, which does not reach Spark; write it without" $key) -}}
{{- end -}}
{{- end -}}
{{- range $verb := list "maintain" "verify" "savepoint" -}}
{{- $job := get $spark $verb -}}
{{- with include "statemaint.cronProblem" (dict "schedule" $job.schedule "job" true) -}}
{{- $problems = append $problems (printf "spark.%s.schedule: %q is not a valid schedule: it %s; correct it, such as \"5 * * * *\" or @hourly" $verb $job.schedule .) -}}
{{- end -}}
{{- range $given := $job.extraArgs -}}
{{- $flag := first (splitList "=" $given) -}}
{{- if has $flag (list "--queries" "--shard" "--master" "--history" "--keep-history") -}}
{{- $problems = append $problems (printf "spark.%s.extraArgs: the chart gives %s itself; take it out" $verb $flag) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
