// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// nextVersion is a release of the same sources. It has its version in the manager, a higher verbosity, and one more field in a CRD.
const (
	nextVersion = "v0.1.1"
	nextField   = "onlyInTheNextVersion"
)

// upgradedAndRolledBack installs the next version and the first one again, while an owner remediation and a request are in progress.
func (e *installation) upgradedAndRolledBack(marked, requested *clusterv1.Machine) {
	ctx := e.t.Context()
	manager, err := e.w.Release(ctx, nextVersion)
	e.Expect(err).ToNot(HaveOccurred())
	e.changeRelease()
	plan, err := e.clusterctl("upgrade", "plan")
	e.Expect(err).ToNot(HaveOccurred())
	e.Expect(plan).To(MatchRegexp(`infrastructure-remedy +remedy-system +InfrastructureProvider +` + world.Version + ` +` + nextVersion))

	// Both ways, a process stops here before clusterctl deletes its Deployment.
	e.kubelet()
	before := e.inProgress(marked, requested)
	existing := traces(ctx, e, e.w.Admin, none)
	policies := e.policies()
	e.Expect(policies).ToNot(BeEmpty())
	e.Expect(e.keepsNextField()).To(BeFalse())
	for _, step := range []struct{ version, manager, verbosity string }{{nextVersion, manager, "--v=3"}, {world.Version, "", "--v=2"}} {
		e.Expect(e.w.UpgradeRemedy(ctx, step.version, step.manager)).To(Succeed())
		e.Expect(e.w.Process(world.Remedy).Args).To(ContainElement(step.verbosity), "the Deployment is that of "+step.version)
		e.Expect(e.providers()).To(HaveKeyWithValue("remedy-system/infrastructure-remedy", step.version))
		e.Expect(e.policies()).To(Equal(policies), "clusterctl has deleted no policy, so there was no moment without one")
		e.Eventually(e.keepsNextField, soon).Should(Equal(step.version == nextVersion), "the CRD is that of "+step.version)
		e.reconciledAgain()
		e.Eventually(func() remediations { return e.inProgress(marked, requested) }, soon).Should(Equal(before), step.version)
		e.traces(none).Should(ContainElements(existing))
	}
}

// policies are the policies of Remedy and their bindings, by their names.
func (e *installation) policies() map[string]types.UID {
	e.t.Helper()
	found := map[string]types.UID{}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind + "List"})
		e.Expect(e.w.Client.List(e.t.Context(), list, client.HasLabels{"cluster.x-k8s.io/provider"})).To(Succeed())
		for i := range list.Items {
			found[kind+" "+list.Items[i].Name] = list.Items[i].UID
		}
	}
	return found
}

// changeRelease changes the release of the next version: another default of an argument, and one more field of MachineHealthChecks.
func (e *installation) changeRelease() {
	e.t.Helper()
	file := filepath.Join(e.w.Dir, "repository", "infrastructure-remedy", nextVersion, "infrastructure-components.yaml")
	content, err := os.ReadFile(file)
	e.Expect(err).ToNot(HaveOccurred())
	const verbosity, field = "--v=${REMEDY_LOG_LEVEL:=3}", "\n              " + nextField + ":\n                type: string"
	const clusterName = "\n              clusterName:\n"
	changed := strings.NewReplacer("--v=${REMEDY_LOG_LEVEL:=2}", verbosity, clusterName, field+clusterName).Replace(string(content))
	e.Expect(changed).To(And(ContainSubstring(verbosity), ContainSubstring(field)))
	e.Expect(os.WriteFile(file, []byte(changed), 0o600)).To(Succeed())
}

// keepsNextField sets the field of the next version on the check, and reports whether the API server keeps it.
func (e *installation) keepsNextField() bool {
	e.t.Helper()
	check := &unstructured.Unstructured{}
	check.SetGroupVersionKind(remedyv1.GroupVersion.WithKind("MachineHealthCheck"))
	check.SetNamespace(e.check.Namespace)
	check.SetName(e.check.Name)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"`+nextField+`":"set"}}`))
	e.Expect(e.w.Client.Patch(e.t.Context(), check, patch)).To(Succeed())
	_, kept, err := unstructured.NestedString(check.Object, "spec", nextField)
	e.Expect(err).ToNot(HaveOccurred())
	return kept
}

// remediations are what a new manager must neither lose nor repeat.
type remediations struct {
	request types.UID
	// created counts the requests that the manager has asked for.
	created int
	// By Machine: its annotations, and when the conditions of health checks have changed.
	annotations map[string]map[string]string
	conditions  map[string]map[string]string
	// By check: its conditions.
	checks map[string]map[string]string
}

func (e *installation) inProgress(marked, requested *clusterv1.Machine) remediations {
	e.t.Helper()
	ctx := e.t.Context()
	found := remediations{
		annotations: map[string]map[string]string{}, conditions: map[string]map[string]string{}, checks: map[string]map[string]string{},
	}
	request := world.NewRemediation(world.Remediation, requested.Namespace, requested.Name)
	e.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(request), request)).To(Succeed())
	found.request = request.GetUID()
	for _, write := range e.w.Writes() {
		if write.Verb == http.MethodPost && strings.Contains(write.Path, "/puppetremediations") {
			found.created++
		}
	}
	for _, machine := range []*clusterv1.Machine{marked, requested} {
		got := &clusterv1.Machine{}
		e.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(machine), got)).To(Succeed())
		e.Expect(got.UID).To(Equal(machine.UID))
		e.Expect(got.DeletionTimestamp).To(BeNil())
		found.annotations[got.Name], found.conditions[got.Name] = got.Annotations, map[string]string{}
		for i := range got.Status.Conditions {
			switch c := &got.Status.Conditions[i]; c.Type {
			case clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition,
				clusterv1.MachineExternallyRemediatedCondition:
				found.conditions[got.Name][c.Type] = string(c.Status) + " " + c.Reason + " " + c.LastTransitionTime.String()
			}
		}
		e.Expect(found.conditions[got.Name]).ToNot(BeEmpty())
	}
	check := &remedyv1.MachineHealthCheck{}
	e.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(e.check), check)).To(Succeed())
	found.checks["check"], found.checks["core"] = statuses(check.Status.Conditions), statuses(e.inTreeCheck().Status.Conditions)
	return found
}

func statuses(conditions []metav1.Condition) map[string]string {
	found := map[string]string{}
	for i := range conditions {
		found[conditions[i].Type] = string(conditions[i].Status) + " " + conditions[i].Reason
	}
	return found
}

// reconciledAgain changes both checks in a way that changes no decision, and waits until the manager has reconciled the change.
func (e *installation) reconciledAgain() {
	e.t.Helper()
	ctx := e.t.Context()
	check, core := &remedyv1.MachineHealthCheck{}, e.inTreeCheck()
	e.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(e.check), check)).To(Succeed())
	before := client.MergeFrom(check.DeepCopy())
	check.Spec.MaxInFlight = ptr.To(intstr.FromInt32(int32(check.Generation) + 10))
	e.Expect(e.w.Client.Patch(ctx, check, before)).To(Succeed())
	before = client.MergeFrom(core.DeepCopy())
	core.Spec.Checks.NodeStartupTimeoutSeconds = ptr.To(int32(core.Generation) + 1000)
	e.Expect(e.w.Client.Patch(ctx, core, before)).To(Succeed())
	e.Eventually(func() []int64 {
		e.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(check), check)).To(Succeed())
		return []int64{check.Status.ObservedGeneration - check.Generation, e.inTreeCheck().Status.ObservedGeneration - core.Generation}
	}, soon).Should(HaveEach(int64(0)))
}
