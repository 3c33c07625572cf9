{{/*
Refuses values with a sentence for each mistake: where it is, what is wrong, what to do. What the schema can say is
in values.schema.json; its messages show values, so that whatever may be a secret is looked at here instead.
*/}}
{{- define "statemaint.validate" -}}
{{- $read := include "statemaint.queries" . | fromJson -}}
{{- $problems := $read.problems -}}
{{- $jobs := .Values.cronJobs.enabled -}}
{{- $spark := .Values.spark -}}
{{- $own := or $jobs .Values.exporter.enabled $spark.enabled -}}
{{- $alone := ternary "cronJobs.enabled" (ternary "spark.enabled" "" $spark.enabled) $jobs -}}
{{- $names := dict -}}
{{- $places := dict -}}
{{- range $entry := $read.all -}}
{{- $where := printf "queries.queries.%s" $entry.key -}}
{{- $query := $entry.query -}}
{{- if hasKey $names $entry.name -}}
{{- $problems = append $problems (printf "%s: makes a query %s, as %s does; rename one" $where $entry.name (get $names $entry.name)) -}}
{{- end -}}
{{- if not (regexMatch "^[A-Za-z0-9_.{}-]{1,200}$" $entry.name) -}}
{{- $problems = append $problems (printf "%s: %q must be a name of up to 200 letters, digits and _ . -" $where $entry.name) -}}
{{- end -}}
{{- $_ := set $names $entry.name $entry.key -}}
{{- with $query.schedule -}}
{{- with include "statemaint.cronProblem" (dict "schedule" . "job" $jobs) -}}
{{- $problems = append $problems (printf "%s.schedule: %q is not a valid schedule: it %s; correct it, such as \"5 * * * *\" or @hourly" $where $query.schedule .) -}}
{{- end -}}
{{- end -}}
{{- range list "timeout" "deadline" -}}
{{- if and (get $query .) (eq (include "statemaint.seconds" (get $query .)) "0") -}}
{{- $problems = append $problems (printf "%s.%s: must be longer than 0s" $where .) -}}
{{- end -}}
{{- end -}}
{{- with $query.savepoint -}}
{{- $parts := splitList "/" (trimSuffix "/" .to) -}}
{{- if eq (include "statemaint.hasSecret" .to) "true" -}}
{{- $problems = append $problems (printf "%s.savepoint.to: the address has a secret in it, which would be shown; give it without, and the credentials as for the checkpoint" $where) -}}
{{- else if not (or (contains "://" .to) (hasPrefix "file:" .to) (hasPrefix "/" .to)) -}}
{{- $problems = append $problems (printf "%s.savepoint.to: %q is neither an absolute path nor an address; write it like s3://backup/{query}/{batch}" $where .to) -}}
{{- else if or (not (contains "{batch}" (last $parts))) (contains "{batch}" (join "/" (initial $parts))) -}}
{{- $problems = append $problems (printf "%s.savepoint.to: %q needs {batch} in its last part, and only there; write it like s3://backup/{query}/{batch}" $where .to) -}}
{{- end -}}
{{- $schedule := .schedule -}}
{{- with $schedule -}}
{{- with include "statemaint.cronProblem" (dict "schedule" . "job" false) -}}
{{- $problems = append $problems (printf "%s.savepoint.schedule: %q is not a valid schedule: it %s; correct it, such as \"5 * * * *\" or @daily" $where $schedule .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := dig "spark" "conf" dict $query -}}
{{- if or (regexMatch "(?i)(secret|password|token)" $key) (eq (include "statemaint.hasSecret" (toString $value)) "true") -}}
{{- $problems = append $problems (printf "%s.spark.conf.%s: its value is a secret, which would be shown; give it in spark-defaults.conf, or by the environment of Spark's driver and executors" $where $key) -}}
{{- end -}}
{{- end -}}
{{- if eq (include "statemaint.hasSecret" $query.checkpoint) "true" -}}
{{- $problems = append $problems (printf "%s.checkpoint: the address has a secret in it, which would be shown; give it without, and the credentials in storage.existingSecret or by a service account" $where) -}}
{{- else if not (or (contains "://" $query.checkpoint) (hasPrefix "file:" $query.checkpoint) (hasPrefix "/" $query.checkpoint)) -}}
{{- $problems = append $problems (printf "%s.checkpoint: %q is neither an absolute path nor an address; write it like s3://bucket/path or /data/path" $where $query.checkpoint) -}}
{{- else -}}
{{- $place := include "statemaint.place" $query.checkpoint | fromJson -}}
{{- $slot := printf "%s%s" $place.host $place.path -}}
{{- range get $places $slot | default list -}}
{{- if or (eq .port $place.port) (not .port) (not $place.port) -}}
{{- $problems = append $problems (printf "%s.checkpoint: %s and %s have one checkpoint (%s); leave one of the two out, or give each its own" $where .name $entry.name $query.checkpoint) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $places $slot (append (get $places $slot | default list) (dict "name" $entry.name "key" $entry.key "port" $place.port)) -}}
{{- if and $own (hasPrefix "file://" $place.host) -}}
{{- if ne (include "statemaint.isMounted" (dict "path" $place.path "root" $)) "true" -}}
{{- $problems = append $problems (printf "%s.checkpoint: %s is a path, and no entry of storage.volumeMounts has it; mount the volume that it is on" $where $query.checkpoint) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $alone -}}
{{- range list "after" "connection" "deadline" "notify" "queue" "executor" "spark" -}}
{{- if get $query . -}}
{{- $instead := ternary ", and give spark.sparkConf what all queries need" "" (and $spark.enabled (eq . "spark")) -}}
{{- $problems = append $problems (printf "%s.%s: only Airflow can do this, and %s runs without it; take it out%s" $where . $alone $instead) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $jobs (eq ($query.engine | default "tasks") "spark") -}}
{{- $problems = append $problems (printf "%s.engine: a CronJob of cronJobs.enabled has no Spark; set spark.enabled instead, which runs every query on Spark, or airflow.enabled, which runs this one on Spark, or take it out" $where) -}}
{{- end -}}
{{- if $spark.enabled -}}
{{- if and (eq ($query.engine | default "spark") "tasks") (not $.Values.airflow.enabled) -}}
{{- $problems = append $problems (printf "%s.engine: spark.enabled runs every query on Spark; take it out" $where) -}}
{{- end -}}
{{- range list "together" "timeout" "retries" "retry_delay" "max_tasks" -}}
{{- if and (hasKey $query .) (not $.Values.airflow.enabled) -}}
{{- $here := get (dict "timeout" "; spark.cronJob.timeout is for all" "retries" "; spark.cronJob.retries is for all") . | default "" -}}
{{- $problems = append $problems (printf "%s.%s: has no effect, as spark.enabled has one program for all queries; take it out%s" $where . $here) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $query.together (ne ($query.engine | default "tasks") "spark") -}}
{{- $problems = append $problems (printf "%s: together is for queries that share a Spark program; add `engine: spark`" $where) -}}
{{- end -}}
{{- if and (eq ($query.engine | default "tasks") "spark") $query.connection -}}
{{- $problems = append $problems (printf "%s: with engine: spark, executors take their credentials from their environment; take `connection` out" $where) -}}
{{- end -}}
{{- end -}}
{{- range $slot, $here := $places -}}
{{- $scheme := first (splitList "://" $slot) -}}
{{- $parts := rest (splitList "/" (last (splitList "://" $slot))) -}}
{{- $around := printf "%s://%s" $scheme (first (splitList "/" (last (splitList "://" $slot)))) -}}
{{- $arounds := list (printf "%s/" $around) -}}
{{- range $part := initial $parts -}}
{{- $around = printf "%s/%s" $around $part -}}
{{- $arounds = append $arounds $around -}}
{{- end -}}
{{- range $around := without $arounds $slot -}}
{{- range $outer := get $places $around | default list -}}
{{- range $inner := $here -}}
{{- $problems = append $problems (printf "queries.queries.%s.checkpoint: it lies inside that of %s; give each query the checkpointLocation that is its own" $inner.key $outer.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $where, $address := dict "pushgateway.url" .Values.pushgateway.url "queries.pushgateway" (.Values.queries.pushgateway | default "") -}}
{{- if or (contains "@" $address) (eq (include "statemaint.hasSecret" $address) "true") -}}
{{- $problems = append $problems (printf "%s: the address has a secret in it, which would be shown; give it without, and STATEMAINT_PUSHGATEWAY_USER and STATEMAINT_PUSHGATEWAY_PASSWORD in a Secret" $where) -}}
{{- else if and $address (not (regexMatch "^https?://.+" $address)) -}}
{{- $problems = append $problems (printf "%s: not a web address; write it like http://pushgateway:9091" $where) -}}
{{- end -}}
{{- end -}}
{{- $isSecret := "(?i)(secret|password|passwd|token|credential|private|account_?key|access_?key)" -}}
{{- range $name, $value := .Values.storage.env -}}
{{- if or (regexMatch $isSecret $name) (eq (include "statemaint.hasSecret" $value) "true") -}}
{{- $problems = append $problems (printf "storage.env.%s: a secret would stand in the manifests; put it into a Secret, and its name into storage.existingSecret" $name) -}}
{{- end -}}
{{- end -}}
{{- range $component, $values := dict "cronJobs" .Values.cronJobs "spark" $spark "exporter" .Values.exporter -}}
{{- range $values.extraEnv -}}
{{- if and .value (or (regexMatch $isSecret .name) (eq (include "statemaint.hasSecret" .value) "true")) -}}
{{- $problems = append $problems (printf "%s.extraEnv.%s: a secret would stand in the manifests; put it into a Secret, and give valueFrom.secretKeyRef" $component .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (or $jobs .Values.exporter.enabled) (not .Values.image.repository) -}}
{{- $problems = append $problems "image.repository: is empty, and the exporter and the CronJobs run that image; build it with the Dockerfile of the repository, push it, and name it here" -}}
{{- end -}}
{{- if and $jobs .Values.airflow.enabled -}}
{{- $problems = append $problems "cronJobs.enabled: Airflow would maintain the same queries; set airflow.enabled to false, or leave the CronJobs out" -}}
{{- end -}}
{{- $problems = concat $problems (include "statemaint.jobProblems" . | fromJsonArray) (include "statemaint.sparkProblems" . | fromJsonArray) -}}
{{- if and .Values.exporter.serviceMonitor.enabled .Values.exporter.podMonitor.enabled -}}
{{- $problems = append $problems "exporter.podMonitor.enabled: the ServiceMonitor scrapes the same pod, and each series would be there twice; enable one of the two" -}}
{{- end -}}
{{- if and $alone (dig "pushgateway_auth" "connection" "" .Values.queries) -}}
{{- $problems = append $problems "queries.pushgateway_auth.connection: only Airflow has connections, and these jobs run without it; give basic_auth_file or bearer_token_file on a volume, or STATEMAINT_PUSHGATEWAY_USER and STATEMAINT_PUSHGATEWAY_PASSWORD in a Secret" -}}
{{- end -}}
{{- range list "textfile" "plans" -}}
{{- $folder := get $.Values.queries . | default "" -}}
{{- if and $folder (not (hasPrefix "/" $folder)) -}}
{{- $problems = append $problems (printf "queries.%s: %q is not an absolute path; give the folder, from / on" . $folder) -}}
{{- end -}}
{{- end -}}
{{- with .Values.queries.textfile -}}
{{- if and $alone (ne (include "statemaint.isMounted" (dict "path" . "root" $)) "true") -}}
{{- $problems = append $problems (printf "queries.textfile: no entry of storage.volumeMounts has %s; mount the node's folder that node_exporter reads there" .) -}}
{{- end -}}
{{- end -}}
{{- $problems = concat $problems (include "statemaint.alertProblems" . | fromJsonArray) -}}
{{- with $problems -}}
{{- fail (printf "\n\nthe values cannot be used:\n- %s\n" (join "\n- " (. | uniq))) -}}
{{- end -}}
{{- end -}}

{{/* What is wrong with the values of the CronJobs and of all pods, as a JSON list. */}}
{{- define "statemaint.jobProblems" -}}
{{- $problems := list -}}
{{- with .Values.cronJobs -}}
{{- with and .verify.enabled (include "statemaint.cronProblem" (dict "schedule" .verify.schedule "job" true)) -}}
{{- $problems = append $problems (printf "cronJobs.verify.schedule: %q is not a valid schedule: it %s; correct it, such as \"0 3 * * 0\" or @weekly" $.Values.cronJobs.verify.schedule .) -}}
{{- end -}}
{{- if and .verify.enabled (not .enabled) -}}
{{- $problems = append $problems "cronJobs.verify.enabled: has no effect without cronJobs.enabled; enable it, or let Airflow's DAG statemaint_verify or spark.verify do it" -}}
{{- end -}}
{{- if and .maxPods (not .priorityClassName) -}}
{{- $problems = append $problems "cronJobs.maxPods: a ResourceQuota counts pods by their priority class; make a PriorityClass for these pods alone, and name it in cronJobs.priorityClassName" -}}
{{- end -}}
{{- end -}}
{{- range $component := list "cronJobs" "spark" "exporter" "pushgateway" -}}
{{- range $label := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "statemaint/shard" -}}
{{- if hasKey (get $.Values $component).podLabels $label -}}
{{- $problems = append $problems (printf "%s.podLabels: %s selects the pods of this chart; take it out" $component $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "statemaint.alertProblems" -}}
{{- $problems := list -}}
{{- $alerts := list -}}
{{- range (.Files.Get "files/alerts.yaml" | fromYaml).groups -}}
{{- range .rules -}}{{- with .alert -}}{{- $alerts = append $alerts . -}}{{- end -}}{{- end -}}
{{- end -}}
{{- range $key, $names := dict "disabled" .Values.alerts.disabled "rules" (keys .Values.alerts.rules) -}}
{{- range $names -}}
{{- if not (has . $alerts) -}}
{{- $problems = append $problems (printf "alerts.%s: there is no alert %s; correct the name, or take it out" $key .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range keys .Values.alerts.rules -}}
{{- if has . $.Values.alerts.disabled -}}
{{- $problems = append $problems (printf "alerts.rules.%s: has no effect, as alerts.disabled leaves the alert out; take it out of one of the two" .) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* "true" where a volume is mounted at a path or above it: (dict "path" TEXT "root" $). */}}
{{- define "statemaint.isMounted" -}}
{{- $path := clean .path -}}
{{- $mounted := false -}}
{{- range .root.Values.storage.volumeMounts -}}
{{- if or (eq $path (clean .mountPath)) (hasPrefix (printf "%s/" (trimSuffix "/" (clean .mountPath))) $path) -}}{{- $mounted = true -}}{{- end -}}
{{- end -}}
{{- $mounted -}}
{{- end -}}

{{/* "true" where an address has a password, a key or a token in it, as statemaint.storage.has_secret. */}}
{{- define "statemaint.hasSecret" -}}
{{- if contains "://" . -}}
{{- $scheme := last (splitList "+" (lower (first (splitList "://" .)))) -}}
{{- $authority := first (regexSplit "[/?#]" (last (splitList "://" .)) 2) -}}
{{- $named := and (has $scheme (list "abfs" "abfss" "wasb" "wasbs" "hdfs" "webhdfs" "swebhdfs")) (not (contains ":" (first (splitList "@" $authority)))) -}}
{{- if or (and (contains "@" $authority) (not $named)) (regexMatch "(?i)[?&](sig|token|access_?key|secret[a-z_]*|password|delegation)=" .) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
