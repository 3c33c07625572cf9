{{/*
The queries of the values as JSON: {"all": [{"name", "key", "query"}]}, one for each combination of a
`for_each`, and "problems", a sentence for each entry that cannot be filled.
*/}}
{{- define "statemaint.queries" -}}
{{- $all := list -}}
{{- $problems := list -}}
{{- range $key, $query := .Values.queries.queries -}}
{{- $combinations := list (dict) -}}
{{- range $variable, $listed := ($query.for_each | default dict) -}}
{{- $longer := list -}}
{{- range $before := $combinations -}}
{{- range $listed -}}
{{- $longer = append $longer (merge (dict $variable (include "statemaint.setting" .)) $before) -}}
{{- end -}}
{{- end -}}
{{- $combinations = $longer -}}
{{- if not (contains (printf "{%s}" $variable) $key) -}}
{{- $problems = append $problems (printf "queries.queries.%s: the query's name lacks {%s}, so that several queries would have one name; put it in" $key $variable) -}}
{{- end -}}
{{- end -}}
{{- range $combination := $combinations -}}
{{- $name := $key -}}
{{- $filled := dict -}}
{{- range $variable, $value := $combination -}}
{{- $name = replace (printf "{%s}" $variable) $value $name -}}
{{- end -}}
{{- range $field, $given := omit $query "for_each" -}}
{{- $text := $given -}}
{{- if kindIs "string" $given -}}
{{- range $variable, $value := $combination -}}
{{- $text = replace (printf "{%s}" $variable) $value $text -}}
{{- end -}}
{{- end -}}
{{- $_ := set $filled $field $text -}}
{{- end -}}
{{- if regexMatch "[{}]" $name -}}
{{- $problems = append $problems (printf "queries.queries.%s: the name has a {placeholder} that for_each does not have; take it out, or add it to for_each" $key) -}}
{{- end -}}
{{- $all = append $all (dict "name" $name "key" $key "query" $filled) -}}
{{- end -}}
{{- end -}}
{{- dict "all" $all "problems" $problems | toJson -}}
{{- end -}}

{{/* The place that an address names, however it is spelled, as statemaint.storage.place_of: {"host", "path", "port"}. */}}
{{- define "statemaint.place" -}}
{{- $address := trimPrefix "hadoop+" . -}}
{{- $scheme := "file" -}}
{{- $rest := regexReplaceAll "^file:(//[^/]*)?" $address "" -}}
{{- if and (contains "://" $address) (not (hasPrefix "file:" $address)) -}}
{{- $scheme = lower (first (splitList "://" $address)) -}}
{{- $rest = trimPrefix (printf "%s://" (first (splitList "://" $address))) $address -}}
{{- end -}}
{{- $system := get (dict "s3a" "s3" "s3n" "s3" "webhdfs" "hdfs" "swebhdfs" "hdfs" "abfs" "azure" "abfss" "azure" "wasb" "azure" "wasbs" "azure") $scheme | default $scheme -}}
{{- $host := "" -}}
{{- $port := "" -}}
{{- $path := $rest -}}
{{- if ne $scheme "file" -}}
{{- $host = lower (first (splitList "/" $rest)) -}}
{{- $path = trimPrefix (first (splitList "/" $rest)) $rest -}}
{{- if eq $system "azure" -}}
{{- $host = replace ".blob." ".dfs." $host -}}
{{- else -}}
{{- $host = last (splitList "@" $host) -}}
{{- if regexMatch ":[0-9]+$" $host -}}
{{- if eq $scheme $system -}}{{- $port = last (splitList ":" $host) -}}{{- end -}}
{{- $host = regexReplaceAll ":[0-9]+$" $host "" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "host" (printf "%s://%s" $system $host) "path" (clean (printf "/%s" $path)) "port" $port | toJson -}}
{{- end -}}

