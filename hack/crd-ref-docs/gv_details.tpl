{{- define "gvDetails" -}}
{{- $gv := . -}}
{{- /* These are written in line into other types. They are shown there, so that a reader finds all fields of a spec in one table. */ -}}
{{- $inlined := list "CheckStatus" "Limits" "Pace" "TemplateKind" -}}
{{- $shown := $inlined -}}
{{- range $kind := $gv.SortedKinds }}
{{- range $part := list "" "Spec" "Status" }}
{{- $name := print $kind $part }}
{{- $shown = append $shown $name }}
{{- with index $gv.Types $name }}
{{ template "type" (dict "type" . "types" $gv.Types "inlined" $inlined "heading" (ternary "##" "###" (eq $part ""))) }}
{{- end }}
{{- end }}
{{- end }}
## Parts
{{ range $gv.SortedTypes }}
{{- if not (has .Name $shown) }}
{{ template "type" (dict "type" . "types" $gv.Types "inlined" $inlined "heading" "###") }}
{{- end }}
{{- end }}
{{- end -}}
