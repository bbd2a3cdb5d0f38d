// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// metal3 is in the templates of Metal3Remediations. If their Machine is replaced meanwhile, the host keeps what they have set, and the next
// Machine can get that host.
const metal3 = "Metal3RemediationTemplate"

// hostAdvice is what a person does about a host that its remediator has left.
const hostAdvice = ". The next Machine may get the same BareMetalHost: set the annotation capm3.metal3.io/unhealthy on it, " +
	"and remove its reboot annotation and the finalizer of the request"

// keptMessage names the targets whose requests finalizers keep, and what their remediators have left on hosts.
func keptMessage(p *Evaluation) string {
	const prefix = "Finalizers keep deleted requests for these targets: "
	advice := ""
	kept := slices.Clone(p.Planned.Kept)
	for i, name := range kept {
		if host := hostOf(p, name); host != "" {
			kept[i], advice = name+" ("+host+")", hostAdvice
		}
	}
	return prefix + names(kept, MaxMessage-len(prefix)-len(advice)) + advice
}

// hostOf names the host of a target, and the annotation that its remediator has set on it; empty if the remediator is not that of Metal3.
func hostOf(p *Evaluation, name string) string {
	request, machine := requestOf(p, name)
	if request == nil || !strings.Contains(request.Step.Template, metal3) {
		return ""
	}
	host := "BareMetalHost"
	if machine != nil {
		// The provider ID is metal3://namespace/host/uid, or only has a UID.
		if path, is := strings.CutPrefix(machine.ProviderID, "metal3://"); is && strings.Count(path, "/") == 2 {
			host += " " + path[:strings.LastIndex(path, "/")]
		}
	}
	return sanitized(fmt.Sprintf("%s with the annotation reboot.metal3.io/metal3-remediation-%s", host, request.UID))
}

// notActing are the targets to whose requests remediators have written nothing, with the times of the requests.
func notActing(p *Evaluation) []string {
	targets := make([]string, 0, len(p.Planned.NotActing))
	for _, name := range p.Planned.NotActing {
		if request, _ := requestOf(p, name); request != nil {
			name += " (created" + when("at", request.Started) + ")"
		}
		targets = append(targets, name)
	}
	return targets
}

// requestOf is the request of a target, and its Machine if it still exists.
func requestOf(p *Evaluation, name string) (*remediation.Request, *health.MachineFacts) {
	for i := range p.Situation.Targets {
		if t := &p.Situation.Targets[i]; t.Name == name && t.Request != nil {
			return t.Request, p.Snapshot.Targets[i].Machine
		}
	}
	for i := range p.Situation.Orphans {
		if o := &p.Situation.Orphans[i]; o.Name == name && o.Request != nil {
			return o.Request, nil
		}
	}
	return nil, nil
}
