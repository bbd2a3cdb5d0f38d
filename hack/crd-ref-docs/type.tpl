{{- define "type" -}}
{{- $type := .type -}}
{{- $types := .types -}}
{{- $inlined := .inlined -}}
{{ .heading }} {{ $type.Name }}

{{ $type.Doc | replace "\n" " " }}
{{- if or (and $type.IsAlias (not (index $type.Markers "kubebuilder:validation:MaxProperties"))) (index $type.Markers "kubebuilder:validation:Type") }} It is written as a string.{{ end }}
{{ with index $type.Markers "kubebuilder:resource" }}{{ template "resource" (dict "resource" (last .) "columns" (index $type.Markers "kubebuilder:printcolumn")) }}{{ end }}
{{- $rules := list -}}
{{- range $type.Validation }}{{ if not (has . (list "Type: " "XIntOrString: \\{\\}" "XIntOrString: {}")) }}{{ $rules = append $rules . }}{{ end }}{{ end }}
{{- $messages := index $type.Markers "kubebuilder:validation:XValidation" -}}
{{- range $name := $inlined }}
{{- $part := index $types $name }}
{{- if $part }}{{ range $part.References }}{{ if eq .Name $type.Name }}{{ $messages = concat $messages (index $part.Markers "kubebuilder:validation:XValidation") }}{{ end }}{{ end }}{{ end }}
{{- end }}
{{- if or $rules $messages }}
Rules:
{{ range $rules }}
- {{ template "rule" . }}
{{- end }}
{{- range $messages }}
- {{ .Message | markdownRenderFieldDoc }}
{{- end }}
{{ end }}
{{- if $type.Members }}
| Field | Description | Default | Rules |
| --- | --- | --- | --- |
{{ range $type.Members }}{{ if ne .Name "metadata" -}}
| `{{ .Name }}`<br />{{ template "typeName" .Type }} | {{ .Doc | replace "\n" " " | markdownRenderFieldDoc }} | {{ template "default" . }} | {{ template "fieldRules" . }} |
{{ end }}{{ end }}
{{- end }}
{{- if $type.EnumValues }}
| Value | Meaning |
| --- | --- |
{{ range $type.EnumValues -}}
{{- /* A Go comment begins with the name of the constant, which nobody who writes YAML has seen. */ -}}
| `{{ .Name }}` | {{ regexReplaceAll "^[A-Za-z]+:? " (trim .Doc | replace "\n" " ") "" | markdownRenderFieldDoc }} |
{{ end }}
{{- end }}
{{- if and $type.References (not $type.GVK) }}
{{- $users := list }}
{{- range $type.SortedReferences }}{{ if not (has .Name $inlined) }}{{ $users = append $users (markdownRenderLocalLink .Name) }}{{ end }}{{ end }}
Used in {{ join ", " $users }}.
{{ end }}
{{- end -}}

{{- define "resource" }}
{{- $resource := .resource }}
{{ ternary "It belongs to no namespace." "It belongs to a namespace." (eq $resource.Scope "Cluster") }} Short name: `{{ join "`, `" $resource.ShortName }}`. Full name: `{{ $resource.Path }}.remedy.cluster.x-k8s.io`.

| Column of `kubectl get` | Meaning |
| --- | --- |
{{ range .columns -}}
| {{ upper .Name }}{{ if .Priority }} (with `-o wide`){{ end }} | {{ .Description | default "How long ago it was created" }} |
{{ end }}
{{- end -}}
