// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// The time of all decisions, and one after every deadline. Records are kept with the first one, so that two states that differ in times
// only are the same.
var (
	start = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	late  = start.Add(48 * time.Hour)
)

const (
	ours, others = "fence-uid", "other-fence-uid"
	bmc, pdu     = fencingv1.MethodName("bmc"), fencingv1.MethodName("pdu")
	fabric       = fencingv1.MethodName("fabric")
)

// job is the Job of the last action.
type job struct {
	exists, executed, finished, deleted bool
	// neighbor: its parameters are those of another machine. proves: it was created after the Pod was terminating.
	neighbor, proves bool
	method           fencingv1.MethodName
	action           fencingv1.Action
	result           fencingv1.JobResult
}

// device is an outlet. A machine has power while its outlets of both levels are on.
type device struct {
	off bool
	// answer is the last answer of a status Job that was executed, and after no later action.
	answer fencingv1.Power
}

// world is everything outside of the record. It is a value, so a copy is another world.
type world struct {
	// record is a position in records.
	record                              int
	job                                 job
	bmc, pdu, fabric                    device
	finalizer, blockMove                bool
	finished                            string
	deleting, canceled, paused, targets bool
	ready                               corev1.ConditionStatus
	boot                                int
	taint                               string
	replaced, unreadable, overLimit     bool
	noProfile                           bool
	// changed: the row has the device of another machine, neighbor. others is the fence of another Node, above maxParallel.
	changed  bool
	neighbor device
	others   string
	pod      pod
	// people count what persons have done, so that there is an end.
	switches, flips int
}

func (w *world) device(name fencingv1.MethodName) *device {
	switch name {
	case bmc:
		return &w.bmc
	case pdu:
		return &w.pdu
	}
	return &w.fabric
}

// hasPower reports whether the machine runs.
func (w *world) hasPower() bool { return !w.bmc.off && !w.pdu.off }

// records are all records that were stored, and numbers their positions by their text.
var (
	records = []*fencingv1.NodeFenceStatus{{}}
	numbers = map[string]int{"{}": 0}
)

// status is the record. It must not be changed.
func (w *world) status() *fencingv1.NodeFenceStatus { return records[w.record] }

// store keeps a record without what only counts: times, the numbers of Jobs, and the list of old ones.
func (w *world) store(s *fencingv1.NodeFenceStatus) {
	s = s.DeepCopy()
	at := metav1.NewTime(start)
	set := func(times ...**metav1.Time) {
		for _, t := range times {
			if *t != nil {
				*t = &at
			}
		}
	}
	set(&s.Since, &s.Deadline, &s.PoweredOn, &s.Rejoined, &s.Drained)
	if s.Release != nil {
		s.Release.StartedAt = at
		set(&s.Release.TerminatingAt, &s.Release.ProvenAt, &s.Release.EndedAt)
	}
	for i := range s.Methods {
		set(&s.Methods[i].OffRequested, &s.Methods[i].OnSucceeded, &s.Methods[i].Ran)
	}
	if s.Evidence != nil {
		s.Evidence.RecordedAt = at
	}
	if s.Action != nil && s.Action.Ended {
		// Only which action it was is read again: the first one has no predecessor.
		s.Action.Deleted, s.Action.Method, s.Action.Action = false, "", ""
	}
	if s.Action == nil || !s.Action.Deleted {
		// It is read by persons only.
		s.Deadline = nil
	}
	if s.Action != nil {
		s.Action.Sequence, s.Action.StartedAt = 1, at
	}
	s.Jobs = nil
	content, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	number, known := numbers[string(content)]
	if !known {
		number = len(records)
		records, numbers[string(content)] = append(records, s), number
	}
	w.record = number
}

