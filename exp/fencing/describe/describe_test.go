// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the files in testdata")

// at is a time of the examples.
func at(minute, second int) *metav1.Time {
	return ptr.To(metav1.Date(2026, time.March, 14, 12, minute, second, 0, time.UTC))
}

// fence returns a NodeFence of worker-1 in a state.
func fence(phase fencingv1.Phase, step fencingv1.FenceStep, change func(*fencingv1.NodeFence)) *fencingv1.NodeFence {
	f := &fencingv1.NodeFence{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "worker-1"},
		Spec:       fencingv1.NodeFenceSpec{Mode: fencingv1.FenceNode},
		Status: fencingv1.NodeFenceStatus{Phase: phase, Step: step, Node: &fencingv1.FencedNode{
			Name: "worker-1", UID: "uid-of-node", ClusterName: "prod-1", ProfileName: "rack-a",
		}},
	}
	change(f)
	return f
}

// condition sets the condition Succeeded.
func condition(f *fencingv1.NodeFence, status metav1.ConditionStatus, reason, message string) {
	f.Status.Conditions = []metav1.Condition{{Type: remedyv1.SucceededCondition, Status: status, Reason: reason, Message: message}}
}

// proven sets evidence, with the condition of a class. Its level was the first.
func proven(f *fencingv1.NodeFence, class fencingv1.EvidenceClass, message string) {
	f.Status.Evidence = &fencingv1.Evidence{Class: class, RecordedAt: *at(0, 30)}
	f.Status.Conditions = append(f.Status.Conditions, metav1.Condition{
		Type: fencingv1.FencedCondition, Status: metav1.ConditionTrue, Reason: string(class), Message: message,
	})
}

const provenOff = "Node worker-1 was proven off at 2026-03-14T12:00:30Z: every device of level 1 answered OFF twice"

// rackA has a BMC, and a PDU for when that does not answer.
var rackA = &fencingv1.FenceProfile{
	ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rack-a"},
	Spec: fencingv1.FenceProfileSpec{PowerManagement: []fencingv1.PowerLevel{
		{Methods: []fencingv1.MethodName{"ipmi"}}, {Methods: []fencingv1.MethodName{"pdu"}},
	}},
}

func job(n string, method fencingv1.MethodName, action fencingv1.Action, result fencingv1.JobResult, code *int32) fencingv1.JobRecord {
	return fencingv1.JobRecord{Name: "nf-1a2b3c4d-" + n, Method: method, Action: action, Result: result, ExitCode: code}
}

// ipmiOff is the record of a BMC that was switched off.
func ipmiOff() fencingv1.MethodRecord {
	return fencingv1.MethodRecord{
		Name: "ipmi", Step: fencingv1.StepPowerManagement, PowerBefore: fencingv1.PowerOn, Power: fencingv1.PowerOff, OffRequested: at(0, 10),
	}
}

