// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
)

const (
	// nodePage is how many Nodes or VolumeAttachments are read at the same time.
	nodePage = 250
	// sharedFor is how long the Nodes that were read for one fence keep others waiting.
	sharedFor = 10 * time.Second
)

// nodeCounts are what the limits need of the Nodes of a cluster. It is locked while they are evaluated for a fence.
type nodeCounts struct {
	sync.Mutex
	readAt time.Time
	nodes  []countedNode
}

type countedNode struct {
	name, fence         string
	ready, controlPlane bool
}

// observe counts the Nodes of the cluster. Many fences can wait for the same limit, so Nodes that were read for another one suffice to
// keep a fence waiting. None begins without reading them live.
func (c *nodeCounts) observe(ctx context.Context, o *observed, now time.Time) {
	if now.Sub(c.readAt) < sharedFor {
		o.Cluster = c.count(o)
		if o.Blocked() {
			return
		}
	}
	o.Cluster = nil
	if !c.read(ctx, o.nodes) {
		o.Unreadable = "the Nodes of the cluster cannot be read"
		c.readAt = time.Time{}
		return
	}
	c.readAt, o.Cluster = now, c.count(o)
}

// read reports whether the Nodes could be read.
func (c *nodeCounts) read(ctx context.Context, nodes client.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	c.nodes = nil
	return eachPage(ctx, nodes, func(page *corev1.NodeList) {
		for i := range page.Items {
			facts := nodeFacts(&page.Items[i], "")
			c.nodes = append(c.nodes, countedNode{
				name: facts.Name, fence: facts.Fence, ready: facts.Ready == corev1.ConditionTrue, controlPlane: facts.ControlPlane,
			})
		}
	}, client.Limit(nodePage)) == nil
}

// count counts the Nodes for a fence.
func (c *nodeCounts) count(o *observed) *lifecycle.Cluster {
	counted := &lifecycle.Cluster{Nodes: len(c.nodes)}
	for _, node := range c.nodes {
		if !node.ready {
			counted.NotReady++
		}
		if node.name == o.Node.Name {
			continue
		}
		if node.fence != "" {
			counted.Fenced++
			if node.fence < string(o.UID) {
				counted.FencedBefore++
			}
		}
		if node.controlPlane {
			counted.OtherControlPlane++
			if !node.ready || node.fence != "" {
				counted.UnavailableControlPlane++
			}
		}
	}
	return counted
}
