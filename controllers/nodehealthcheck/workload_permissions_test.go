// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// permission is one verb on one resource, in one namespace or in all.
type permission struct{ verb, resource, namespace string }

// documented matches a part of a row of the table of permissions in docs/node-health-check.md.
var documented = regexp.MustCompile("^(?:get|list|watch|create|update|patch|delete)[a-z, ]* `([^`]+)`(?: in `([^`]+)`)?$")

// documentedPermissions are those that the user of a workload cluster's kubeconfig needs, besides those for requests and templates.
func documentedPermissions(t *testing.T) []permission {
	t.Helper()
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "node-health-check.md"))
	g.Expect(err).ToNot(HaveOccurred())
	_, table, found := strings.Cut(string(page), "needs these permissions there")
	g.Expect(found).To(BeTrue())
	table, _, _ = strings.Cut(table, "\n\nWhile ")
	var all []permission
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| permission") {
			continue
		}
		for part := range strings.SplitSeq(strings.Split(row, "|")[1], "; ") {
			match := documented.FindStringSubmatch(strings.TrimSpace(part))
			if strings.Contains(part, "the requests") {
				continue
			}
			g.Expect(match).ToNot(BeNil(), part)
			resource := match[1]
			if resource == "leases" {
				resource += "." + coordinationv1.GroupName
			}
			verbs := strings.FieldsFunc(strings.Split(part, "`")[0], func(r rune) bool { return r == ',' || r == ' ' })
			for _, verb := range verbs {
				if verb != "and" {
					all = append(all, permission{verb, resource, match[2]})
				}
			}
		}
	}
	return all
}

// requestPermissions are those on the requests next to the Nodes and on their templates.
func requestPermissions() []permission {
	kind := remediator.FenceAgents
	all := append(make([]permission, 0, 6), permission{"get", "fenceagentsremediationtemplates." + kind.Group, ""})
	for _, verb := range []string{"get", "list", "create", "patch", "delete"} {
		all = append(all, permission{verb, kind.Plural + "." + kind.Group, ""})
	}
	return all
}

// grant gives the user of the kubeconfig exactly these permissions.
func grant(s *stage.Stage, all []permission) {
	s.T.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, p := range all {
		if strings.HasPrefix(p.resource, "/") {
			rules[""] = append(rules[""], rbacv1.PolicyRule{NonResourceURLs: []string{p.resource}, Verbs: []string{p.verb}})
			continue
		}
		resource := schema.ParseGroupResource(p.resource)
		rules[p.namespace] = append(rules[p.namespace],
			rbacv1.PolicyRule{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: []string{p.verb}})
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: s.Namespace}}
	apply := func(o client.Object) {
		err := s.Workload.Create(s.Ctx, o)
		if client.IgnoreAlreadyExists(err) == nil && err != nil {
			err = s.Workload.Update(s.Ctx, o)
		}
		s.Expect(err).ToNot(HaveOccurred())
	}
	for _, namespace := range []string{"", "kube-system", "kube-node-lease", "medik8s-leases"} {
		name := metav1.ObjectMeta{Namespace: namespace, Name: s.Namespace}
		if namespace == "" {
			apply(&rbacv1.ClusterRole{ObjectMeta: name, Rules: rules[namespace]})
			apply(&rbacv1.ClusterRoleBinding{
				ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.Namespace},
			})
			continue
		}
		apply(&rbacv1.Role{ObjectMeta: name, Rules: rules[namespace]})
		apply(&rbacv1.RoleBinding{
			ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: s.Namespace},
		})
	}
}

// replaceable are the permissions without which a remediation may take place, because other ones replace them: a client that may not list
// watches from the start, or lists again and again; and Leases of kubelets are read one by one.
var replaceable = []permission{
	{"list", "nodes", ""}, {"watch", "nodes", ""}, {"list", "leases.coordination.k8s.io", "kube-node-lease"},
}

// permitted is a remediation in two steps, with requests next to the Nodes, by a user with certain permissions.
type permitted struct {
	*location
	check *remedyv1.NodeHealthCheck
	node  *corev1.Node
}

// startPermitted starts the remediation of a worker, or of a member of the control plane.
func startPermitted(t *testing.T, all []permission, ofControlPlane bool) *permitted {
	t.Helper()
	s := stage.New(t, stage.WithClock)
	p := &permitted{location: &location{Stage: s, kind: remediator.FenceAgents, ofNodes: s.Workload, ofRequests: s.Workload}}
	createLeaseNamespace(s, s.Workload)
	s.Expect(stage.Workload.InstallCRDObjects(medik8sChecks().RequestCRD())).To(Succeed())
	useKubeconfigOf(s, controlplane.User{Name: s.Namespace})
	grant(s, all)
	s.Expect(stage.Workload.UntilAllowed(s.Ctx, "", s.Namespace, &rbacv1.PolicyRule{
		Verbs: []string{"patch"}, APIGroups: []string{""}, Resources: []string{"nodes"},
	}, slices.Contains(all, permission{"patch", "nodes", ""}))).To(Succeed())
	var changes []func(*corev1.Node)
	if ofControlPlane {
		changes = append(changes, func(node *corev1.Node) { node.Labels["node-role.kubernetes.io/control-plane"] = "" })
	}
	s.CreateNode("n-1", changes...)
	s.CreateNode("n-2", changes...)
	p.node = s.CreateUnhealthyNode("n-3", changes...)
	first := inWorkload(s)
	s.Expect(s.Workload.Create(s.Ctx, remediator.FenceAgents.NewTemplate(s.Namespace, "second", map[string]any{"agent": "any"}))).To(Succeed())
	p.check = s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		first(spec)
		spec.RemediationTemplate = nil
		stage.NodeSteps(
			stage.NodeTemplateReference(s, remediator.FenceAgents, "reboot"), stage.NodeTemplateReference(s, remediator.FenceAgents, "second"),
		)(spec)
	})
	// Where a permission is missing, the writes that need it are retried for ever.
	c, err := s.StartAs(faults.Start(s.Ctx), s.User())
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.Stop)
	return p
}

