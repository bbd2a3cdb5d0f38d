// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

// eventsIn are the events of a watch in protobuf or JSON.
func eventsIn(protobuf bool, source io.Reader) *limitedEvents {
	events := &limitedEvents{
		body: io.NopCloser(source), source: bufio.NewReader(source), limits: &watchLimits{updates: newUpdateLimiter()}, ctx: context.Background(), nodes: map[string]int{},
	}
	if events.read = events.inJSON; protobuf {
		events.read = events.inProtobuf
	}
	return events
}

func trimmerOf(next http.RoundTripper) nodeTrimmer {
	return nodeTrimmer{answerLimit{next, allMemory.ofNamespace().ofCluster()}, &watchLimits{updates: newUpdateLimiter()}}
}

// The events of a watch arrive in pieces of any size, and one after the other.
func TestWatch_AnyPieces_AreWholeEvents(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all, trimmed [20][]byte
	for i := range all {
		event := eventOf(g, watch.Modified, drawNode(int64(i)))
		all[i], trimmed[i] = framed(event), framed(TrimEvent(event))
	}
	stream, expected := slices.Concat(all[:]...), slices.Concat(trimmed[:]...)
	for name, source := range map[string]io.Reader{
		"at once": bytes.NewReader(stream), "byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
		"with an error at the end": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		read, err := io.ReadAll(iotest.HalfReader(eventsIn(true, source)))
		g.Expect(err).ToNot(HaveOccurred(), name)
		g.Expect(read).To(Equal(expected), name)
	}
	for cut := range 40 {
		_, err := io.ReadAll(eventsIn(true, bytes.NewReader(stream[:len(stream)-1-cut])))
		g.Expect(err).To(MatchError(io.ErrUnexpectedEOF))
	}
}

// An event of any length is not read into memory.
func TestWatch_TooLong_IsRejected(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, err := io.ReadAll(eventsIn(true, bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff})))
	g.Expect(err).To(MatchError(errTooLargeUpdate))
	announced := eventsIn(true, bytes.NewReader(binary.BigEndian.AppendUint32(nil, maxWatchEvent)))
	_, err = io.ReadAll(announced)
	g.Expect(err).To(MatchError(io.ErrUnexpectedEOF))
	g.Expect(announced.event.Cap()).To(BeNumerically("<", 4096))
}

// answers is a transport with one answer.
type answers http.Response

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	response := http.Response(*a)
	return &response, nil
}

// A watch follows no redirect, and an answer that is no protobuf is left to the client.
func TestNodeTrimmer_OtherAnswers_AreNotTrimmed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	request := httptest.NewRequest(http.MethodGet, "/api/v1/nodes?watch=true", nil)
	body := func() io.ReadCloser { return io.NopCloser(strings.NewReader("{}")) }
	moved := &answers{StatusCode: http.StatusFound, Header: http.Header{"Location": {"https://other.invalid"}}, Body: body()}
	_, err := trimmerOf(moved).RoundTrip(request) //nolint:bodyclose // There is no response.
	g.Expect(err).To(MatchError(errRedirected))
	for kind, code := range map[string]int{
		"application/json": http.StatusOK, "": http.StatusNotFound, "application/vnd.kubernetes.protobuf": http.StatusTooManyRequests,
	} {
		response, err := trimmerOf(&answers{StatusCode: code, Header: http.Header{"Content-Type": {kind}}, Body: body()}).RoundTrip(request)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo("{}"))
		g.Expect(response.Body.Close()).To(Succeed())
	}
	other := trimmerOf(&answers{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/yaml"}}, Body: body()})
	_, err = other.RoundTrip(request) //nolint:bodyclose // There is no response.
	g.Expect(ReadErrorReasonOf(err)).To(Equal(Failing))
	endless := trimmerOf(&answers{StatusCode: http.StatusOK, Body: io.NopCloser(neverEnding('x'))})
	_, err = endless.RoundTrip(httptest.NewRequest(http.MethodGet, "/api/v1/nodes", nil)) //nolint:bodyclose // There is no response.
	g.Expect(err).To(MatchError(errTooLarge))
}

// neverEnding is a stream of one byte without an end.
type neverEnding byte

// Read implements io.Reader.
func (b neverEnding) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = byte(b)
	}
	return len(into), nil
}

// In JSON, an event ends with its last bracket. One that is too long, or has too many values, is not read to its end.
func TestWatch_InJSON_HasLimits(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	stream := `{"type":"ADDED","object":{"metadata":{"name":"a}]"}}}` + "\n" + `{"type":"MODIFIED","object":{}}{"type":"DELETED"}` + "\n"
	read, err := io.ReadAll(eventsIn(false, iotest.OneByteReader(strings.NewReader(stream))))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(read)).To(Equal(strings.TrimSuffix(stream, "\n")))
	_, err = io.ReadAll(eventsIn(false, strings.NewReader(stream[:20])))
	g.Expect(err).To(MatchError(io.ErrUnexpectedEOF))
	for name, endless := range map[string]string{"a text": strings.Repeat("x", 100), "values": `",{},{},"`, "brackets": `",[[[[[["`} {
		source := io.MultiReader(strings.NewReader(`{"type":"ADDED","object":{"a":["`), &repeated{text: endless})
		_, err := io.ReadAll(eventsIn(false, source))
		g.Expect(err).To(MatchError(errTooLargeUpdate), name)
	}
}

