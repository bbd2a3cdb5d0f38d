// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package notes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

func drawTime(t *rapid.T, name string) time.Time {
	if rapid.Bool().Draw(t, "no "+name) {
		return time.Time{}
	}
	return noon.Add(time.Duration(rapid.Int64Range(-1e9, 1e9).Draw(t, name)) * Precision)
}

// What was noted down is read again as it was, and nothing else on the object is touched.
func TestNotes_Written_AreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := remediation.History{Failures: rapid.IntRange(0, 1e6).Draw(t, "failures"), NotBefore: drawTime(t, "not before")}
		if rapid.Bool().Draw(t, "tried") {
			history.Tried = remediation.StepID{
				Order:    rapid.Int32Range(0, 1000).Draw(t, "order"),
				Template: rapid.StringMatching(`[A-Z][a-z]{0,9}Template/[a-z0-9.-]{1,9}`).Draw(t, "template"),
			}
		}
		gone, asked, storm := drawTime(t, "gone"), drawTime(t, "asked"), remediation.Storm{Since: drawTime(t, "storm")}
		if !storm.Since.IsZero() {
			storm.CooldownSince = drawTime(t, "cool-down")
		}
		machines := rapid.IntRange(0, 4).Draw(t, "machines")
		replacing := make([]remediation.Replacement, 0, machines)
		for i := range machines {
			replacing = append(replacing, remediation.Replacement{
				Target: fmt.Sprintf("m-%d", i), Owner: "MachineSet/a.b-c",
				GoneSince: drawTime(t, "gone since"),
			})
		}
		n := rapid.IntRange(0, 3).Draw(t, "kinds")
		kinds := make([]RequestKind, 0, n)
		for i := range n {
			kind := schema.GroupVersionKind{Group: "a.example.com", Version: "v1beta1", Kind: fmt.Sprintf("Remediation%d", i)}
			kinds = append(kinds, RequestKind{kind, rapid.SampledFrom([]string{"", "default"}).Draw(t, "namespace")})
		}
		annotations := map[string]string{"team": "a"}
		for _, n := range []Notes{
			OfHistory(&history), OfNodeGoneSince(gone), OfStorm(storm), OfReplacing(replacing),
			OfResponsibleCheck("MachineHealthCheck/a"), OfOwnerRequest(asked), OfRequestKinds(kinds),
		} {
			annotations, _ = n.Apply(annotations)
			if again, changed := n.Apply(annotations); changed {
				t.Fatalf("setting the same again changes %v", again)
			}
		}
		g := NewWithT(t)
		g.Expect(History(annotations)).To(Equal(history))
		g.Expect(NodeGoneSince(annotations)).To(Equal(gone))
		g.Expect(Storm(annotations)).To(Equal(storm))
		g.Expect(Replacing(annotations)).To(HaveExactElements(replacing))
		g.Expect(ResponsibleCheck(annotations)).To(Equal("MachineHealthCheck/a"))
		g.Expect(OwnerRequest(annotations)).To(Equal(asked.Truncate(time.Second)), "in the precision of conditions")
		g.Expect(RequestKinds(annotations)).To(HaveExactElements(kinds))
		for _, n := range []Notes{
			OfHistory(&remediation.History{}), OfNodeGoneSince(time.Time{}), OfStorm(remediation.Storm{}), OfReplacing(nil),
			OfResponsibleCheck(""), OfRequestKinds(nil),
		} {
			annotations, _ = n.Apply(annotations)
		}
		g.Expect(annotations).To(Equal(map[string]string{"team": "a"}), "nothing is left")
	})
}

// The format is an interface: a later version has to read the annotations of an earlier one.
func TestNotes_Format_IsStable(t *testing.T) {
	g := NewWithT(t)
	history := remediation.History{
		Failures: 2, NotBefore: noon.Add(1500 * time.Millisecond),
		Tried: remediation.StepID{Order: 1, Template: "RebootTemplate/soft"},
	}
	g.Expect(OfHistory(&history)).To(Equal(Notes{
		remedyv1.AttemptsAnnotation: "2", remedyv1.NotBeforeAnnotation: "2026-03-14T12:00:01.5Z",
		remedyv1.TriedAnnotation: "1 RebootTemplate/soft",
	}))
	g.Expect(OfReplacing([]remediation.Replacement{
		{Target: "m-1", Owner: "MachineSet/a", GoneSince: noon},
		{Target: "m-2", Owner: "MachineSet/a"},
	})).To(Equal(Notes{
		remedyv1.ReplacingAnnotation: "m-1 MachineSet/a 2026-03-14T12:00:00Z,m-2 MachineSet/a",
	}))
}