// template is that of the request for the Node; empty without one.
func (p *permitted) template() string {
	request := p.request()
	if request == nil {
		return ""
	}
	return request.GetAnnotations()[remedyv1.TemplateNameAnnotation]
}

// phases are the parts of the remediation, each with what shows that it is complete.
func (p *permitted) phases() []func() (complete func() bool) {
	return []func() func() bool{
		func() func() bool { return func() bool { return p.template() == "reboot" } },
		func() func() bool {
			before := p.lease().Spec.RenewTime.Time
			p.Advance(6 * time.Minute)
			return func() bool { return p.lease().Spec.RenewTime.After(before) }
		},
		func() func() bool {
			p.Advance(5 * time.Minute)
			return func() bool { return p.template() == "second" }
		},
		func() func() bool {
			p.SetReady("n-3", corev1.ConditionTrue, 0)
			return func() bool {
				return p.request() == nil && p.holder() == "" && len(stage.Get(p.Stage, p.check)().Finalizers) == 0
			}
		},
	}
}

// deleteLeases deletes the Leases that the manager may not delete.
func (p *permitted) deleteLeases() {
	for namespace, name := range map[string]string{"medik8s-leases": "node-" + p.node.Name, "kube-system": "remedy-control-plane"} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		p.Expect(client.IgnoreNotFound(p.Workload.Delete(p.Ctx, lease))).To(Succeed())
	}
}

// named reports whether a condition that is not True has a text in its message.
func (p *permitted) named(text string) bool {
	for _, condition := range stage.Get(p.Stage, p.check)().Status.Conditions {
		if condition.Status != metav1.ConditionTrue && strings.Contains(condition.Message, text) {
			return true
		}
	}
	return false
}

// The documented permissions suffice for a whole remediation: of workers, and of members of the control plane.
func TestWorkloadPermissions_Documented_Suffice(t *testing.T) {
	t.Parallel()
	for name, ofControlPlane := range map[string]bool{"worker": false, "control plane": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if ofControlPlane {
				stage.LockControlPlane(t)
			}
			p := startPermitted(t, append(documentedPermissions(t), requestPermissions()...), ofControlPlane)
			for _, phase := range p.phases() {
				p.Eventually(phase()).Should(BeTrue())
				p.Eventually(stage.Get(p.Stage, p.check)).
					Should(WithTransform(stage.OfNodes(stage.CheckMessage(remedyv1.ReadyCondition)), BeEmpty()))
			}
			if ofControlPlane {
				p.Eventually(p.ControlPlaneLeaseHolder).Should(BeEmpty())
			}
		})
	}
}

// Without one of the documented permissions, a condition names it when it is needed. Nothing is started without a Lease, and no step is
// followed by the next one without its record on the Node.
func TestWorkloadPermissions_OneMissing_IsNamed(t *testing.T) {
	t.Parallel()
	all := append(documentedPermissions(t), requestPermissions()...)
	for i, missing := range all {
		// Without "/", there is no connection, as in an outage.
		if missing.resource == "/" || slices.Contains(replaceable, missing) {
			continue
		}
		t.Run(fmt.Sprint(missing), func(t *testing.T) {
			t.Parallel()
			ofControlPlane := missing.namespace == "kube-system"
			if ofControlPlane {
				stage.LockControlPlane(t)
			}
			p := startPermitted(t, slices.Delete(slices.Clone(all), i, i+1), ofControlPlane)
			named, reached := false, 0
			for _, phase := range p.phases() {
				complete := phase()
				p.Eventually(func() bool {
					named = p.named(missing.verb + " " + missing.resource)
					return named || complete()
				}).Should(BeTrue())
				if named {
					break
				}
				reached++
			}
			p.Expect(named).To(BeTrue())
			if reached == 0 {
				p.Expect(p.template()).To(BeEmpty())
			}
			if missing == (permission{"patch", "nodes", ""}) {
				p.Expect(p.template()).To(Equal("reboot"))
			}
			if missing.verb == "delete" && missing.resource == "leases.coordination.k8s.io" {
				p.deleteLeases()
				p.Eventually(func() bool {
					p.Advance(time.Minute)
					return p.named(missing.verb + " " + missing.resource)
				}).Should(BeFalse())
			}
		})
	}
}
