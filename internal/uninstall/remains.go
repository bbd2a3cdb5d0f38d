// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// sweepOf takes our notes off what Cluster API's own controller goes on with. It comes last: as long as a check is ours, our manager would miss them.
func (l *Leaver) sweepOf(ctx context.Context, namespace string, back []*returned) error {
	all, unread, err := find(ctx, l.Management.discoverer, l.Management.metadata, namespace)
	if err != nil {
		return err
	}
	l.unseen(unread)
	rest := l.remains(ctx, namespace, back)
	for i := range all {
		f := &all[i]
		if ctx.Err() != nil || !rest.goes(f) {
			continue
		}
		if !l.DryRun {
			if err := l.handOn(ctx, f); err != nil {
				l.miss("%s %s/%s: %s", f.kind, f.Namespace, f.Name, err)
				continue
			}
		}
		l.say(l.Management, f.kind, f.Namespace, f.Name, l.fate(f))
	}
	if rest.held {
		l.miss("what is remembered of Machines stays on them, as nobody knows whether another check of ours looks after them: %s", rest.unknown)
	}
	return nil
}

// handOn leaves an object to Cluster API's own controller, or withdraws it, where that could do nothing with it.
func (l *Leaver) handOn(ctx context.Context, f *found) error {
	if l.withdrawn(f) {
		if err := l.Management.withdraw(ctx, f, l.Clock.Now()); err != nil {
			return err
		}
	}
	return l.Management.clean(ctx, f)
}

// unseen tells what could not be read. Where nothing of a check can be, that is no failure: whoever has rights in a namespace has not all of them.
func (l *Leaver) unseen(unread []unseen) {
	var denied []string
	for i := range unread {
		if unread[i].denied() {
			denied = append(denied, unread[i].what)
			continue
		}
		l.miss("%s", &unread[i])
	}
	slices.Sort(denied)
	if len(denied) > 0 {
		_, _ = fmt.Fprintln(l.Out, "not looked at, as you may not list them, and as no check of Cluster API leaves anything of ours there: "+strings.Join(denied, ", "))
	}
}

// remains knows what is left of ours on Machines and requests when checks of Cluster API go back to its own controller.
type remains struct {
	// names are those of the checks that go back. They have selected Machines until now, and those that stay ours go on doing so.
	names          map[string]bool
	going, staying []selection
	// unknown is why nobody knows who stays. held: something has stayed for that.
	unknown error
	held    bool
}

// selection is the Machines that a check selects.
type selection struct {
	cluster string
	labels.Selector
}

func (s *selection) has(machine *found) bool {
	return machine.Labels[clusterv1.ClusterNameLabel] == s.cluster && s.Matches(labels.Set(machine.Labels))
}

func selectionOf(cluster string, selector labels.Selector, err error) selection {
	if err != nil {
		// Our manager and Cluster API's own take it for nothing, too.
		selector = labels.Nothing()
	}
	return selection{cluster, selector}
}

func ofCore(check *clusterv1.MachineHealthCheck) selection {
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	return selectionOf(check.Spec.ClusterName, selector, err)
}

func (l *Leaver) remains(ctx context.Context, namespace string, back []*returned) *remains {
	r := &remains{names: map[string]bool{}}
	for _, one := range back {
		r.names[one.check.Name] = true
		r.going = append(r.going, ofCore(one.check))
	}
	cores, own := &clusterv1.MachineHealthCheckList{}, &remedyv1.MachineHealthCheckList{}
	for _, list := range []client.ObjectList{cores, own} {
		// Our own kind may be gone already.
		if err := l.Management.api.List(ctx, list, client.InNamespace(namespace)); err != nil && !meta.IsNoMatchError(err) {
			r.unknown = errors.Wrap(err, "failed to read the other checks")
			return r
		}
	}
	for i := range cores.Items {
		if check := &cores.Items[i]; !r.names[check.Name] && takenOver(check) {
			r.staying = append(r.staying, ofCore(check))
		}
	}
	for i := range own.Items {
		selector, err := own.Items[i].Spec.Selector.Labels()
		r.staying = append(r.staying, selectionOf(own.Items[i].Spec.ClusterName, selector, err))
	}
	return r
}

// takenOver says whether our manager takes care of a check of Cluster API, or is about to.
func takenOver(check *clusterv1.MachineHealthCheck) bool {
	return check.Annotations[clusterv1.PausedAnnotation] == remedyv1.Pause || meta.IsStatusConditionTrue(check.Status.Conditions, remedyv1.TakenOverCondition)
}

// ledger is what is remembered of a Machine. It is everybody's who looks after it.
var ledger = slices.Concat(slices.Sorted(maps.Keys(notes.OfLedger(&remediation.Ledger{}))), slices.Sorted(maps.Keys(notes.OfNodeGoneSince(time.Time{}))))

// goes says whether anything goes off an object, and narrows it to that: what a check has made or signed goes with it; what is remembered of a Machine
// goes with the check that selects it, unless another one of ours does.
func (r *remains) goes(f *found) bool {
	signed := r.names[checkOf(f)]
	if !f.is("Machine", clusterv1.GroupVersion.Group) {
		return signed
	}
	selects := func(s selection) bool { return s.has(f) }
	switch remembered := signed || slices.ContainsFunc(r.going, selects); {
	case !remembered:
		return false
	case r.unknown != nil || slices.ContainsFunc(r.staying, selects):
		r.held = r.held || r.unknown != nil && slices.ContainsFunc(f.annotations, func(key string) bool { return slices.Contains(ledger, key) })
		if !signed {
			return false
		}
		f.keep(ledger...)
	case !signed:
		f.only(ledger...)
	}
	return !f.empty()
}

// checkOf is the name of the check of Cluster API that an object was marked by or made for; empty if it was none.
func checkOf(f *found) string {
	core := string(metrics.CoreMachineHealthCheck)
	if check, is := requests.ParseCheck(f.Annotations[remedyv1.CheckAnnotation]); is && check.Kind == core && check.Namespace == f.Namespace {
		return check.Name
	}
	name, is := strings.CutPrefix(notes.Author(f.Annotations), core+"/")
	if is {
		return name
	}
	return ""
}
