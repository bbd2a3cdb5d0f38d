// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// benchmarkDecode measures what the update of a Node costs before anything is decided, in both encodings of an API server. In protobuf,
// Remedy removes what checks do not read before it decodes the Node; the in-tree reconciler's cache decodes all of it. Both decode with
// client-go, as does Remedy in JSON.
func benchmarkDecode(_ context.Context, b *bench, s *system) error {
	codecs := serializer.NewCodecFactory(clientgoscheme.Scheme)
	for name, mediaType := range map[string]string{"protobuf": runtime.ContentTypeProtobuf, "JSON": runtime.ContentTypeJSON} {
		info, known := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
		if !known {
			return fmt.Errorf("client-go does not support %s", mediaType)
		}
		content, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), newNode("node-1", thousand.images))
		if err != nil {
			return err
		}
		update := content
		if mediaType == runtime.ContentTypeProtobuf {
			if update, err = (&metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: content}}).Marshal(); err != nil {
				return err
			}
		}
		decoder := codecs.DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion)
		var failure error
		result := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				node, err := decodeUpdate(decoder, update, mediaType == runtime.ContentTypeProtobuf, s.isRemedy)
				if err != nil {
					failure = err
				} else if s.isRemedy {
					workload.Strip(node)
				}
			}
		})
		if failure != nil {
			return failure
		}
		b.results.add(name+": µs/update", float64(result.T.Microseconds())/float64(result.N))
		b.results.add(name+": allocated bytes/update", float64(result.AllocedBytesPerOp()))
		b.results.add(name+": sent bytes/update", float64(len(content)))
	}
	return nil
}

// decodeUpdate decodes a watch event in protobuf, or a Node in JSON.
func decodeUpdate(decoder runtime.Decoder, update []byte, isEvent, trimmed bool) (*corev1.Node, error) {
	node := &corev1.Node{}
	if isEvent {
		if trimmed {
			update = workload.TrimEvent(update)
		}
		event := &metav1.WatchEvent{}
		if err := event.Unmarshal(update); err != nil {
			return nil, err
		}
		update = event.Object.Raw
	}
	_, _, err := decoder.Decode(update, nil, node)
	return node, err
}

// newNode is a healthy Node with what a kubelet reports.
func newNode(name string, images int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m5.large",
	}}}
	node.Spec.ProviderID = "bench:///" + name
	for i := range images {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{SizeBytes: 123456789, Names: []string{
			fmt.Sprintf("registry.test/team/application-%d@sha256:%064d", i, i), fmt.Sprintf("registry.test/team/application-%d:v1.2.%d", i, i),
		}})
	}
	node.Status.Conditions = conditionsOf(corev1.ConditionTrue, time.Now().Add(-time.Hour))
	return node
}