// Users and other programs can write anything.
func TestNotes_InvalidValue_CountsAsAbsent(t *testing.T) {
	g := NewWithT(t)
	broken := map[string]string{
		remedyv1.AttemptsAnnotation: "-1", remedyv1.NotBeforeAnnotation: "tomorrow", remedyv1.TriedAnnotation: "first",
		remedyv1.NodeGoneSinceAnnotation: "12:00", remedyv1.CooldownSinceAnnotation: "2026-03-14T12:00:00Z",
		remedyv1.ReplacingAnnotation: "m-1,,m-2 a b c d, x",
	}
	g.Expect(History(broken)).To(BeZero())
	g.Expect(NodeGoneSince(broken)).To(BeZero())
	g.Expect(Storm(broken)).To(BeZero(), "a cool-down without a storm is none")
	g.Expect(Replacing(broken)).To(BeEmpty())
	g.Expect(Time("0000-01-01T00:00:00+14:00")).To(BeZero(), "no API server accepts it in a status")
}

// The number of the next attempt is one higher, and must be read again from its request.
func TestNotes_MaximumOfAttempts_DoesNotOverflow(t *testing.T) {
	g := NewWithT(t)
	for attempts, failures := range map[string]int{
		"1073741823": 1<<30 - 1, "1073741824": 0, "9223372036854775807": 0, "9223372036854775808": 0,
	} {
		g.Expect(History(map[string]string{remedyv1.AttemptsAnnotation: attempts}).Failures).To(Equal(failures), attempts)
	}
}

// Users can write as many entries as fit into an annotation.
func TestNotes_LongAnnotation_HasLimits(t *testing.T) {
	g := NewWithT(t)
	kinds, replacing := make([]string, 0, 500), make([]string, 0, 500)
	for i := range 500 {
		kinds = append(kinds, fmt.Sprintf("Kind%d.v1.example.com", i))
		replacing = append(replacing, fmt.Sprintf("m-%d MachineSet/a", i))
	}
	long := map[string]string{
		remedyv1.RequestKindsAnnotation: strings.Join(kinds, ","), remedyv1.ReplacingAnnotation: strings.Join(replacing, ","),
	}
	g.Expect(RequestKinds(long)).To(HaveLen(MaxRequestKinds))
	g.Expect(HasMoreRequestKinds(long)).To(BeTrue())
	g.Expect(Replacing(long)).To(HaveLen(remediation.HighestMaxInFlight))
	full := OfRequestKinds(append(RequestKinds(long), RequestKind{}))
	g.Expect(RequestKinds(full)).To(Equal(RequestKinds(long)))
	g.Expect(HasMoreRequestKinds(full)).To(BeFalse())
}

func FuzzNotes(f *testing.F) {
	f.Add("1", "2026-03-14T12:00:00Z", "1 RebootTemplate/soft", "m-1 MachineSet/a 2026-03-14T12:00:00Z,m-2 MachineSet/a")
	f.Fuzz(func(t *testing.T, attempts, when, tried, replacing string) {
		annotations := map[string]string{
			remedyv1.AttemptsAnnotation: attempts, remedyv1.NotBeforeAnnotation: when, remedyv1.TriedAnnotation: tried,
			remedyv1.ReplacingAnnotation: replacing,
		}
		l, all := History(annotations), Replacing(annotations)
		if l.Failures < 0 {
			t.Fatal("a negative number of failures")
		}
		// What was read can be noted down, and is the same then.
		if again := History(OfHistory(&l)); again != l {
			t.Fatalf("%+v becomes %+v", l, again)
		}
		if again := Replacing(OfReplacing(all)); fmt.Sprint(again) != fmt.Sprint(all) {
			t.Fatalf("%v becomes %v", all, again)
		}
	})
}

// The API server takes annotations of 256 KiB altogether.
func TestNotes_MostReplacements_FitIntoAnnotations(t *testing.T) {
	longest := strings.Repeat("m", 253)
	all := make([]remediation.Replacement, remediation.HighestMaxInFlight)
	for i := range all {
		all[i] = remediation.Replacement{
			Target: longest, Owner: "MachineSet/" + longest,
			GoneSince: time.Date(2026, time.March, 14, 12, 0, 0, 123e6, time.UTC),
		}
	}
	NewWithT(t).Expect(len(OfReplacing(all)[remedyv1.ReplacingAnnotation])).To(BeNumerically("<", 220*1024))
}
