// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serving is an API server with discovery.
type serving struct {
	*apiServer
	mapper meta.RESTMapper
}

func (s *serving) RESTMapper() meta.RESTMapper { return s.mapper }

// An API server without Leases may return any error. If Leases are served, an error is a failed read.
func TestLease_NotServed_IsNotFound(t *testing.T) {
	for why, failure := range map[string]error{
		"there is no such Lease":       apierrors.NewNotFound(coordinationv1.Resource("leases"), "a"),
		"an error of the server's own": apierrors.NewInternalError(errors.New("no APIResourceList defined")),
		"an error that is no status":   errors.New("no APIResourceList defined"),
		"the version is not served":    &meta.NoKindMatchError{GroupKind: coordinationv1.SchemeGroupVersion.WithKind("Lease").GroupKind()},
	} {
		for _, has := range []bool{false, true} {
			t.Run(why, func(t *testing.T) {
				g := NewWithT(t)
				b := newBench(t)
				mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{coordinationv1.SchemeGroupVersion})
				if has {
					mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
				}
				b.api.set(func(a *apiServer) { a.failure = failure })
				b.wire.set(func(w *wire) { w.api = &serving{b.api, mapper} })
				// Few are read one by one, and many with one list.
				for _, nodes := range [][]string{{"a"}, {"a", "b", "c", "d", "e", "f"}} {
					leases := b.Get(prod).Live().NodeLeases(t.Context(), nodes)
					g.Expect(leases).To(HaveLen(len(nodes)))
					for _, lease := range leases {
						g.Expect(lease.Renewed).To(Equal(time.Time{}))
						if has && !apierrors.IsNotFound(failure) && !meta.IsNoMatchError(failure) {
							g.Expect(lease.Err).To(HaveOccurred())
						} else {
							g.Expect(lease.Err).ToNot(HaveOccurred())
						}
					}
				}
			})
		}
	}
}

var _ client.Client = &serving{}

// The name of a Node can have 253 characters, and so can that of its Lease.
func TestNodeLeaseKey_LongName_Fits(t *testing.T) {
	g := NewWithT(t)
	long := func(last string) string { return strings.Repeat("a", 231) + "-." + strings.Repeat("b", 19) + last }
	names := map[string]bool{}
	for _, node := range []string{"n-1", strings.Repeat("a", 248), long("x"), long("y")} {
		name := NodeLeaseKey(node).Name
		g.Expect(validation.IsDNS1123Subdomain(name)).To(BeEmpty(), name)
		g.Expect(name).To(HavePrefix("node-" + node[:3]))
		names[name] = true
	}
	g.Expect(names).To(And(HaveLen(4), HaveKey("node-n-1"), HaveKey("node-"+strings.Repeat("a", 248))))
}
