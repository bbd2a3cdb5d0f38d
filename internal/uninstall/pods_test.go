// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// pod is one of the manager.
func (p *place) pod(name string) *corev1.Pod {
	p.t.Helper()
	pod := &corev1.Pod{ObjectMeta: p.meta(name), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "example.com/manager"}}}}
	pod.Labels = map[string]string{"control-plane": "remedy-controller-manager"}
	p.create(pod)
	return pod
}

// A pod that does not end may still write.
func TestNothingIsCleanedWhileAPodOfTheManagerIsThere(t *testing.T) {
	p := newPlace(t)
	p.manager()
	core := p.core("core")
	p.pod("manager-1")
	before := p.get(core)
	leaver, _ := p.leaver(false)
	leaver.Patience = neverStops
	p.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring("1 pods of Deployment %s/manager are still there", p.namespace)))
	p.Expect(p.get(core)).To(Equal(before))
}

// A pod that was evicted, or whose node was shut down, stays as a record of that, for as long as nobody deletes it.
func TestAPodThatHasEndedKeepsNobody(t *testing.T) {
	p := newPlace(t)
	p.manager()
	core := p.core("core")
	for name, phase := range map[string]corev1.PodPhase{"evicted": corev1.PodFailed, "done": corev1.PodSucceeded} {
		pod := p.pod(name)
		pod.Status.Phase = phase
		p.Expect(p.api.Status().Update(p.ctx, pod)).To(Succeed())
	}
	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(Succeed(), said.String())
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/theirs"}))

	p.pod("pending")
	leaver, _ = p.leaver(false)
	leaver.Patience = neverStops
	p.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring("1 pods of Deployment %s/manager are still there", p.namespace)), "and is told of without those")
}
