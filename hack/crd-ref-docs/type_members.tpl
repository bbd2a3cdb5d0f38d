{{- /* The kind of a type is a number: 1 basic, 3 map, 4 pointer, 5 slice. */ -}}
{{- define "typeName" -}}
{{- if eq .Kind 5 -}}list of {{ template "typeName" .UnderlyingType }}
{{- else if eq .Kind 4 -}}{{ template "typeName" .UnderlyingType }}
{{- else if eq .Kind 3 -}}map of {{ template "typeName" .KeyType }} to {{ template "typeName" .ValueType }}
{{- else if eq .Kind 1 -}}{{ hasPrefix "int" .Name | ternary "integer" .Name }}
{{- else if eq .Name "IntOrString" -}}integer or string
{{- else if eq .Name "Time" -}}time, as 2026-01-02T15:04:05Z
{{- else if eq .Name "LabelSelectorOperator" -}}string
{{- else if hasSuffix (print "/" (markdownTemplateValue "source")) .Package -}}{{ markdownRenderLocalLink .Name }}
{{- else if hasSuffix "/api/v1alpha1" .Package -}}[{{ .Name }}](api.md#{{ lower .Name }})
{{- else -}}{{ .Name }}
{{- end -}}
{{- end -}}

{{- define "default" -}}
{{- with index .Markers "kubebuilder:default" -}}
{{- $value := (last .).Value -}}
`{{ kindIs "string" $value | ternary $value (toJson $value) }}`
{{- end -}}
{{- end -}}

{{- /* What follows from the type of a field is said where the type is described. */ -}}
{{- define "fieldRules" -}}
{{- $field := . -}}
{{- $separator := "" -}}
{{- if has "Required: {}" .Validation -}}
required{{ $separator = "<br />" }}
{{- end -}}
{{- range .Validation -}}
{{- if not (or (has . (list "Optional: {}" "Required: {}" "Schemaless: {}" "Type: object" "XIntOrString: {}")) (has . (default list $field.Type.Validation))) -}}
{{ $separator }}{{ template "rule" . }}{{ $separator = "<br />" }}
{{- end -}}
{{- end -}}
{{- $messages := index .Markers "kubebuilder:validation:XValidation" -}}
{{- if not (deepEqual $messages (index .Type.Markers "kubebuilder:validation:XValidation")) -}}
{{- range $messages -}}
{{ $separator }}{{ .Message | markdownRenderFieldDoc }}{{ $separator = "<br />" }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A rule that has no words here is shown as it is. */ -}}
{{- define "rule" -}}
{{- $name := regexReplaceAll ": [^ ].*$" . "" -}}
{{- $value := trimPrefix (print $name ": ") . -}}
{{- if and (eq $name "MinLength") (eq $value "1") -}}not empty
{{- else if eq $name "MaxLength" -}}at most {{ $value }} characters
{{- else if eq $name "MaxItems" "MaxProperties" -}}at most {{ $value }} of them
{{- else if eq $name "MinItems" -}}at least {{ $value }} of them
{{- else if eq $name "Minimum" -}}at least {{ $value }}
{{- else if eq $name "Maximum" -}}at most {{ $value }}
{{- else if and (eq $name "items:MinLength") (eq $value "1") -}}none of them empty
{{- else if eq $name "items:MaxLength" -}}each at most {{ $value }} characters
{{- else if eq $name "Enum" -}}one of `{{ $value | trimAll "[]" | replace " " "`, `" }}`
{{- else -}}{{ . | markdownRenderFieldDoc }}
{{- end -}}
{{- end -}}