func TestOf_States_MatchGolden(t *testing.T) {
	for name, f := range map[string]*fencingv1.NodeFence{
		"queued": fence(fencingv1.PhaseNew, fencingv1.StepIsolation, func(f *fencingv1.NodeFence) {
			f.Status.Node = nil
			condition(f, metav1.ConditionUnknown, "Queued",
				"Node worker-1 is fenced by another NodeFence (UID 9f8e); this one is evaluated again after it")
		}),
		"isolating": fence(fencingv1.PhaseRunning, fencingv1.StepIsolation, func(f *fencingv1.NodeFence) {
			f.Status.Methods = []fencingv1.MethodRecord{{Name: "switch", Step: fencingv1.StepIsolation, OffRequested: at(0, 5), Failures: 1}}
			f.Status.Jobs = []fencingv1.JobRecord{job("1", "switch", fencingv1.ActionOff, "", nil)}
			f.Status.Deadline = at(3, 5)
			condition(f, metav1.ConditionUnknown, "WaitingForJob", "Method switch: Job nf-1a2b3c4d-1 performs off until 2026-03-14T12:03:05Z")
		}),
		"draining": fence(fencingv1.PhaseRunning, fencingv1.StepIsolation, func(f *fencingv1.NodeFence) {
			f.Spec.Drain = &fencingv1.Drain{}
			condition(f, metav1.ConditionUnknown, "Draining", "Node worker-1 is Ready, so its Pods are evicted before it is fenced until "+
				"2026-03-14T12:03:05Z. These have not ended: Pod default/db-0. If one stays, check its PodDisruptionBudget: kubectl get pdb -A")
		}),
		"waiting-for-off": fence(fencingv1.PhaseRunning, fencingv1.StepPowerManagement, func(f *fencingv1.NodeFence) {
			f.Status.Level = 1
			f.Status.Methods = []fencingv1.MethodRecord{
				{Name: "ipmi", Step: fencingv1.StepPowerManagement, Power: fencingv1.PowerUnknown, Failures: 3},
				{Name: "pdu", Step: fencingv1.StepPowerManagement, PowerBefore: fencingv1.PowerOn, OffRequested: at(7, 0)},
			}
			f.Status.Jobs = []fencingv1.JobRecord{job("5", "pdu", fencingv1.ActionStatus, "", nil)}
			f.Status.Deadline = at(10, 0)
			condition(f, metav1.ConditionUnknown, "WaitingForJob", "Method pdu: Job nf-1a2b3c4d-5 performs status until 2026-03-14T12:10:00Z")
		}),
		"waiting-for-node": fence(fencingv1.PhaseNew, fencingv1.StepRecovery, func(f *fencingv1.NodeFence) {
			ipmi := ipmiOff()
			ipmi.OnSucceeded = at(1, 0)
			f.Status.Methods, f.Status.PoweredOn, f.Status.Deadline = []fencingv1.MethodRecord{ipmi}, at(1, 0), at(11, 0)
			f.Status.Jobs = []fencingv1.JobRecord{job("4", "ipmi", fencingv1.ActionOn, fencingv1.JobSucceeded, ptr.To(int32(0)))}
			condition(f, metav1.ConditionUnknown, "WaitingForNode",
				"Node worker-1 was switched on, and is not Ready with a new boot yet until 2026-03-14T12:11:00Z")
			proven(f, fencingv1.EvidencePowerOff, provenOff+". It was switched on at 2026-03-14T12:01:00Z")
			f.Status.Release = &fencingv1.ReleaseRecord{
				TerminatingAt: at(0, 32), Pods: 1, ProvenAt: at(0, 40), EndedAt: at(10, 40),
				Left: []string{"Pod default/db-0", "VolumeAttachment csi-1a2b"},
			}
		}),
		"releasing": fence(fencingv1.PhaseDone, fencingv1.StepPowerManagement, func(f *fencingv1.NodeFence) {
			f.Status.Methods, f.Status.Deadline = []fencingv1.MethodRecord{ipmiOff()}, at(10, 40)
			f.Status.Release = &fencingv1.ReleaseRecord{
				Scope: fencingv1.ScopeNode, StartedAt: *at(0, 31), TerminatingAt: at(0, 32), Pods: 3, ProvenAt: at(0, 40),
			}
			condition(f, metav1.ConditionUnknown, "Releasing",
				"These are being removed from Node worker-1 until 2026-03-14T12:10:40Z: Pod default/db-0, VolumeAttachment csi-1a2b")
			proven(f, fencingv1.EvidencePowerOff, provenOff)
		}),
		"storage-isolation": fence(fencingv1.PhaseDone, fencingv1.StepPowerManagement, func(f *fencingv1.NodeFence) {
			f.Status.Methods = []fencingv1.MethodRecord{{
				Name: "switch", Step: fencingv1.StepIsolation, PowerBefore: fencingv1.PowerOn, Power: fencingv1.PowerOff, OffRequested: at(0, 10),
			}}
			f.Status.Release = &fencingv1.ReleaseRecord{Scope: fencingv1.ScopeStorage, StartedAt: *at(0, 31)}
			condition(f, metav1.ConditionUnknown, "WaitingForPods",
				"Pods of Node worker-1 are being deleted, and 1 do not terminate yet until 2026-03-14T12:10:40Z. All of them: Pod default/db-0")
			proven(f, fencingv1.EvidenceStorageIsolation,
				"Node worker-1 was cut off from its storage at 2026-03-14T12:00:30Z, and may still run. StorageClasses: fc-gold")
		}),
		"not-proven-off": fence(fencingv1.PhaseError, fencingv1.StepPowerManagement, func(f *fencingv1.NodeFence) {
			f.Status.Level, f.Status.Restarts, f.Status.Result = 2, 1, fencingv1.ResultFailed
			f.Status.Methods = []fencingv1.MethodRecord{
				{
					Name: "ipmi", Step: fencingv1.StepPowerManagement, PowerBefore: fencingv1.PowerOn, Power: fencingv1.PowerUnknown,
					OffRequested: at(0, 10), Failures: 3,
				},
				{Name: "pdu", Step: fencingv1.StepPowerManagement, Power: fencingv1.PowerUnknown, Failures: 3},
			}
			f.Status.Jobs = []fencingv1.JobRecord{job("14", "pdu", fencingv1.ActionStatus, fencingv1.JobFailed, ptr.To(int32(1)))}
			condition(f, metav1.ConditionFalse, "NotProvenOff", "No level of devices has proven that Node worker-1 is off. "+
				"Method pdu: status failed (exit code 1). Read the log: kubectl logs job/nf-1a2b3c4d-14. "+
				"If you have switched its machine off, confirm that it stays off: "+ConfirmOff(f))
		}),
		"final": fence(fencingv1.PhaseFinal, fencingv1.StepRecovery, func(f *fencingv1.NodeFence) {
			ipmi := ipmiOff()
			ipmi.OnSucceeded = at(1, 0)
			f.Status.Methods, f.Status.PoweredOn, f.Status.Rejoined = []fencingv1.MethodRecord{ipmi}, at(1, 0), at(3, 0)
			f.Status.Result = fencingv1.ResultSucceeded
			condition(f, metav1.ConditionTrue, "Rejoined", "Node worker-1 was switched off and on, and is Ready")
			proven(f, fencingv1.EvidencePowerOff, provenOff+". It was switched on at 2026-03-14T12:01:00Z")
			f.Status.Release = &fencingv1.ReleaseRecord{TerminatingAt: at(0, 32), Pods: 3, ProvenAt: at(0, 40), EndedAt: at(0, 50)}
		}),
		"check": fence(fencingv1.PhaseFinal, fencingv1.StepPowerManagement, func(f *fencingv1.NodeFence) {
			f.Spec.Mode, f.Status.Result = fencingv1.CheckDevices, fencingv1.ResultFailed
			f.Status.Methods = []fencingv1.MethodRecord{
				{Name: "ipmi", Step: fencingv1.StepPowerManagement, PowerBefore: fencingv1.PowerOn, Power: fencingv1.PowerOn},
				{Name: "pdu", Step: fencingv1.StepPowerManagement, Power: fencingv1.PowerUnknown, Failures: 3},
			}
			f.Status.Jobs = []fencingv1.JobRecord{job("4", "pdu", fencingv1.ActionStatus, fencingv1.JobUnknown, nil)}
			condition(f, metav1.ConditionFalse, "DeviceFailed", "Not all devices answered: ipmi ON, pdu UNKNOWN. "+
				"Method pdu: status failed. Read the log: kubectl logs job/nf-1a2b3c4d-4")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			of := Of(f, rackA)
			file := filepath.Join("testdata", name+".golden.txt")
			if *update {
				g.Expect(os.WriteFile(file, []byte(of.String()), 0o600)).To(Succeed())
			}
			golden, err := os.ReadFile(file)
			g.Expect(err).ToNot(HaveOccurred(), "create the file with: go test ./exp/fencing/describe -update")
			g.Expect(of.String()).To(Equal(string(golden)))
		})
	}
}