// An API server that sends only JSON is read, too: what counts is what is kept of its Nodes. A bookmark has an annotation that a client needs.
func TestWatch_LargeClusterInJSON_IsStripped(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	whole := kubeletNode(1)
	for i := range 50 {
		whole.Status.Images = append(whole.Status.Images, corev1.ContainerImage{Names: []string{strings.Repeat("x", 400+i)}})
	}
	object, err := json.Marshal(whole)
	g.Expect(err).ToNot(HaveOccurred())
	bookmark := `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	const nodes, largest = 50, 5000
	var source bytes.Buffer
	for i := range nodes {
		name := fmt.Appendf(nil, "production-workers-7f9c8-%06d", i)
		_, _ = fmt.Fprintf(&source, `{"type":"ADDED","object":%s}`, bytes.ReplaceAll(object, []byte(whole.Name), name))
	}
	g.Expect(source.Len() * largest / nodes).To(BeNumerically(">", maxKept))
	source.WriteString(bookmark)
	events := eventsIn(false, &source)
	delivered := json.NewDecoder(events)
	for range nodes {
		event := struct{ Object *corev1.Node }{}
		g.Expect(delivered.Decode(&event)).To(Succeed())
		g.Expect(event.Object.Status.Images).To(BeEmpty())
	}
	g.Expect(events.kept * largest / nodes).To(BeNumerically("<", maxKept/2))
	var last json.RawMessage
	g.Expect(delivered.Decode(&last)).To(Succeed())
	g.Expect(string(last)).To(Equal(bookmark))
}

// What is kept of a Node in JSON is what is kept of it in protobuf.
func TestStripEvent_AnyNode_KeepsWhatStripKeeps(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for i := range 50 {
		whole := drawNode(int64(i))
		event, err := json.Marshal(map[string]any{"type": "MODIFIED", "object": whole})
		g.Expect(err).ToNot(HaveOccurred())
		stripped, name := stripEvent(event)
		g.Expect(name).To(Equal(whole.Name))
		var before, after struct{ Object corev1.Node }
		g.Expect(json.Unmarshal(event, &before)).To(Succeed())
		g.Expect(json.Unmarshal(stripped, &after)).To(Succeed())
		g.Expect(equality.Semantic.DeepEqual(Strip(&after.Object), Strip(&before.Object))).To(BeTrue())
	}
}

// repeated is a stream without an end.
type repeated struct {
	text string
	at   int
}

// Read implements io.Reader.
func (r *repeated) Read(into []byte) (int, error) {
	n := copy(into, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// A watch delivers at most 20,000 Nodes, and the cache ends with it: without a limit, Nodes are added until memory is full. Updates of the
// same Nodes are no new ones.
func TestWatch_TooManyNodes_EndsTheCache(t *testing.T) {
	t.Parallel()
	for _, protobuf := range []bool{true, false} {
		g := NewWithT(t)
		event := func(name string) []byte {
			if protobuf {
				return framed(eventOf(g, watch.Added, &corev1.Node{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name},
				}))
			}
			return fmt.Appendf(nil, `{"type":"ADDED","object":{"metadata":{"name":%q}}}`, name)
		}
		var all bytes.Buffer
		for i := range maxItems {
			all.Write(event(fmt.Sprint("node-", i)))
		}
		all.Write(event("node-0"))
		events := eventsIn(protobuf, io.MultiReader(&all, bytes.NewReader(event("one-more"))))
		cache := newNodeCache(transitions{clock.RealClock{}, ClockTolerance})
		events.limits.nodes.Store(cache)
		_, err := io.ReadAll(events)
		g.Expect(err).To(MatchError(errTooManyNodes))
		g.Expect(all.Len()).To(BeZero())
		g.Expect(cache.closed).To(BeClosed())
		g.Expect(cache.overflowed()).To(BeTrue())
	}
}

// The Nodes of the largest cluster are delivered at once, and then 1,000 updates a second.
func TestWatch_ManyUpdates_AreSlowedDown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	update := framed(eventOf(g, watch.Modified, node("a", "")))
	events := eventsIn(true, bytes.NewReader(bytes.Repeat(update, maxItems+300)))
	begin := time.Now()
	_, err := io.ReadAll(events)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(time.Since(begin)).To(BeNumerically(">", 200*time.Millisecond))
}

// A cache that one connection fills with too many Nodes ends, and reads report why.
func TestNodeCache_TooManyNodes_IsReported(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := newBench(t, node("a", ""))
	g.Expect(b.read(t, Target{Name: "a"})[0].Err).ToNot(HaveOccurred())
	cache := b.stateOf(prod).currentNodes()
	heavy := node("b", "")
	heavy.Annotations = map[string]string{"a": strings.Repeat("x", maxKept/2)}
	cache.put(heavy)
	cache.put(heavy)
	g.Expect(cache.overflowed()).To(BeFalse(), "the same Node counts once")
	other := heavy.DeepCopy()
	other.Name = "c"
	cache.put(other)
	g.Expect(cache.closed).To(BeClosed())
	g.Expect(b.read(t, Target{Name: "a"})[0].Err).To(MatchError(errTooManyNodes))
	_, err := b.Get(prod).Nodes(t.Context())
	g.Expect(err).To(MatchError(errTooManyNodes))
	g.Expect(cache.retryDue(b.clock.Now())).To(BeFalse())
	g.Expect(cache.retryDue(b.clock.Now().Add(maxRetryDelay))).To(BeTrue())
}
