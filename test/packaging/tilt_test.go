// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

// tiltProvider has the fields that Cluster API's Tiltfile and its tilt-prepare read.
type tiltProvider struct {
	Name   string `json:"name"`
	Config struct {
		Context          string   `json:"context"`
		Version          string   `json:"version"`
		Image            string   `json:"image"`
		Label            string   `json:"label"`
		GoMain           string   `json:"go_main"`
		KustomizeFolder  string   `json:"kustomize_folder"`
		KustomizeOptions []string `json:"kustomize_options"`
		LiveReloadDeps   []string `json:"live_reload_deps"`
		ResourceDeps     []string `json:"resource_deps"`
		// Objects that Tilt shows next to the controller.
		AdditionalUncategorizedResources []string `json:"additional_uncategorized_resources"`
	} `json:"config"`
}

const root = "../.."

func readTilt(t *testing.T) tiltProvider {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(root, "tilt-provider.json"))
	g.Expect(err).ToNot(HaveOccurred())
	decoder := json.NewDecoder(strings.NewReader(string(content)))
	decoder.DisallowUnknownFields()
	var p tiltProvider
	g.Expect(decoder.Decode(&p)).To(Succeed(), "a field that the Tiltfile does not read")
	return p
}

func TestTiltFindsWhatItAsksFor(t *testing.T) {
	g := NewWithT(t)
	p := readTilt(t)
	objects := components(t, infrastructure, repository.ComponentsOptions{}).Objs()
	d := deployment(g, objects)

	g.Expect("infrastructure-"+p.Name).To(Equal(infrastructure.label), "the name is what enable_providers lists")
	g.Expect(p.Config.Label).ToNot(BeEmpty(), "the Tiltfile lower-cases it without looking")
	g.Expect(p.Config.Image+":"+version).To(Equal(d.Spec.Template.Spec.Containers[0].Image), "Tilt replaces the image by its name")
	g.Expect(p.Config.ResourceDeps).To(ContainElement("capi_controller"), "the Machine side needs Cluster API's definitions")
	g.Expect(p.Config.KustomizeFolder).To(Or(BeEmpty(), Equal("config/default")), "what a release is made from")

	for _, path := range append(append([]string{p.Config.GoMain}, p.Config.LiveReloadDeps...), p.Config.AdditionalUncategorizedResources...) {
		_, err := os.Stat(filepath.Join(root, path))
		g.Expect(err).ToNot(HaveOccurred())
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, p.Config.GoMain), nil, parser.PackageClauseOnly)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(parsed.Name.Name).To(Equal("main"))
	for _, folder := range []string{"main.go", "go.mod", "go.sum", "api", "controllers", "exp", "internal"} {
		g.Expect(p.Config.LiveReloadDeps).To(ContainElement(folder), "a change there must rebuild")
	}

	g.Expect(ofKind(objects, "Namespace")).To(HaveLen(1))
	g.Expect(ofKind(objects, "Namespace")[0].GetLabels()).To(HaveKeyWithValue("cluster.x-k8s.io/provider", infrastructure.label), "name and type are taken from it")
	g.Expect(d.Labels).ToNot(BeEmpty(), "the Tiltfile reads them without looking")
	g.Expect(d.Spec.Template.Spec.Containers[0].Name).To(Equal("manager"))
	g.Expect(d.Spec.Template.Spec.Containers[0].Command).To(Equal([]string{"/manager"}), "Tilt puts its binary there")
}

// While debugging, Tilt changes these arguments and adds these flags.
func TestTheFlagsThatTiltSetsExist(t *testing.T) {
	g := NewWithT(t)
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	_, err := settings.New(fs)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(fs.Parse(append(arguments(t), "--leader-elect=false", "--profiler-address=:6060", "--insecure-diagnostics=true", "--v=5", "--logging-format=json"))).To(Succeed())
}

func TestTheImageIsBuiltTheSameWayByBothTools(t *testing.T) {
	g := NewWithT(t)
	docker, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	g.Expect(err).ToNot(HaveOccurred())
	content, err := os.ReadFile(filepath.Join(root, ".ko.yaml"))
	g.Expect(err).ToNot(HaveOccurred())
	var ko struct {
		DefaultBaseImage string `json:"defaultBaseImage"`
		Builds           []struct {
			ID, Main       string
			Flags, Ldflags []string
		} `json:"builds"`
	}
	g.Expect(yaml.UnmarshalStrict(content, &ko)).To(Succeed())
	g.Expect(ko.Builds).To(HaveLen(1))
	g.Expect(string(docker)).To(And(ContainSubstring("ARG BASE="+ko.DefaultBaseImage), ContainSubstring("FROM ${BASE}")))
	for _, flag := range ko.Builds[0].Flags {
		g.Expect(string(docker)).To(ContainSubstring(flag))
	}
	variable := strings.Split(ko.Builds[0].Ldflags[len(ko.Builds[0].Ldflags)-1], "=")[0]
	g.Expect(string(docker)).To(ContainSubstring(variable))
	user := deployment(g, components(t, infrastructure, repository.ComponentsOptions{}).Objs()).Spec.Template.Spec.Containers[0].SecurityContext.RunAsUser
	g.Expect(user).To(HaveValue(BeEquivalentTo(65532)))
	g.Expect(string(docker)).To(ContainSubstring("USER 65532:65532"))
	g.Expect(string(docker)).To(ContainSubstring(`ENTRYPOINT ["/manager"]`))
}