// Without the profile, the record alone shows what is missing.
func TestOf_ProfileUnread_NamesWhatIsKnown(t *testing.T) {
	g := NewWithT(t)
	f := fence(fencingv1.PhaseRunning, fencingv1.StepPowerManagement, func(f *fencingv1.NodeFence) {
		f.Status.Methods = []fencingv1.MethodRecord{ipmiOff(), {Name: "psu", Step: fencingv1.StepPowerManagement}}
	})
	of := Of(f, nil)
	g.Expect(of.Missing).To(ConsistOf("an answer OFF of psu"))
	g.Expect(of.String()).To(ContainSubstring("rack-a, level 1\n"))
	f.Spec.PowerManagement = &[]fencingv1.PowerLevel{{Methods: []fencingv1.MethodName{"ipmi", "psu", "fuse"}}}
	of = Of(f, nil)
	g.Expect(of.Missing).To(ConsistOf("an answer OFF of psu and fuse"))
	g.Expect(of.String()).To(ContainSubstring("rack-a, level 1 of 1\n"))
}

func TestOf_Withdrawal_DependsOnTheState(t *testing.T) {
	off := func(f *fencingv1.NodeFence) { f.Status.Methods = []fencingv1.MethodRecord{ipmiOff()} }
	for name, test := range map[string]struct {
		phase fencingv1.Phase
		set   func(*fencingv1.NodeFence)
		then  string
	}{
		"before off": {fencingv1.PhaseRunning, func(*fencingv1.NodeFence) {}, "the Node is not switched off, and everything is undone"},
		"removes Pods": {fencingv1.PhaseRunning, func(f *fencingv1.NodeFence) {
			f.Status.Release = &fencingv1.ReleaseRecord{ProvenAt: at(0, 40)}
		}, "the fence goes on to its end, because it removes Pods"},
		"after off": {fencingv1.PhaseRunning, off, "the fence goes on to its end, because it has switched the Node off"},
		"failed":    {fencingv1.PhaseError, off, "each device that has switched the Node off switches it on, once"},
		"ended":     {fencingv1.PhaseFinal, off, ""},
		"canceled": {fencingv1.PhaseRunning, func(f *fencingv1.NodeFence) {
			f.Annotations = map[string]string{fencingv1.CancelAnnotation: ""}
		}, ""},
		"being deleted": {fencingv1.PhaseRunning, func(f *fencingv1.NodeFence) { f.DeletionTimestamp = at(1, 0) }, ""},
		"check": {fencingv1.PhaseRunning, func(f *fencingv1.NodeFence) {
			f.Spec.Mode = fencingv1.CheckDevices
		}, "no other device is asked"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			of := Of(fence(test.phase, fencingv1.StepPowerManagement, test.set), rackA)
			g.Expect(of.AfterCancel).To(HavePrefix(test.then))
			if test.then == "" {
				g.Expect(of.Cancel).To(BeEmpty())
			} else {
				g.Expect(of.Cancel).To(Equal("kubectl annotate nodefence -n default worker-1 remedy.cluster.x-k8s.io/cancel="))
			}
		})
	}
}