{{/*
What is wrong with a schedule, or nothing: (dict "schedule" TEXT "job" BOOL). A CronJob of Kubernetes takes less
than Airflow: five fields, days of the week from 0 to 6, neither L nor #.
*/}}
{{- define "statemaint.cronProblem" -}}
{{- $job := .job -}}
{{- $schedule := trim .schedule -}}
{{- $fields := splitList " " (regexReplaceAll " +" $schedule " ") -}}
{{- $presets := list "@once" "@hourly" "@daily" "@weekly" "@monthly" "@quarterly" "@yearly" -}}
{{- if $job -}}{{- $presets = without $presets "@once" -}}{{- end -}}
{{- if hasPrefix "@" $schedule -}}
{{- if not (has $schedule $presets) -}}
is none of {{ join ", " $presets }}
{{- end -}}
{{- else if not (or (eq (len $fields) 5) (and (not $job) (eq (len $fields) 6))) -}}
has {{ len $fields }} fields; a cron expression has five: minute, hour, day, month, day of the week
{{- else -}}
{{- $months := "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec" -}}
{{- $days := "sun|mon|tue|wed|thu|fri|sat" -}}
{{- $kinds := list
  (dict "name" "minute" "least" 0 "most" 59 "words" "[0-9]{1,2}")
  (dict "name" "hour" "least" 0 "most" 23 "words" "[0-9]{1,2}")
  (dict "name" "day of the month" "least" 1 "most" 31 "words" "[0-9]{1,2}" "more" "l")
  (dict "name" "month" "least" 1 "most" 12 "words" (printf "[0-9]{1,2}|%s" $months))
  (dict "name" "day of the week" "least" 0 "most" (ternary 6 7 $job) "words" (printf "[0-7]|%s" $days) "more" "([0-6]|sun|mon|tue|wed|thu|fri|sat)#[1-5]|l[0-6]")
  (dict "name" "second" "least" 0 "most" 59 "words" "[0-9]{1,2}") -}}
{{- $problems := list -}}
{{- range $number, $field := $fields -}}
{{- $kind := index $kinds $number -}}
{{- range $item := splitList "," (lower $field) -}}
{{- $parts := splitList "/" $item -}}
{{- $ends := list -}}
{{- range splitList "-" (first $parts) -}}
{{- if regexMatch "^[0-9]+$" . -}}
{{- $ends = append $ends (atoi .) -}}
{{- else if regexMatch "^[a-z]{3}$" . -}}
{{- $at := 0 -}}
{{- $wanted := . -}}
{{- range $place, $word := splitList "|" (ternary $months $days (eq $kind.name "month")) -}}
{{- if eq $word $wanted -}}{{- $at = add $place $kind.least -}}{{- end -}}
{{- end -}}
{{- $ends = append $ends (int $at) -}}
{{- end -}}
{{- end -}}
{{- $usual := regexMatch (printf "^(\\*|(%s)(-(%s))?)(/[0-9]{1,2})?$" $kind.words $kind.words) $item -}}
{{- $special := and (not $job) $kind.more (regexMatch (printf "^(%s)$" ($kind.more | default "")) $item) -}}
{{- if $special -}}
{{- else if not $usual -}}
{{- $problems = append $problems (printf "has %q as its %s" $item $kind.name) -}}
{{- else -}}
{{- range $ends -}}
{{- if or (lt (int .) (int $kind.least)) (gt (int .) (int $kind.most)) -}}
{{- $problems = append $problems (printf "has the %s %d; it is from %d to %d" $kind.name (int .) (int $kind.least) (int $kind.most)) -}}
{{- end -}}
{{- end -}}
{{- if and (eq (len $ends) 2) (gt (int (first $ends)) (int (last $ends))) -}}
{{- $problems = append $problems (printf "has %q as its %s, which ends before it begins" $item $kind.name) -}}
{{- end -}}
{{- if eq (len $parts) 2 -}}
{{- if or (lt (atoi (last $parts)) 1) (gt (atoi (last $parts)) (int $kind.most)) -}}
{{- $problems = append $problems (printf "has the step %s in its %s; it is from 1 to %d" (last $parts) $kind.name (int $kind.most)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (not $problems) (regexMatch "^[0-9,]+$" (index $fields 2)) (regexMatch "^[0-9,]+$" (index $fields 3)) (eq (index $fields 4) "*") -}}
{{- $longest := 0 -}}
{{- range splitList "," (index $fields 3) -}}
{{- $longest = max $longest (index (list 0 31 29 31 30 31 30 31 31 30 31 30 31) (atoi .)) -}}
{{- end -}}
{{- $first := 31 -}}
{{- range splitList "," (index $fields 2) -}}{{- $first = min $first (atoi .) -}}{{- end -}}
{{- if gt (int $first) (int $longest) -}}
{{- $problems = append $problems "names a day that no year has" -}}
{{- end -}}
{{- end -}}
{{- join "; it " ($problems | uniq) -}}
{{- end -}}
{{- end -}}
