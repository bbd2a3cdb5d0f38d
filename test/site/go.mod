module github.com/cluster-api-remedy/cluster-api-provider-remedy/test/site

go 1.26.0

require (
	github.com/onsi/gomega v1.42.1
	golang.org/x/net v0.57.0
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	go.yaml.in/yaml/v3 v3.0.4 // indirect
	golang.org/x/text v0.40.0 // indirect
)
