// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
)

// saying lets the remediator of a request have said something.
func (p *place) saying(request *unstructured.Unstructured, succeeded string) {
	p.t.Helper()
	before := request.DeepCopy()
	conditions := []any{map[string]any{"type": "Succeeded", "status": succeeded, "reason": "Test", "message": "", "lastTransitionTime": "2026-03-14T12:00:00Z"}}
	p.Expect(unstructured.SetNestedSlice(request.Object, conditions, "status", "conditions")).To(Succeed())
	p.Expect(p.api.Status().Patch(p.ctx, request, client.MergeFrom(before))).To(Succeed())
	p.Expect(p.get(request).(*unstructured.Unstructured).Object).To(HaveKey("status"))
}

// TestWhoHasSucceededIsNotToldToStop: the remediator may take it for a failure, and do the worst that it can.
func TestWhoHasSucceededIsNotToldToStop(t *testing.T) {
	p := newPlace(t)
	check := "MachineHealthCheck/" + p.namespace + "/ours"
	done, failed, silent, told := p.request("done", check), p.request("failed", check), p.request("silent", check), p.request("told", check)
	p.saying(done, "True")
	p.saying(failed, "False")
	p.saying(silent, "Unknown")
	before := told.DeepCopy()
	const earlier = "2026-03-14T11:00:00Z"
	told.SetAnnotations(map[string]string{remedyv1.TimedOutAnnotation: earlier, remedyv1.CheckAnnotation: check})
	p.Expect(p.api.Patch(p.ctx, told, client.MergeFrom(before))).To(Succeed())

	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(Succeed(), said.String())
	for _, request := range []*unstructured.Unstructured{done, failed, silent, told} {
		p.Expect(p.get(request).GetDeletionTimestamp()).ToNot(BeNil(), request.GetName())
		p.Expect(p.get(request).GetAnnotations()).ToNot(HaveKey(remedyv1.CheckAnnotation), request.GetName())
	}
	stop := func(o client.Object) string { return p.get(o).GetAnnotations()[remedyv1.TimedOutAnnotation] }
	p.Expect(stop(done)).To(BeEmpty())
	p.Expect(stop(failed)).To(Equal("2026-03-14T12:00:00Z"))
	p.Expect(stop(silent)).To(Equal("2026-03-14T12:00:00Z"))
	p.Expect(stop(told)).To(Equal(earlier), "it was told already")
}

// TestWhereNobodyGoesOnRequestsAreWithdrawn: where Cluster API's own controller does not run, nobody would ever look after what its checks have asked for.
func TestWhereNobodyGoesOnRequestsAreWithdrawn(t *testing.T) {
	for flag, withdrawn := range map[string]bool{"Exclusive": true, "All": false, "Annotated": false} {
		t.Run(flag, func(t *testing.T) {
			p := newPlace(t)
			p.manager("--core-machinehealthchecks", flag)
			p.core("core")
			request := p.request("m-1", "CoreMachineHealthCheck/"+p.namespace+"/core")
			verdict := ContainSubstring("Metal3Remediation %s/m-1: withdrawn", p.namespace)
			dry, said := p.leaver(true)
			p.Expect(dry.All(p.ctx)).To(Succeed())
			p.Expect(verdict.Match(said.String())).To(Equal(withdrawn), said.String())
			p.Expect(p.get(request).GetDeletionTimestamp()).To(BeNil())

			leaver, said := p.leaver(false)
			p.Expect(leaver.All(p.ctx)).To(Succeed(), said.String())
			p.Expect(verdict.Match(said.String())).To(Equal(withdrawn), said.String())
			p.Expect(p.get(request).GetDeletionTimestamp() != nil).To(Equal(withdrawn))
			_, told := p.get(request).GetAnnotations()[remedyv1.TimedOutAnnotation]
			p.Expect(told).To(Equal(withdrawn))
			p.Expect(traces(t, management)).To(BeEmpty())
		})
	}
}

// TestWhoWasToldToStopIsNotHandedOn: its remediator does nothing any more, and Cluster API's own controller would wait for it, and with it for everything else.
func TestWhoWasToldToStopIsNotHandedOn(t *testing.T) {
	for how, release := range map[string]func(*uninstall.Leaver, *place) error{
		"everything": func(l *uninstall.Leaver, p *place) error { return l.All(p.ctx) },
		"one check":  func(l *uninstall.Leaver, p *place) error { return l.Checks(p.ctx, p.namespace, "core") },
	} {
		t.Run(how, func(t *testing.T) {
			p := newPlace(t)
			p.core("core")
			check := "CoreMachineHealthCheck/" + p.namespace + "/core"
			told, goesOn := p.request("told", check), p.request("goes-on", check)
			before := told.DeepCopy()
			told.SetAnnotations(map[string]string{remedyv1.TimedOutAnnotation: "2026-03-14T11:00:00Z", remedyv1.CheckAnnotation: check})
			p.Expect(p.api.Patch(p.ctx, told, client.MergeFrom(before))).To(Succeed())
			leaver, said := p.leaver(false)
			p.Expect(release(leaver, p)).To(Succeed(), said.String())
			p.Expect(said.String()).To(ContainSubstring("Metal3Remediation %s/told: withdrawn", p.namespace))
			p.Expect(p.get(told).GetDeletionTimestamp()).ToNot(BeNil())
			p.Expect(p.get(told).GetAnnotations()).ToNot(HaveKey(remedyv1.CheckAnnotation))
			p.Expect(p.get(goesOn).GetDeletionTimestamp()).To(BeNil())
		})
	}
}
