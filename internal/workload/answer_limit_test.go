// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listOf is a list of Nodes as an API server sends it.
func listOf(items ...corev1.Node) *corev1.NodeList {
	return &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: items}
}

// Both formats have the same objects, in pieces of any size.
func TestSize_OfList_CountsItsObjects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	list := listOf(*kubeletNode(1), *kubeletNode(2), corev1.Node{})
	inJSON, err := json.Marshal(list)
	g.Expect(err).ToNot(HaveOccurred())
	for _, length := range []int{1, 7, len(inJSON)} {
		var found size
		counter := jsonCounter{size: &found}
		for left := inJSON; len(left) > 0; {
			n := min(length, len(left))
			counter.add(left[:n])
			left = left[n:]
		}
		g.Expect(found.items).To(Equal(3))
		g.Expect(found.values).To(BeNumerically("~", 700, 200))
		g.Expect(counter.documents).To(Equal(1))
	}
	found := sizeOfProtobuf(encoded(g, list))
	// The kind in the type counts as one.
	g.Expect(found.items).To(Equal(4))
	g.Expect(found.values).To(BeNumerically("~", 1000, 300))
}

// A trimmed list decodes to what is kept of the whole list.
func TestTrim_List_KeepsWhatStripKeeps(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	list := listOf(*kubeletNode(1), *drawNode(2), corev1.Node{})
	list.ResourceVersion, list.Continue = "7", "more"
	whole := encoded(g, list)
	trimmed := trimList(whole)
	g.Expect(len(trimmed)).To(BeNumerically("<", len(whole)/2))
	decode := func(answer []byte) *corev1.NodeList {
		var unknown runtime.Unknown
		g.Expect(unknown.Unmarshal(answer[len(protobufMagic):])).To(Succeed())
		decoded := &corev1.NodeList{}
		g.Expect(decoded.Unmarshal(unknown.Raw)).To(Succeed())
		for i := range decoded.Items {
			decoded.Items[i] = *Strip(&decoded.Items[i])
		}
		return decoded
	}
	g.Expect(decode(trimmed)).To(Equal(decode(whole)))
	g.Expect(decode(trimmed).Continue).To(Equal("more"))
}

// wireList is a list in protobuf whose items have this content.
func wireList(kind string, count int, item []byte) []byte {
	raw := bytes.Repeat(append([]byte{2<<3 | 2, byte(len(item))}, item...), count)
	content, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte(protobufMagic), content...)
}

// hostileAnswers are answers to reads, and why they are not decoded.
var hostileAnswers = []struct {
	name, path, kind string
	body             func() io.Reader
	err              error
}{
	{"objects in JSON", "/api/v1/nodes", "application/json", func() io.Reader {
		return io.MultiReader(strings.NewReader(`{"items":[{}`), &repeated{text: ",{}"})
	}, errTooManyItems},
	{"nulls in JSON", "/api/v1/nodes", "application/json", func() io.Reader {
		return io.MultiReader(strings.NewReader(`{"items":[null`), &repeated{text: ",null"})
	}, errTooManyItems},
	{"values in JSON", "/api/v1/nodes", "application/json", func() io.Reader {
		return io.MultiReader(strings.NewReader(`{"items":[{"status":{"conditions":[{}`), &repeated{text: ",{}"})
	}, errTooManyValues},
	{"brackets", "/api/v1/nodes", "application/json", func() io.Reader { return &repeated{text: "["} }, errTooManyValues},
	{"a text", "/api/v1/nodes/a", "application/json", func() io.Reader { return io.MultiReader(strings.NewReader(`"`), &repeated{text: "x"}) }, errTooLarge},
	{"containers of Pods", "/api/v1/namespaces/kube-system/pods", "application/json", func() io.Reader {
		return strings.NewReader(`{"items":[{"spec":{"containers":[{}` + strings.Repeat(",{}", 60_000) + "]}}]}")
	}, errTooMuchMemory},
	{"objects in protobuf", "/api/v1/nodes", runtime.ContentTypeProtobuf, func() io.Reader {
		return bytes.NewReader(wireList("NodeList", maxItems+1, nil))
	}, errTooManyItems},
	{"conditions in protobuf", "/api/v1/nodes", runtime.ContentTypeProtobuf, func() io.Reader {
		return bytes.NewReader(wireList("NodeList", 15_000, append([]byte{3<<3 | 2, 120}, bytes.Repeat([]byte{4<<3 | 2, 0}, 60)...)))
	}, errTooManyValues},
	{"a field that only clients accept", "/api/v1/nodes", runtime.ContentTypeProtobuf, func() io.Reader {
		// The number of the field is 2 in 32 bits.
		raw := bytes.Repeat([]byte{2<<3 | 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, 1)
		odd := []byte{2<<3 | 2 | 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0}
		content, _ := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "NodeList"}, Raw: append(raw, bytes.Repeat(odd, maxItems+1)...)}).Marshal()
		return bytes.NewReader(append([]byte(protobufMagic), content...))
	}, errTooManyItems},
}

