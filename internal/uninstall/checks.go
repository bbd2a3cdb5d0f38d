// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"strings"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Checks gives the checks of Cluster API in a namespace back to its own controller, or one of them. A manager that runs lets go of them itself, so that
// it is in the midst of nothing, and does not take them again.
func (l *Leaver) Checks(ctx context.Context, namespace, name string) error {
	checks, err := l.named(ctx, namespace, name)
	if err != nil {
		return err
	}
	manager := l.manager(ctx)
	var all []*returned
	warned := map[types.UID]bool{}
	for i := range checks {
		one, err := l.returns(ctx, &checks[i], &manager)
		if err == nil {
			l.warn(warned, "MachineHealthCheck", &one.check.ObjectMeta)
			l.warn(warned, "Cluster", &one.cluster.ObjectMeta)
			err = l.tell(ctx, one, &manager)
		}
		if err != nil {
			l.miss("MachineHealthCheck %s/%s: %s", checks[i].Namespace, checks[i].Name, err)
			continue
		}
		all = append(all, one)
	}
	if manager.runs && !l.DryRun {
		l.awaitLettingGo(ctx, all)
	}
	for _, one := range all {
		if err := l.giveBack(ctx, one); err != nil {
			l.miss("MachineHealthCheck %s/%s: %s", one.check.Namespace, one.check.Name, err)
		}
	}
	return l.sum(ctx, l.sweepOf(ctx, namespace, all))
}

// named are the checks that are meant.
func (l *Leaver) named(ctx context.Context, namespace, name string) ([]clusterv1.MachineHealthCheck, error) {
	var err error
	list := &clusterv1.MachineHealthCheckList{}
	if name == "" {
		err = l.Management.api.List(ctx, list, client.InNamespace(namespace))
	} else {
		list.Items = make([]clusterv1.MachineHealthCheck, 1)
		err = l.Management.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &list.Items[0])
	}
	switch {
	case meta.IsNoMatchError(err):
		return nil, errors.New("this cluster does not serve the MachineHealthChecks of Cluster API (cluster.x-k8s.io/v1beta2): name the management cluster by --context or --kubeconfig; " +
			"where Cluster API was uninstalled, --all takes off what else is ours")
	case apierrors.IsNotFound(err):
		return nil, errors.Errorf("there is no MachineHealthCheck %s of Cluster API in namespace %s; see kubectl get machinehealthchecks.cluster.x-k8s.io -n %s", name, namespace, namespace)
	}
	return list.Items, errors.Wrap(err, "failed to read the MachineHealthChecks")
}

// returned is a check of Cluster API that is given back.
type returned struct {
	check *clusterv1.MachineHealthCheck
	// cluster is its Cluster; empty if there is none.
	cluster *clusterv1.Cluster
	// asked: something other than the check itself asks for it to be taken over, so that it has to say that it is not to be.
	asked bool
	// frozen: a pause of somebody else keeps our manager from letting go.
	frozen bool
	// back: our manager has given it back.
	back bool
}

// found is what of a check is to be taken off.
func (r *returned) found() *found {
	kind := listed{resource: clusterv1.GroupVersion.WithResource("machinehealthchecks"), kind: "MachineHealthCheck"}
	f := &found{listed: kind, ObjectMeta: r.check.ObjectMeta, ours: in(&r.check.ObjectMeta)}
	if r.asked {
		f.keep(remedyv1.TakeOverAnnotation)
	}
	return f
}

// held says whether our manager still has anything on a check, beside what people have put there.
func (r *returned) held() bool {
	f := r.found()
	f.keep(remedyv1.TakeOverAnnotation)
	f.keep(remedyv1.RequestPluralsAnnotation)
	return !f.empty() || speaks(r.check)
}

func (l *Leaver) returns(ctx context.Context, check *clusterv1.MachineHealthCheck, manager *manager) (*returned, error) {
	cluster := &clusterv1.Cluster{}
	one := &returned{check: check, cluster: cluster, asked: manager.takesAll}
	err := l.Management.api.Get(ctx, client.ObjectKey{Namespace: check.Namespace, Name: check.Spec.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return nil, errors.Wrap(err, "failed to read the Cluster")
	}
	one.asked = one.asked || cluster.Annotations[remedyv1.TakeOverAnnotation] == "true"
	pause, paused := check.Annotations[clusterv1.PausedAnnotation]
	one.frozen = paused && pause != remedyv1.Pause || cluster.Spec.Paused != nil && *cluster.Spec.Paused
	return one, nil
}

// warn tells of an annotation that nobody listens to: somebody has meant something by it.
func (l *Leaver) warn(warned map[types.UID]bool, kind string, of *metav1.ObjectMeta) {
	says, is := of.Annotations[remedyv1.TakeOverAnnotation]
	if !is || says == "true" || says == "false" || warned[of.UID] {
		return
	}
	warned[of.UID] = true
	_, _ = fmt.Fprintf(l.Out, "%s %s/%s: the annotation %s says %q, which nobody understands: it is \"true\" or \"false\", in lower case; whoever wants nothing of the kind removes it\n",
		kind, of.Namespace, of.Name, remedyv1.TakeOverAnnotation, says)
}

// giveBack takes off a check what our manager has not taken off itself.
func (l *Leaver) giveBack(ctx context.Context, one *returned) error {
	f := one.found()
	if f.empty() && !speaks(one.check) {
		return nil
	}
	var did []string
	if !one.back {
		did = append(did, "given back")
	}
	if said := f.said(); said != "" {
		did = append(did, "without "+said)
	}
	if !l.DryRun {
		if err := l.Management.hush(ctx, &one.check.ObjectMeta); err != nil {
			return err
		}
		if err := l.Management.clean(ctx, f); err != nil {
			return err
		}
	}
	l.say(l.Management, f.kind, f.Namespace, f.Name, strings.Join(did, ", "))
	return nil
}
