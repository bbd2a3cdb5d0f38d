// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
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

// readTilt returns the provider of the manager of checks, which is the first of both.
func readTilt(t *testing.T) tiltProvider {
	t.Helper()
	return readTiltProviders(t)[0]
}

func readTiltProviders(t *testing.T) []tiltProvider {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(root, "tilt-provider.json"))
	g.Expect(err).ToNot(HaveOccurred())
	decoder := json.NewDecoder(strings.NewReader(string(content)))
	decoder.DisallowUnknownFields()
	var all []tiltProvider
	g.Expect(decoder.Decode(&all)).To(Succeed(), "a field that the Tiltfile does not read")
	g.Expect(all).To(HaveLen(2))
	return all
}

func TestTiltProvider_Settings_FitComponents(t *testing.T) {
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
	for _, folder := range []string{"main.go", "go.mod", "go.sum", "api", "controllers", "exp", "internal"} {
		g.Expect(p.Config.LiveReloadDeps).To(ContainElement(folder), "a change there must rebuild")
	}

	g.Expect(ofKind(objects, "Namespace")).To(HaveLen(1))
	g.Expect(ofKind(objects, "Namespace")[0].GetLabels()).To(HaveKeyWithValue("cluster.x-k8s.io/provider", infrastructure.label), "name and type are taken from it")
	g.Expect(d.Labels).ToNot(BeEmpty(), "the Tiltfile reads them without looking")
	g.Expect(d.Spec.Template.Spec.Containers[0].Name).To(Equal("manager"))
	g.Expect(d.Spec.Template.Spec.Containers[0].Command).To(BeEmpty(), "tilt-prepare sets it, and the images of Docker and of ko have different ones")
}

// While debugging, Tilt changes these arguments and adds these flags.
func TestTiltProvider_DebugFlags_Exist(t *testing.T) {
	g := NewWithT(t)
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	_, err := settings.New(fs)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(fs.Parse(append(arguments(t), "--leader-elect=false", "--profiler-address=:6060", "--insecure-diagnostics=true", "--v=5", "--logging-format=json"))).To(Succeed())
}