// premise is what can happen in an exploration.
type premise struct {
	name                                      string
	isolation                                 bool
	levels                                    [][]fencingv1.MethodName
	mode                                      fencingv1.FenceMode
	dead, ignoresOff                          map[fencingv1.MethodName]bool
	offBefore                                 bool
	restarts                                  int32
	deletes, cancels, pauses, targetGoes      bool
	nodeRecovers, replaces, untaints, limits  bool
	person, profileGoes, unreadable, jobsHang bool
	otherFence, rowChanges, parallel          bool
	// workload: a Pod runs on the Node. neighbors: the row has the device of another machine.
	workload, neighbors, drains, resets, dumps, confirms bool
	// spec and plan are those of its fence. They are not changed.
	spec *fencingv1.NodeFenceSpec
	plan *profile.Plan
}

// begin returns the first world.
func (p *premise) begin() world {
	p.spec = &fencingv1.NodeFenceSpec{Mode: p.mode, Retries: ptr.To(1 - p.restarts), Restarts: ptr.To(p.restarts)}
	p.plan = &profile.Plan{ProfileName: "rack", Levels: p.levels, Methods: map[fencingv1.MethodName]fencingv1.FenceMethod{
		bmc: {Name: bmc}, pdu: {Name: pdu}, fabric: {Name: fabric},
	}}
	if p.isolation {
		p.plan.Isolation = []fencingv1.MethodName{fabric}
	}
	if p.isolation && p.workload {
		p.plan.Methods[fabric] = fencingv1.FenceMethod{Name: fabric, StorageClasses: []fencingv1.StorageClassName{"fc"}}
	}
	if p.dumps {
		p.plan.Methods[bmc] = fencingv1.FenceMethod{Name: bmc, Agent: profile.KernelDumpAgent}
	}
	if p.drains {
		p.spec.Drain = &fencingv1.Drain{Timeout: *lasts(time.Hour)}
	}
	w := world{ready: corev1.ConditionUnknown}
	if p.mode == fencingv1.CheckDevices {
		w.ready = corev1.ConditionTrue
	}
	w.bmc.off = p.offBefore
	p.beginWorkload(&w)
	return w
}

func (p *premise) observe(w *world) *lifecycle.Observation {
	o := &lifecycle.Observation{
		Spec: p.spec, UID: ours, Deleting: w.deleting, Canceled: w.canceled, Finalizer: w.finalizer, BlockMove: w.blockMove, Finished: w.finished,
		Paused: w.paused, TargetGone: w.targets,
	}
	if !w.unreadable {
		uid := "node-uid"
		if w.replaced {
			uid = "another-uid"
		}
		o.Node = lifecycle.Node{
			State: lifecycle.NodePresent, Name: "worker-1", UID: typesUID(uid), BootID: []string{"boot-0", "boot-1", "boot-2"}[w.boot],
			Ready: w.ready, Fence: w.taint, Evicts: w.pod.evicts, OutOfService: w.pod.outOfService, ReleaseTaint: w.pod.outOfService,
		}
		o.Workload = w.workloadOf()
		if w.pod.confirmed {
			o.ConfirmedOff = o.Node.UID
		}
		o.Cluster = &lifecycle.Cluster{Nodes: 10, NotReady: 1}
		if w.overLimit {
			o.Cluster.NotReady = 9
		}
		if w.others != "" {
			o.Cluster.Fenced = 1
		}
		if w.others == "smaller" {
			o.Cluster.FencedBefore = 1
		}
	}
	if w.noProfile {
		o.Problem = &profile.Problem{Reason: lifecycle.ReasonProfileNotResolved}
	} else {
		o.Plan = p.plan
		if w.changed {
			o.Plan = &profile.Plan{ProfileName: "rack", Levels: p.levels, Methods: maps.Clone(p.plan.Methods)}
			o.Plan.Methods[bmc] = fencingv1.FenceMethod{Name: bmc, Parameters: fencingv1.Parameters{"ip": "10.0.0.12"}}
		}
	}
	if w.job.exists {
		o.Job = jobs.Observed{Exists: true, Finished: w.job.finished, Deleting: w.job.deleted}
		if w.job.finished {
			o.Job.Result = w.job.result
		}
	}
	return o
}