func TestFence_JSON_HasFields(t *testing.T) {
	g := NewWithT(t)
	content, err := json.Marshal(Of(fence(fencingv1.PhaseRunning, fencingv1.StepPowerManagement, func(f *fencingv1.NodeFence) {
		f.Status.Methods, f.Status.Deadline = []fencingv1.MethodRecord{{Name: "ipmi", Step: fencingv1.StepPowerManagement}}, at(3, 0)
		condition(f, metav1.ConditionUnknown, "DeviceBusy", "Another Job uses the device of method ipmi")
	}), rackA))
	g.Expect(err).ToNot(HaveOccurred())
	fields := map[string]any{}
	g.Expect(json.Unmarshal(content, &fields)).To(Succeed())
	g.Expect(fields).To(And(HaveKeyWithValue("name", "worker-1"), HaveKeyWithValue("phase", "Running"),
		HaveKeyWithValue("step", "PowerManagement"), HaveKeyWithValue("deadline", "2026-03-14T12:03:00Z"),
		HaveKeyWithValue("waitingFor", "DeviceBusy: Another Job uses the device of method ipmi"),
		HaveKeyWithValue("missing", ConsistOf("an answer OFF of ipmi")), HaveKey("cancel"), Not(HaveKey("evidence")), Not(HaveKey("release"))))
	g.Expect(ConfirmOff(&fencingv1.NodeFence{})).To(BeEmpty())
}

