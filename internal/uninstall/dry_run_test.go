// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
)

// writes are the calls that change anything, as an API server gets them.
type writes struct {
	lock sync.Mutex
	all  []string
}

func (w *writes) called(r *http.Request) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if r.Method != http.MethodGet {
		w.all = append(w.all, r.Method+" "+r.URL.Path)
	}
}

// lines are what was said, in some order, and without the names that an API server makes up.
func lines(said *bytes.Buffer) []string {
	all := strings.Split(strings.ReplaceAll(strings.TrimSpace(said.String()), " (dry run)", ""), "\n")
	slices.Sort(all)
	return slices.DeleteFunc(all, func(line string) bool { return strings.Contains(line, "changes") })
}

// TestADryRunOnlyReads: of everything that there is, in both clusters. And it says what would be done, no more and no less.
func TestADryRunOnlyReads(t *testing.T) {
	p := newPlace(t)
	written := &writes{}
	far, _ := p.turn("MachineHealthCheck/"+p.namespace+"/ours", noon)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-", Annotations: map[string]string{remedyv1.AttemptsAnnotation: "2"}}}
	p.Expect(far.Create(p.ctx, node)).To(Succeed())
	p.cluster("prod", p.through(written.called))
	p.manager("--core-machinehealthchecks=All")
	lead := p.lead("")
	p.core("core", remedyv1.TakeOverAnnotation, "true")
	p.status(p.core("waits"), remedyv1.TakenOverCondition)
	p.ours("ours")
	p.machine("m-1", "CoreMachineHealthCheck/core")
	p.request("m-2", "MachineHealthCheck/"+p.namespace+"/ours")
	p.request("m-3", "CoreMachineHealthCheck/"+p.namespace+"/core")
	waits := p.core("only-said")
	before := waits.DeepCopy()
	waits.Annotations, waits.Finalizers = nil, nil
	p.Expect(p.api.Patch(p.ctx, waits, client.MergeFrom(before))).To(Succeed())

	leaver := func(dry bool) (*uninstall.Leaver, *bytes.Buffer) {
		l, said := p.leaver(dry)
		l.Management = p.tappedManagement(written.called)
		return l, said
	}
	checks, said := leaver(true)
	p.Expect(checks.Checks(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	p.Expect(said.String()).To(ContainSubstring("changes to make"))
	p.Expect(written.all).To(BeEmpty())

	dry, would := leaver(true)
	p.Expect(dry.All(p.ctx)).To(Succeed(), would.String())
	p.Expect(written.all).To(BeEmpty())

	all, did := leaver(false)
	p.Expect(all.All(p.ctx)).To(Succeed(), did.String())
	p.Expect(written.all).ToNot(BeEmpty(), "or nothing is heard of what is written")
	p.Expect(lines(would)).To(Equal(lines(did)))
	p.Expect(lines(did)).To(ContainElements(
		ContainSubstring("Deployment %s/manager: scaled to zero", p.namespace), ContainSubstring("Lease %s/%s: deleted", p.namespace, lead.Name),
		ContainSubstring("Lease kube-system/remedy-control-plane in Cluster %s/prod: deleted", p.namespace), ContainSubstring("Node %s in Cluster %s/prod", node.Name, p.namespace),
		ContainSubstring("Metal3Remediation %s/m-2: withdrawn", p.namespace), ContainSubstring("MachineHealthCheck %s/only-said: without our conditions", p.namespace)))
}
