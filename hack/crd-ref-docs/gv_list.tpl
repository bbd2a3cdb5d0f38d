{{- define "gvList" -}}
<!-- Made from the comments and markers in {{ markdownTemplateValue "source" }}: change those, and run 'make generate'. -->

# {{ markdownTemplateValue "title" }}
{{ range . }}
The kinds of `{{ .GroupVersionString }}`, field by field. The API server validates the rules whenever an object is written.
Other projects have kinds of the same names: use the short names, or the full ones that end in `.{{ .Group }}`.

{{ range .SortedKinds }}- [{{ . }}](#{{ lower . }})
{{ end }}- [Parts](#parts)
{{ template "gvDetails" . }}
{{- end }}
{{- end -}}