func TestDockerfile_KoConfiguration_BuildsTheSame(t *testing.T) {
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
	images := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)`).FindAllStringSubmatch(string(docker), -1)
	g.Expect(images).To(HaveEach(HaveExactElements(Not(BeEmpty()), Not(ContainSubstring("$")))), "Dependabot replaces no variable")
	g.Expect(images[len(images)-1][1]).To(Equal(ko.DefaultBaseImage))
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

// substituted replaces variables by their defaults, with the library of clusterctl, which tilt-prepare uses too.
func substituted(t *testing.T, manifests []byte) []byte {
	t.Helper()
	out, err := yamlprocessor.NewSimpleProcessor().Process(manifests, func(string) (string, error) { return "", nil })
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return out
}

// withProvider adds the Provider object, which is named after the label of the namespace.
func withProvider(t *testing.T, manifests []byte) []byte {
	t.Helper()
	g := NewWithT(t)
	objects, err := utilyaml.ToUnstructured(manifests)
	g.Expect(err).ToNot(HaveOccurred())
	namespaces := ofKind(objects, "Namespace")
	g.Expect(namespaces).To(HaveLen(1))
	return fmt.Appendf(manifests, "---\napiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Provider\nmetadata:\n  name: %s\n  namespace: %s\n",
		namespaces[0].GetLabels()["cluster.x-k8s.io/provider"], namespaces[0].GetName())
}

// tiltManifests writes what Cluster API's tilt-prepare writes before the Tiltfile reads it: config/default of each provider with its variables
// replaced, and the Provider object. tilt-prepare is not part of Cluster API's Go module. For live updates it also changes the
// command and the security context of the manager, and the Pod Security label of the namespace; no test needs that.
func tiltManifests(t *testing.T, folder, module string) error {
	t.Helper()
	for name, config := range map[string]string{
		"core": filepath.Join(module, "core/config/default"), "kubeadm-bootstrap": filepath.Join(module, "bootstrap/kubeadm/config/default"),
		"kubeadm-control-plane": filepath.Join(module, "controlplane/kubeadm/config/default"),
		"remedy":                filepath.Join(root, "config/default"), "remedy-fencing": filepath.Join(root, "config/tilt"),
	} {
		out, err := exec.Command(tool(t, "kustomize"), "build", config).Output()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name+".provider.yaml"), withProvider(t, substituted(t, out)), 0o600); err != nil {
			return err
		}
	}
	// The docker provider is in another module. Its manifests have no part in what is tested.
	docker := "kind: Deployment\nmetadata:\n  name: capd\n  labels:\n    cluster.x-k8s.io/provider: infrastructure-docker\n"
	if err := os.WriteFile(filepath.Join(folder, "docker.provider.yaml"), []byte(docker), 0o600); err != nil {
		return err
	}
	crd, err := os.ReadFile(filepath.Join(module, "cmd/clusterctl/config/crd/bases/clusterctl.cluster.x-k8s.io_providers.yaml"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "clusterctl.crd.yaml"), crd, 0o600)
}

// copyTree copies paths of the checkout to a folder, without tests, as a build needs them.
func copyTree(t *testing.T, folder string, paths ...string) {
	t.Helper()
	g := NewWithT(t)
	for _, tree := range paths {
		g.Expect(filepath.WalkDir(filepath.Join(root, tree), func(file string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			relative, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			to := filepath.Join(folder, relative)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			return os.WriteFile(to, content, 0o600)
		})).To(Succeed())
	}
}

// tiltSettings returns a block of docs/development.md by its first line.
func tiltSettings(t *testing.T, first string) []byte {
	t.Helper()
	g := NewWithT(t)
	docs, err := os.ReadFile(filepath.Join(root, "docs/development.md"))
	g.Expect(err).ToNot(HaveOccurred())
	block := regexp.MustCompile("(?s)```yaml\n(" + regexp.QuoteMeta(first) + "\n.*?)```").FindSubmatch(docs)
	g.Expect(block).ToNot(BeNil(), first)
	return block[1]
}

// startTilt executes Cluster API's Tiltfile with the settings of the docs, and more settings.
func startTilt(t *testing.T, more ...byte) (tilt *tiltfile, checkout string) {
	t.Helper()
	return startTiltWith(t, append(tiltSettings(t, "# tilt-settings.yaml"), more...))
}

// startTiltWith executes Cluster API's Tiltfile. The repository of Remedy holds what a change must rebuild, and nothing else.
func startTiltWith(t *testing.T, values []byte) (tilt *tiltfile, checkout string) {
	t.Helper()
	g := NewWithT(t)
	module := clusterAPI(t)
	parent := t.TempDir()
	checkout = filepath.Join(parent, "cluster-api-provider-remedy")
	copyTree(t, checkout, append(readTilt(t).Config.LiveReloadDeps, "tilt-provider.json")...)

	folder := filepath.Join(parent, "cluster-api")
	manifests := filepath.Join(folder, ".tiltbuild/yaml")
	g.Expect(os.MkdirAll(manifests, 0o755)).To(Succeed())
	content, err := os.ReadFile(filepath.Join(module, "Tiltfile"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(folder, "Tiltfile"), content, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(folder, "tilt-settings.yaml"), values, 0o600)).To(Succeed())

	open(t, "config")
	tilt = &tiltfile{folder: folder, prepared: func() error { return tiltManifests(t, manifests, module) }}
	g.Expect(tilt.execute()).To(Succeed())
	return tilt, checkout
}

func named(calls []tiltCall, arg, value string) *tiltCall {
	for i := range calls {
		if calls[i].text(arg) == value || calls[i].text("0") == value {
			return &calls[i]
		}
	}
	return nil
}

// Tilt itself is not needed: its functions are recorded.
func TestTiltfile_OurProvider_IsBuiltAndApplied(t *testing.T) {
	tilt, checkout := startTilt(t)
	t.Run("resources", func(t *testing.T) { expectResources(t, tilt) })
	t.Run("build", func(t *testing.T) { expectBuild(t, tilt, checkout) })
	t.Run("manifests", func(t *testing.T) { expectManifests(t, tilt) })
}

// The settings for a debugger are added to those for everything.
func TestTiltfile_DebuggerInTheDocs_ListensOnThePort(t *testing.T) {
	g := NewWithT(t)
	tilt, _ := startTilt(t, tiltSettings(t, "debug:")...)
	resource := named(tilt.of("k8s_resource"), "new_name", "capremedy_controller")
	g.Expect(resource).ToNot(BeNil())
	g.Expect(resource.args["port_forwards"]).To(Equal([]any{[]any{"port_forward", 30000.0, 30000.0}}))
	g.Expect(named(tilt.of("local_resource"), "name", "capremedy_binary").text("cmd")).To(ContainSubstring("-gcflags 'all=-N -l'"))
	others := named(tilt.of("k8s_resource"), "new_name", "capi_controller")
	g.Expect(others.args["port_forwards"]).To(BeEmpty())
}

// The fencing manager has the image of the manager of checks, and a namespace of its own.
func TestTiltfile_FencingProvider_UsesSameImage(t *testing.T) {
	g := NewWithT(t)
	values := strings.Replace(string(tiltSettings(t, "# tilt-settings.yaml")), "- remedy\n", "- remedy\n- remedy-fencing\n", 1)
	tilt, _ := startTiltWith(t, []byte(values))
	resource := named(tilt.of("k8s_resource"), "new_name", "capremedyfencing_controller")
	g.Expect(resource).ToNot(BeNil())
	g.Expect(resource.text("workload")).To(Equal("remedy-fencing-controller-manager"))
	g.Expect(resource.list("objects")).To(Equal([]string{"infrastructure-remedy-fencing:Provider:remedy-fencing-system"}))
	g.Expect(resource.list("resource_deps")).To(Equal([]string{"provider_crd", "capremedy_controller"}))
	g.Expect(named(tilt.of("local_resource"), "name", "capremedyfencing_binary")).To(BeNil())
	provider := readTiltProviders(t)[1].Config
	g.Expect(provider.KustomizeFolder).To(Equal("config/tilt"))
	g.Expect(provider.Image).To(BeEmpty(), "Tilt builds an image once")
}

func expectBuild(t *testing.T, tilt *tiltfile, checkout string) {
	t.Helper()
	g := NewWithT(t)
	inTilt := "../cluster-api-provider-remedy"

	binary := named(tilt.of("local_resource"), "name", "capremedy_binary")
	g.Expect(binary).ToNot(BeNil(), "a resource that builds the manager")
	for _, file := range binary.list("deps") {
		g.Expect(tilt.at(file)).To(BeAnExistingFile(), "Tilt watches it")
	}
	// The folder has only what Tilt watches: if the manager can be built from it, no change goes unnoticed.
	command := exec.Command("/bin/sh", "-c", binary.text("cmd"))
	command.Dir = tilt.folder
	g.Expect(os.MkdirAll(filepath.Join(checkout, ".tiltbuild/bin"), 0o755)).To(Succeed())
	out, err := command.CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), string(out))
	manager, err := buildinfo.ReadFile(filepath.Join(checkout, ".tiltbuild/bin/manager"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(manager.Path).To(Equal("github.com/cluster-api-remedy/cluster-api-provider-remedy"), "not a list of files")

	image := named(tilt.of("docker_build"), "ref", readTilt(t).Config.Image)
	g.Expect(image).ToNot(BeNil())
	g.Expect(image.text("context")).To(Equal(inTilt + "/.tiltbuild/bin/"))
	g.Expect(image.text("only")).To(Equal("manager"))
	g.Expect(image.text("dockerfile_contents")).To(ContainSubstring("COPY $binary_name ."))
	g.Expect(image.args["live_update"]).To(Equal([]any{
		[]any{"sync", inTilt + "/.tiltbuild/bin/manager", "/manager"}, []any{"run", "sh /restart.sh", nil},
	}))

	ignored, err := exec.Command("git", "-C", root, "check-ignore", ".tiltbuild/bin/manager").CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), string(ignored))
}

func expectResources(t *testing.T, tilt *tiltfile) {
	t.Helper()
	g := NewWithT(t)
	resource := named(tilt.of("k8s_resource"), "new_name", "capremedy_controller")
	g.Expect(resource).ToNot(BeNil())
	g.Expect(resource.text("workload")).To(Equal("remedy-controller-manager"))
	g.Expect(resource.list("objects")).To(Equal([]string{"infrastructure-remedy:Provider:remedy-system"}))
	g.Expect(resource.list("resource_deps")).To(Equal([]string{"provider_crd", "capi_controller"}))
	g.Expect(named(tilt.of("k8s_resource"), "new_name", "capi_controller")).ToNot(BeNil(), "the resource that capremedy_controller waits for")
}

// The applied objects are those of a release.
func expectManifests(t *testing.T, tilt *tiltfile) {
	t.Helper()
	g := NewWithT(t)
	var applied []unstructured.Unstructured
	for _, call := range tilt.of("k8s_yaml") {
		objects, err := utilyaml.ToUnstructured([]byte(call.text("0")))
		g.Expect(err).ToNot(HaveOccurred())
		for _, object := range objects {
			if object.GetLabels()["cluster.x-k8s.io/provider"] == infrastructure.label {
				applied = append(applied, object)
			}
		}
	}
	release, err := os.ReadFile(filepath.Join(releaseFolder(t), infrastructure.file))
	g.Expect(err).ToNot(HaveOccurred())
	released, err := utilyaml.ToUnstructured([]byte(strings.ReplaceAll(string(substituted(t, release)), readTilt(t).Config.Image+":"+version, readTilt(t).Config.Image+":dev")))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(len(released)).To(BeNumerically(">", 20))
	g.Expect(applied).To(Equal(released))
}

// The copied files and the folders of the imported packages are compared for each platform of the images.
func TestDockerfile_CopiedFiles_AreThoseOfTheBuild(t *testing.T) {
	g := NewWithT(t)
	docker, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	g.Expect(err).ToNot(HaveOccurred())
	copied := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(string(docker), -1) {
		for source := range strings.FieldsSeq(line[1]) {
			copied[strings.TrimSuffix(source, "/")] = true
		}
	}
	needed := map[string]bool{"go.mod": true, "go.sum": true}
	for _, platform := range []string{"amd64", "arm64"} {
		list := exec.Command("go", "list", "-deps", "-f", `{{if .Module}}{{if .Module.Main}}{{$dir := .ImportPath}}{{range .GoFiles}}{{$dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}
{{end}}{{end}}{{end}}`, ".")
		list.Dir, list.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+platform)
		out, err := list.Output()
		g.Expect(err).ToNot(HaveOccurred())
		for file := range strings.FieldsSeq(string(out)) {
			top, _, _ := strings.Cut(strings.TrimPrefix(file, "github.com/cluster-api-remedy/cluster-api-provider-remedy/"), "/")
			needed[top] = true
		}
	}
	g.Expect(copied).To(Equal(needed))
	content, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(strings.Fields(string(content))).To(ContainElement(".tiltbuild"), "what Tilt builds is in no image")
	for ignored := range strings.FieldsSeq(string(content)) {
		g.Expect(needed).ToNot(HaveKey(ignored), "what the build needs is in the context")
	}
	g.Expect(string(docker)).To(MatchRegexp(`FROM --platform=\$BUILDPLATFORM`), "the compiler runs on the platform of the build")
	g.Expect(string(docker)).To(ContainSubstring("GOOS=$TARGETOS GOARCH=$TARGETARCH"))
}
