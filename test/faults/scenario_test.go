// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// controller is a small one: for every wish it makes a gift, and notes on the wish that it has.
type controller struct {
	client.Client
	// careless: every gift gets a new name, so that one that was made and not noted is made again.
	careless bool
	// restless: it writes although nothing has changed.
	restless bool
}

func (c *controller) reconcile(ctx context.Context, key client.ObjectKey) error {
	wish := &corev1.ConfigMap{}
	if err := c.Get(ctx, key, wish); err != nil {
		return errors.Wrap(err, "no wish")
	}
	if wish.Annotations["granted"] != "" && !c.restless {
		return nil
	}
	gift := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: wish.Namespace, Name: "gift-for-" + wish.Name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: wish.Name, UID: wish.UID}},
	}}
	if c.careless {
		gift.Name, gift.GenerateName = "", "gift-"
	}
	if err := c.Create(ctx, gift); err != nil && !apierrors.IsAlreadyExists(err) {
		return errors.Wrap(err, "no gift")
	}
	before := client.MergeFrom(wish.DeepCopy())
	wish.Annotations = map[string]string{"granted": gift.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z07:00")}
	return errors.Wrap(c.Patch(ctx, wish, before), "not noted")
}

// wishes is the story of a controller that reconciles until it has nothing left to do, or has crashed.
func wishes(born func(client.Client) *controller) faults.Scenario[string] {
	return faults.Scenario[string]{
		Begin: func(ctx context.Context) (string, error) {
			namespace, err := newNamespace(ctx)
			if err != nil {
				return "", err
			}
			return namespace, admin.Create(ctx, configMap(namespace, "wish"))
		},
		Run: func(ctx context.Context, process *faults.Process, namespace string) error {
			c, err := client.New(process.Config(cp.Admin), client.Options{})
			if err != nil {
				return errors.WithStack(err)
			}
			for range 5 {
				if err = born(c).reconcile(ctx, client.ObjectKey{Namespace: namespace, Name: "wish"}); err == nil || process.Crashed() {
					return err
				}
			}
			return err
		},
		State: func(ctx context.Context, namespace string) ([]client.Object, error) {
			list := &corev1.ConfigMapList{}
			err := admin.List(ctx, list, client.InNamespace(namespace))
			var objects []client.Object
			for i := range list.Items {
				if list.Items[i].Name != "kube-root-ca.crt" {
					objects = append(objects, &list.Items[i])
				}
			}
			return objects, err
		},
		Names: func(namespace string) []string { return []string{namespace} },
	}
}

var everyFault = []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.Refuse, faults.LoseRequest, faults.LoseAnswer}

// Try reports each fault after which the controller does not reach the same state.
func TestTry_FaultyController_IsReported(t *testing.T) {
	g := NewWithT(t)
	story := wishes(func(c client.Client) *controller { return &controller{Client: c, careless: true} })
	story.Faults = everyFault
	report := faults.Try(t.Context(), story)
	met := map[faults.Fault][]int{}
	for _, failure := range report.Failures {
		met[failure.Fault] = append(met[failure.Fault], failure.N)
	}
	g.Expect(met).To(Equal(map[faults.Fault][]int{
		// It was created, and the answer was lost.
		faults.CrashAfter: {1}, faults.LoseAnswer: {1},
		// It was made, and could not be noted.
		faults.CrashBefore: {2}, faults.Refuse: {2}, faults.LoseRequest: {2},
	}), "a write whose answer was lost does no harm, because it is read before")
}

func TestTry_InvalidScenario_IsReported(t *testing.T) {
	careful := func(c client.Client) *controller { return &controller{Client: c} }
	tests := []struct {
		reason string
		change func(*faults.Scenario[string])
		says   string
	}{
		{"it is never at rest", func(s *faults.Scenario[string]) {
			*s = wishes(func(c client.Client) *controller { return &controller{Client: c, restless: true} })
		}, "without a fault: the controller writes when everything is done: create configmaps"},
		{"it writes nothing", func(s *faults.Scenario[string]) {
			s.Run = func(context.Context, *faults.Process, string) error { return nil }
		}, "without a fault: nothing was written"},
		{"the check at the end fails", func(s *faults.Scenario[string]) {
			s.Check = func(_ context.Context, _ string, writes []faults.Write) error {
				if len(writes) > 2 {
					return errors.Errorf("%d are too many", len(writes))
				}
				return nil
			}
		}, "met CrashBefore: the check at the end: 3 are too many"},
		{"it gives up after its restart", func(s *faults.Scenario[string]) {
			run, runs := s.Run, 0
			s.Run = func(ctx context.Context, process *faults.Process, namespace string) error {
				if runs++; runs == 4 {
					return errors.New("too tired")
				}
				return run(ctx, process, namespace)
			}
		}, "met CrashBefore: the controller fails after its restart: too tired"},
		{"it does not make all of its writes any more", func(s *faults.Scenario[string]) {
			run, runs := s.Run, 0
			s.Run = func(ctx context.Context, process *faults.Process, namespace string) error {
				if runs++; runs == 3 {
					return nil
				}
				return run(ctx, process, namespace)
			}
		}, "met CrashBefore: the controller was done after 0 writes, and never made this one"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			g := NewWithT(t)
			story := wishes(careful)
			test.change(&story)
			report := faults.Try(t.Context(), story)
			g.Expect(report.Failures).ToNot(BeEmpty())
			g.Expect(report.Failures[0].String()).To(ContainSubstring(test.says))
		})
	}
	t.Run("a failure fails the test", func(t *testing.T) {
		g := NewWithT(t)
		story := wishes(func(c client.Client) *controller { return &controller{Client: c, careless: true} })
		watched := &judge{TB: t}
		faults.EachWrite(watched, story)
		g.Expect(watched.errors).To(Equal(2))
	})
}

// The second one of three creates meets the faults only where each write does.
func TestTry_OncePerKind_FaultsFirstAndLast(t *testing.T) {
	for once, runs := range map[bool]int{false: 1 + 2*4, true: 1 + 2*3} {
		t.Run(fmt.Sprintf("once per kind: %t", once), func(t *testing.T) {
			g := NewWithT(t)
			story := wishes(func(c client.Client) *controller { return &controller{Client: c} })
			run := story.Run
			story.Run = func(ctx context.Context, process *faults.Process, namespace string) error {
				if err := run(ctx, process, namespace); err != nil {
					return err
				}
				c, err := client.New(process.Config(cp.Admin), client.Options{})
				if err != nil {
					return errors.WithStack(err)
				}
				for _, name := range []string{"second", "third"} {
					more := configMap(namespace, name)
					if err = c.Get(ctx, client.ObjectKeyFromObject(more), more.DeepCopy()); apierrors.IsNotFound(err) {
						err = c.Create(ctx, more)
					}
					if err != nil {
						return err
					}
				}
				return nil
			}
			story.OncePerKind = once
			report := faults.Try(t.Context(), story)
			g.Expect(report.Failures).To(BeEmpty())
			g.Expect(report.Writes).To(HaveLen(4))
			g.Expect(report.Runs).To(Equal(runs))
		})
	}
}

// judge counts errors, and is not failed by them.
type judge struct {
	testing.TB
	errors int
}

func (j *judge) Errorf(string, ...any) { j.errors++ }
