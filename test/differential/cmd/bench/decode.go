// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// benchmarkDecode measures what the update of a Node costs before anything is decided, in both encodings of an API server. In protobuf,
// Remedy removes what checks do not read before it decodes the Node; the in-tree reconciler's cache decodes all of it. Both decode with
// client-go, as does Remedy in JSON.
func benchmarkDecode(_ context.Context, b *bench, s *system) {
	codecs := serializer.NewCodecFactory(clientgoscheme.Scheme)
	for _, mediaType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		name := "JSON"
		if mediaType == runtime.ContentTypeProtobuf {
			name = "protobuf"
		}
		info, known := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
		if !known {
			succeed(fmt.Errorf("client-go does not support %s", mediaType))
		}
		content := must(runtime.Encode(codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), newNode("node-1", thousand.images)))
		update := content
		if mediaType == runtime.ContentTypeProtobuf {
			update = must((&metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: content}}).Marshal())
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
		succeed(failure)
		b.results.add(name+": µs/update", float64(result.T.Microseconds())/float64(result.N))
		b.results.add(name+": allocated bytes/update", float64(result.AllocedBytesPerOp()))
		b.results.add(name+": sent bytes/update", float64(len(content)))
	}
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

// newNode is a healthy Node with what a kubelet reports. With 47 images it has 13 KB in JSON.
func newNode(name string, images int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/region": "region-1", "topology.kubernetes.io/zone": "region-1a",
	}, Annotations: map[string]string{
		"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true",
		"csi.volume.kubernetes.io/nodeid":        `{"ebs.csi.test":"i-0123456789abcdef0"}`,
		"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock",
		"cluster.x-k8s.io/cluster-name":          "cluster-0",
		"cluster.x-k8s.io/labels-from-machine":   "",
		"network.test/tunnel-address":            "10.0.0.1/24",
	}}}
	node.Spec.ProviderID = "bench:///" + name
	node.Spec.PodCIDRs = []string{"192.168.1.0/24"}
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("7934772Ki"),
		corev1.ResourcePods:             resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("83873772Ki"),
		"hugepages-1Gi":                 resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"),
	}
	node.Status.Capacity, node.Status.Allocatable = resources, resources
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
		{Type: corev1.NodeHostName, Address: name},
		{Type: corev1.NodeInternalDNS, Address: name},
	}
	node.Status.NodeInfo = corev1.NodeSystemInfo{
		MachineID: "0123456789abcdef0123456789abcdef", SystemUUID: "01234567-89ab-cdef-0123-456789abcdef",
		BootID: "01234567-89ab-cdef-0123-456789abcdef", KernelVersion: "6.12.0-1-cloud-amd64", OSImage: "Debian GNU/Linux 13 (trixie)",
		ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
	}
	for i := range images {
		image := fmt.Sprintf("registry.test/team-of-platform/production/application-%d", i)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{SizeBytes: 123456789, Names: []string{
			fmt.Sprintf("%s@sha256:%064d", image, i), fmt.Sprintf("%s:v1.2.%d", image, i),
		}})
	}
	node.Status.Conditions = conditionsOf(corev1.ConditionTrue, time.Now().Add(-time.Hour))
	return node
}