// What an answer contains is counted before it is decoded, and the error names the limit.
func TestAnswer_AboveALimit_IsNotDecoded(t *testing.T) {
	t.Parallel()
	for _, hostile := range hostileAnswers {
		t.Run(hostile.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			transport := answerLimit{&answers{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {hostile.kind}}, Body: io.NopCloser(hostile.body()),
			}, allMemory.ofNamespace().ofCluster()}
			ctx, release := holdMemory(t.Context())
			defer release()
			request := httptest.NewRequestWithContext(ctx, http.MethodGet, hostile.path, nil)
			_, err := transport.RoundTrip(request) //nolint:bodyclose // There is no response.
			g.Expect(err).To(MatchError(hostile.err))
		})
	}
}

// A client would decode YAML, whose aliases make a large object of a small answer.
func TestAnswer_OtherFormat_IsNotDecoded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for kind, passed := range map[string]string{
		"application/yaml": "text/plain", "application/cbor": "text/plain", "text/html; charset=utf-8": "text/plain", "a;;": "text/plain",
		"application/json; charset=utf-8": "application/json; charset=utf-8", "": "",
	} {
		response, err := answerLimit{&answers{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader("a: b")),
		}, allMemory.ofNamespace().ofCluster()}.RoundTrip(httptest.NewRequest(http.MethodGet, "/api/v1/nodes/a", nil))
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(response.Header.Get("Content-Type")).To(Equal(passed))
		g.Expect(response.Body.Close()).To(Succeed())
	}
}

// Decoded answers of the clusters of one namespace wait for each other, and those of another namespace do not wait for them. They take their
// memory until the caller has decoded them.
func TestAnswer_LargeOnes_ShareMemory(t *testing.T) {
	g := NewWithT(t)
	large := `{"items":[{"a":[0` + strings.Repeat(",0", 60_000) + "]}]}"
	read := func(ctx context.Context, share answerMemory) error {
		response, err := answerLimit{&answers{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(large))}, share}.
			RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods", nil))
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	tenant := allMemory.ofNamespace()
	one, second := tenant.ofCluster(), tenant.ofCluster()
	ctx, release := holdMemory(t.Context())
	g.Expect(read(ctx, one)).To(Succeed())
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	waiting, done := holdMemory(brief)
	defer done()
	g.Expect(read(waiting, second)).To(MatchError(context.DeadlineExceeded))
	whole := large
	large = "ok"
	g.Expect(read(t.Context(), one)).To(Succeed(), "a probe does not wait")
	large = whole
	other, end := holdMemory(t.Context())
	g.Expect(read(other, allMemory.ofNamespace().ofCluster())).To(Succeed())
	end()
	release()
	again, done := holdMemory(t.Context())
	defer done()
	g.Expect(read(again, one)).To(Succeed())
}

// slowBody sends more than a small answer, and then nothing until it is closed.
func slowBody() io.ReadCloser {
	body, end := io.Pipe()
	go func() { _, _ = end.Write(append([]byte(`"`), bytes.Repeat([]byte("x"), smallAnswer)...)) }()
	return body
}

// All clusters of a tenant send a large answer that does not end. The clusters of other tenants are read meanwhile.
func TestAnswer_SlowLargeOnes_LeaveOthersTheirShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		all := newAnswerMemory(maxLargeAnswers, maxMemory)
		read := func(share answerMemory, body io.ReadCloser) (time.Duration, error) {
			begin := time.Now()
			ctx, release := holdMemory(t.Context())
			defer release()
			response, err := answerLimit{&answers{StatusCode: http.StatusOK, Body: body}, share}.
				RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/nodes", nil))
			if err == nil {
				err = response.Body.Close()
			}
			return time.Since(begin), err
		}
		tenant := all.ofNamespace()
		var slow sync.WaitGroup
		for range 12 {
			slow.Go(func() {
				_, err := read(tenant.ofCluster(), slowBody())
				g.Expect(err).To(HaveOccurred())
			})
		}
		synctest.Wait()
		took, err := read(all.ofNamespace().ofCluster(), io.NopCloser(strings.NewReader(`"`+strings.Repeat("x", 2*smallAnswer)+`"`)))
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(took).To(BeZero())
		slow.Wait()
	})
}

