// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

func TestFailWrite_EachFault_HitsOneWrite(t *testing.T) {
	tests := []struct {
		reason          string
		fault           faults.Fault
		lands, livesOn  bool
		is              func(error) bool
		writtenAfter    []string
		whatBecameOfIt  string
		codeOfTheServer int
	}{
		{"it is refused", faults.Refuse, false, true, apierrors.IsInternalError, []string{"first", "third"}, "[Refuse]", 0},
		{"the request is lost", faults.LoseRequest, false, true, utilnet.IsConnectionReset, []string{"first", "third"}, "[LoseRequest]", 0},
		{"the answer is lost", faults.LoseAnswer, true, true, utilnet.IsConnectionReset, []string{"first", "second", "third"}, "[LoseAnswer]", 201},
		{"a crash just before", faults.CrashBefore, false, false, isCrash, []string{"first"}, "[CrashBefore]", 0},
		{"a crash just after", faults.CrashAfter, true, false, isCrash, []string{"first", "second"}, "[CrashAfter]", 201},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			g := NewWithT(t)
			namespace := namespaceFor(t)
			p := faults.Start(t.Context())
			c := clientOf(t, p.Config(cp.Admin))
			met, err := p.FailWriteOf(anyWrite, 2, test.fault)
			g.Expect(err).ToNot(HaveOccurred())

			g.Expect(c.Create(p.Context(), configMap(namespace, "first"))).To(Succeed())
			g.Expect(met).To(BeEmpty())
			err = c.Create(p.Context(), configMap(namespace, "second"))
			g.Expect(err).To(HaveOccurred())
			g.Expect(test.is(err)).To(BeTrue(), "got %v", err)
			write := <-met
			g.Expect(write.What()).To(Equal("create configmaps " + namespace + "/second"))
			g.Expect(write.String()).To(HaveSuffix(test.whatBecameOfIt))
			g.Expect(write.Code).To(Equal(test.codeOfTheServer))
			g.Expect(write.Landed()).To(Equal(test.lands))

			err = c.Create(p.Context(), configMap(namespace, "third"))
			g.Expect(err == nil).To(Equal(test.livesOn), "got %v", err)
			g.Expect(p.Crashed()).To(Equal(!test.livesOn))
			g.Expect(there(t, namespace)).To(Equal(test.writtenAfter))
			if !test.livesOn {
				g.Expect(context.Cause(p.Context())).To(MatchError(faults.ErrCrashed))
				g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "first"}, &corev1.ConfigMap{})).To(MatchError(faults.ErrCrashed), "reads fail, too")
				restarted := faults.Start(t.Context())
				g.Expect(clientOf(t, restarted.Config(cp.Admin)).Create(restarted.Context(), configMap(namespace, "third"))).To(Succeed())
			}
		})
	}
}

func anyWrite(faults.Write) bool { return true }

func isCrash(err error) bool { return errors.Is(err, faults.ErrCrashed) }

func TestWrites_EachVerb_NameTheirObject(t *testing.T) {
	g := NewWithT(t)
	ctx, namespace := t.Context(), namespaceFor(t)
	p := faults.Start(ctx)
	c := clientOf(t, p.Config(cp.Admin))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pod-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	g.Expect(c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})).To(Succeed())
	g.Expect(c.Create(ctx, pod)).To(Succeed())
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	pod.Status.Message = "hello"
	g.Expect(c.Status().Update(ctx, pod)).To(Succeed())
	g.Expect(c.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	untyped := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": "u"}}}
	g.Expect(c.Create(ctx, untyped)).To(Succeed())
	g.Expect(c.Patch(ctx, untyped, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"b"}}`)))).To(Succeed())
	g.Expect(c.Apply(ctx, corev1apply.ConfigMap("applied", namespace), client.FieldOwner("test"))).To(Succeed())
	g.Expect(c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace))).To(Succeed())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	g.Expect(c.Create(ctx, node)).To(Succeed())
	g.Expect(c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	g.Expect(c.Create(ctx, configMap(namespace, "late"))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))

	g.Expect(what(p.Writes())).To(Equal([]string{
		"create serviceaccounts " + namespace + "/default",
		"create pods " + namespace + "/pod-*",
		"update pods/status " + namespace + "/" + pod.Name,
		"delete pods " + namespace + "/" + pod.Name,
		"create configmaps " + namespace + "/u",
		"patch configmaps " + namespace + "/u",
		"apply configmaps " + namespace + "/applied",
		"deletecollection configmaps " + namespace,
		"create nodes " + namespace,
		"delete namespaces " + namespace,
		"create configmaps " + namespace + "/late",
	}))
	g.Expect(p.Writes()[10].String()).To(HaveSuffix("/late (403)"), "what the server has refused has not landed")
	g.Expect(p.Writes()[10].Landed()).To(BeFalse())
}

// A crashed process sends no request.
func TestCrash_LaterRequest_DoesNotReachServer(t *testing.T) {
	g := NewWithT(t)
	config, asked := rest.CopyConfig(cp.Admin), 0
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			asked++
			return next.RoundTrip(r)
		})
	})
	p := faults.Start(t.Context())
	c := rawClient(t, p.Config(config))
	g.Expect(ask(t.Context(), c)).To(Succeed())
	g.Expect(asked).To(Equal(1))
	p.Crash()
	g.Expect(ask(t.Context(), c)).To(MatchError(faults.ErrCrashed))
	g.Expect(c.Delete().AbsPath("/api/v1/namespaces/x").Do(t.Context()).Error()).To(MatchError(faults.ErrCrashed))
	g.Expect(c.Get().AbsPath("/api/v1/namespaces").Param("watch", "true").Do(t.Context()).Error()).To(MatchError(faults.ErrCrashed))
	g.Expect(asked).To(Equal(1))
	g.Expect(p.AllWrites()).To(BeEmpty())
}