// reader returns a cluster with objects, whose lists can fail.
func reader(g *WithT, fails func(namespace string) error, objects ...client.Object) client.Reader {
	scheme := runtime.NewScheme()
	g.Expect(fencingv1.AddToScheme(scheme)).To(Succeed())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			var of client.ListOptions
			of.ApplyOptions(options)
			if err := fails(of.Namespace); err != nil {
				return err
			}
			return api.List(ctx, list, options...)
		},
	}).Build()
}

func named(namespace, name, cluster string, change func(*fencingv1.NodeFence)) *fencingv1.NodeFence {
	f := &fencingv1.NodeFence{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if cluster != "" {
		f.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	}
	change(f)
	return f
}

func TestFind_Fences_AreThoseOfTheNode(t *testing.T) {
	owned := func(by string) func(*fencingv1.NodeFence) {
		return func(f *fencingv1.NodeFence) {
			f.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: by, UID: "1"}}
		}
	}
	as := func(*fencingv1.NodeFence) {}
	g := NewWithT(t)
	api := reader(g, func(string) error { return nil },
		rackA,
		fence(fencingv1.PhaseFinal, fencingv1.StepRecovery, func(f *fencingv1.NodeFence) { f.Name = "admitted" }),
		named("default", "machine-1", "prod-1", owned("machine-1")),
		named("default", "machine-2", "prod-1", owned("machine-2")),
		named("default", "worker-1", "prod-1", as),
		named("default", "by-annotation", "prod-1", func(f *fencingv1.NodeFence) {
			f.Annotations = map[string]string{remedyv1.NodeNameAnnotation: "worker-1"}
		}),
		named("default", "worker-2", "prod-1", as),
		named("other", "worker-1", "prod-1", as),
		named("remedy-system", "worker-1", "", as),
	)
	names := func(t Target) (all []string) {
		found, unread := Find(context.Background(), api, t)
		g.Expect(unread).To(BeEmpty())
		for i := range found {
			all = append(all, found[i].Namespace+"/"+found[i].Name)
		}
		return all
	}
	ofCluster := Target{Node: "worker-1", Machine: "machine-1", Cluster: client.ObjectKey{Namespace: "default", Name: "prod-1"}}
	g.Expect(names(ofCluster)).To(Equal([]string{"default/by-annotation", "default/machine-1", "default/worker-1", "default/admitted"}))
	g.Expect(names(Target{Node: "worker-1", Namespace: "default"})).To(Equal([]string{"remedy-system/worker-1"}))
	g.Expect(names(Target{Node: "worker-3", Namespace: "default"})).To(BeEmpty())
	all, _ := Find(context.Background(), api, ofCluster)
	g.Expect(all[3].Levels).To(Equal(2), "its profile is read")
}

func TestFind_Unreadable_IsReported(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodefences"}, "", errors.New("no"))
	always := func(err error) func(string) error { return func(string) error { return err } }
	const notAllowed = "You are not allowed to list nodefences.remedy.cluster.x-k8s.io in "
	for name, test := range map[string]struct {
		fails  func(namespace string) error
		found  int
		unread string
	}{
		"not installed": {always(&meta.NoKindMatchError{}), 0, ""},
		"forbidden":     {always(forbidden), 0, notAllowed + "namespace default: fences are not printed"},
		"one namespace": {func(namespace string) error {
			if namespace == "" {
				return forbidden
			}
			return nil
		}, 1, notAllowed + "all namespaces: only fences of namespace default are printed"},
		"no answer": {always(errors.New("timeout")), 0, "NodeFences were not read: timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			api := reader(g, test.fails, named("default", "worker-1", "", func(*fencingv1.NodeFence) {}))
			found, unread := Find(context.Background(), api, Target{Node: "worker-1", Namespace: "default"})
			g.Expect(found).To(HaveLen(test.found))
			g.Expect(unread).To(Equal(test.unread))
		})
	}
}