// pagesOf is an API server that returns these pages, and then the last one again.
type pagesOf struct {
	client.Client
	pages []corev1.NodeList
	asked []client.ListOptions
}

// List implements client.Reader.
func (p *pagesOf) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	p.asked = append(p.asked, asked)
	p.pages[min(len(p.asked), len(p.pages))-1].DeepCopyInto(list.(*corev1.NodeList))
	return nil
}

func page(version, next string, names ...string) corev1.NodeList {
	list := corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next}}
	for _, name := range names {
		list.Items = append(list.Items, *node(name, "id://"+name))
	}
	return list
}

// A list is read in pages of one state of the cluster. Pages of another state, or without an end, are not.
func TestFetchPages_AnyPages_HaveLimits(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := &pagesOf{pages: []corev1.NodeList{page("7", "more", "a", "b"), page("7", "", "c")}}
	list, err := fetchNodes(t.Context(), api)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(list.byName).To(And(HaveLen(3), HaveKey("c")))
	g.Expect(api.asked).To(HaveEach(HaveField("Limit", BeEquivalentTo(250))))
	g.Expect(api.asked[1].Continue).To(Equal("more"))
	many := make([]string, 500)
	for i := range many {
		many[i] = fmt.Sprint("node-", i)
	}
	for name, hostile := range map[string]struct {
		pages []corev1.NodeList
		err   error
	}{
		"another state":       {[]corev1.NodeList{page("7", "more", "a"), page("8", "", "b")}, &ReadError{Reason: Failing}},
		"no state":            {[]corev1.NodeList{page("", "", "a")}, &ReadError{Reason: Failing}},
		"empty pages":         {[]corev1.NodeList{page("7", "more")}, &ReadError{Reason: Failing}},
		"pages without end":   {[]corev1.NodeList{page("7", "more", many...)}, errTooManyItems},
		"too much to be kept": {[]corev1.NodeList{page("7", "more", many...), heavyPage()}, errTooManyNodes},
	} {
		_, err := fetchNodes(t.Context(), &pagesOf{pages: hostile.pages})
		g.Expect(err).To(MatchError(hostile.err), name)
	}
}

// A page that is too large is read in halves, and the next ones are as small.
func TestFetchPages_TooLargePage_IsReadInHalves(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := &tooLargePages{most: 70, pagesOf: pagesOf{pages: []corev1.NodeList{page("7", "more", "a"), page("7", "", "b")}}}
	list, err := fetchNodes(t.Context(), api)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(list.byName).To(HaveLen(2))
	g.Expect(api.limits).To(Equal([]int64{250, 125, 62, 62}))
	api = &tooLargePages{most: 10}
	_, err = fetchNodes(t.Context(), api)
	g.Expect(err).To(MatchError(errTooLarge))
	g.Expect(api.limits).To(Equal([]int64{250, 125, 62, 31}))
}

// tooLargePages is an API server whose pages with more objects are too large.
type tooLargePages struct {
	pagesOf
	most   int64
	limits []int64
}

// List implements client.Reader.
func (p *tooLargePages) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	if p.limits = append(p.limits, asked.Limit); asked.Limit > p.most {
		return &url.Error{Op: "Get", URL: "https://prod", Err: errTooLarge}
	}
	return p.pagesOf.List(ctx, list, options...)
}

// The memory of Nodes is limited, and not only their size: many small labels and conditions need ten times as much.
func TestMemoryOf_DenseNode_CountsEachEntry(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dense := node("a", "")
	dense.Labels = map[string]string{}
	for i := range 60 {
		dense.Labels[fmt.Sprint("l", i)] = ""
	}
	dense.Status.Conditions = make([]corev1.NodeCondition, 64)
	g.Expect(memoryOf(Strip(dense))).To(BeNumerically(">", 12<<10))
	g.Expect(maxKept/memoryOf(Strip(kubeletNode(1)))).To(BeNumerically(">", 15_000), "real Nodes of the largest clusters are kept")
}

// heavyPage is a page of Nodes with large labels, which leads to itself.
func heavyPage() corev1.NodeList {
	heavy := page("7", "more", "a")
	heavy.Items[0].Labels = map[string]string{}
	for i := range maxPairs {
		heavy.Items[0].Labels[fmt.Sprint(i)] = strings.Repeat("x", maxValue)
	}
	return heavy
}
