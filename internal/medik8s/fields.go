// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package medik8s

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// The limits of the API of Remedy.
const (
	maxDuration      = 8760 * time.Hour
	maxConditions    = 32
	maxSteps         = 10
	maxOrder         = 1000
	minTimeout       = time.Minute
	maxTargets       = 1_000_000
	maxPauseRequests = 32
	maxPauseLength   = 256
)

// defaultDuration is how long a Node must be NotReady or Unknown, in both APIs.
const defaultDuration = 5 * time.Minute

// multipleTemplates is the annotation on a template whose kind can have several requests for one Node, in medik8s.
const multipleTemplates = "remediation.medik8s.io/multiple-templates-support"

// duration converts a duration. Remedy has milliseconds and at most a year.
func (c *conversion) duration(field string, d time.Duration) remedyv1.Duration {
	rounded := min(d.Round(time.Millisecond), maxDuration)
	if rounded != d {
		c.note("%s is %s instead of %s: Remedy has milliseconds, and at most a year", field, rounded, d)
	}
	return remedyv1.Duration{Duration: metav1.Duration{Duration: rounded}}
}

// conditions converts what makes a Node unhealthy.
func (c *conversion) conditions(from *spec) error {
	add := func(kind string, status remedyv1.ConditionStatus, d remedyv1.Duration) {
		c.Check.Spec.UnhealthyConditions = append(c.Check.Spec.UnhealthyConditions, remedyv1.LastingNodeCondition{
			Type: remedyv1.NodeConditionType(kind), Status: status, Duration: d,
		})
	}
	for _, one := range from.UnhealthyConditions {
		name := one.Type + "=" + one.Status
		same := func(other remedyv1.LastingNodeCondition) bool {
			return string(other.Type) == one.Type && string(other.Status) == one.Status
		}
		switch {
		case !slices.Contains([]string{"True", "False", "Unknown"}, one.Status):
			c.note("The unhealthy condition %s is omitted: no condition of a Node has this status", name)
		case one.Type == "Ready" && one.Status == "True":
			c.note("The unhealthy condition %s is omitted: every healthy Node has it", name)
		case slices.Contains([]string{"NotReady", "Unknown", "Unhealthy"}, one.Type):
			c.note("The unhealthy condition %s is omitted: Nodes have no condition of this type. Use Ready with the status False or Unknown", name)
		case slices.ContainsFunc(c.Check.Spec.UnhealthyConditions, same):
			c.note("The unhealthy condition %s is listed twice: the first one is kept", name)
		default:
			add(one.Type, remedyv1.ConditionStatus(one.Status), c.duration("The duration of "+name, one.Duration.Duration))
		}
	}
	c.note("A Node is unhealthy when its condition has lasted for its duration; for medik8s, when it has lasted for longer")
	if n := len(c.Check.Spec.UnhealthyConditions); n > maxConditions {
		return errors.Errorf("it has %d unhealthy conditions: keep at most %d", n, maxConditions)
	}
	if len(c.Check.Spec.UnhealthyConditions) > 0 {
		return nil
	}
	if len(from.UnhealthyConditions) > 0 {
		return errors.New("none of its unhealthy conditions can be converted: use types and statuses that Nodes have, such as Ready=Unknown")
	}
	c.note("No unhealthy conditions are set: they are the default of both, Ready False or Unknown for %s", defaultDuration)
	for _, status := range []remedyv1.ConditionStatus{"False", "Unknown"} {
		add("Ready", status, remedyv1.Duration{Duration: metav1.Duration{Duration: defaultDuration}})
	}
	return nil
}

var percentage = regexp.MustCompile(`^(100|[0-9]{1,2})%$`)

// limit converts a number or a percentage.
func (c *conversion) limit(field string, from *intstr.IntOrString) (*intstr.IntOrString, error) {
	number := int(from.IntVal)
	if from.Type == intstr.String {
		if percentage.MatchString(from.StrVal) {
			percent, err := strconv.Atoi(strings.TrimSuffix(from.StrVal, "%"))
			to := intstr.FromString(strconv.Itoa(percent) + "%")
			return &to, err
		}
		parsed, err := strconv.Atoi(from.StrVal)
		if err != nil {
			return nil, errors.Errorf("%s=%s is invalid: use a number such as 2, or a percentage such as 40%%", field, from.StrVal)
		}
		number = parsed
	}
	if number < 0 {
		return nil, errors.Errorf("%s=%d is negative", field, number)
	}
	if number > maxTargets {
		c.note("%s is %d instead of %d, the highest number of Remedy", field, maxTargets, number)
	}
	to := intstr.FromInt32(int32(min(number, maxTargets)))
	return &to, nil
}

// limits converts the limit.
func (c *conversion) limits(from *spec) (err error) {
	to := &c.Check.Spec.Limits
	switch {
	case from.MinHealthy != nil && from.MaxUnhealthy != nil:
		return errors.New("it has minHealthy and maxUnhealthy: keep one of them")
	case from.MinHealthy != nil:
		to.MinHealthy, err = c.limit("minHealthy", from.MinHealthy)
		return err
	case from.MaxUnhealthy == nil:
		least := intstr.FromString("51%")
		to.MinHealthy = &least
		c.note("Neither minHealthy nor maxUnhealthy is set: minHealthy is 51%%, the default of older versions of medik8s")
		return nil
	}
	if to.MaxUnhealthy, err = c.limit("maxUnhealthy", from.MaxUnhealthy); err != nil {
		return err
	}
	if to.MaxUnhealthy.Type == intstr.String && to.MaxUnhealthy.StrVal != "0%" && to.MaxUnhealthy.StrVal != "100%" {
		percent, _ := strconv.Atoi(strings.TrimSuffix(to.MaxUnhealthy.StrVal, "%"))
		c.note("medik8s rounds maxUnhealthy up and Remedy rounds it down: %s of 3 Nodes are %d for medik8s and %d for Remedy",
			to.MaxUnhealthy.StrVal, (3*percent+99)/100, 3*percent/100)
	}
	c.note("With maxUnhealthy, medik8s also counts Nodes that are not unhealthy for long enough yet; Remedy counts only unhealthy Nodes")
	return nil
}

// The names that the API of Remedy accepts.
var (
	templateVersion = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z]([-a-z0-9]*[a-z0-9])?$`)
	templateKind    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*Template$`)
)

// template converts a reference to a template.
func (c *conversion) template(field string, from *corev1.ObjectReference) (*remedyv1.NodeTemplateReference, error) {
	switch {
	case from.Name == "":
		return nil, errors.Errorf("%s.name is missing", field)
	case from.Namespace == "":
		return nil, errors.Errorf("%s.namespace is missing: Remedy needs the namespace of the template", field)
	case !templateVersion.MatchString(from.APIVersion):
		return nil, errors.Errorf("%s.apiVersion is %q: set a group and a version", field, from.APIVersion)
	case !templateKind.MatchString(from.Kind):
		return nil, errors.Errorf("%s.kind is %q: Remedy needs a kind that ends in Template", field, from.Kind)
	}
	c.plural(requests.Reference{APIVersion: from.APIVersion, Kind: from.Kind}.RequestKind())
	return &remedyv1.NodeTemplateReference{
		TemplateKind: remedyv1.TemplateKind{APIVersion: from.APIVersion, Kind: from.Kind, Name: from.Name}, Namespace: from.Namespace,
	}, nil
}

// irregular are the endings of kinds whose plural usually is not the kind with an s.
var irregular = regexp.MustCompile(`([^aeiou]y|s|x|z|ch|sh)$`)

// plural sets the annotation with the plural of a kind of requests. Admission needs it if the plural is not the kind with an s.
func (c *conversion) plural(request schema.GroupVersionKind) {
	if c.mapper != nil {
		mapping, err := c.mapper.RESTMapping(request.GroupKind(), request.Version)
		if err != nil {
			c.note("%s is not served in %s: install its remediator", request.Kind, request.GroupVersion())
			return
		}
		entry := request.Kind + "=" + mapping.Resource.Resource
		before := c.Check.Annotations[remedyv1.RequestPluralsAnnotation]
		if requests.Plural(before, request.Kind) != mapping.Resource.Resource {
			c.Check.Annotations = map[string]string{
				remedyv1.RequestPluralsAnnotation: strings.TrimPrefix(before+","+entry, ","),
			}
			c.note("The plural of %s is %s: the annotation %s has it", request.Kind, mapping.Resource.Resource,
				remedyv1.RequestPluralsAnnotation)
		}
		return
	}
	if irregular.MatchString(request.Kind) {
		c.note("If the plural of %s is not %s, add it to the annotation %s, as in %s=PLURAL",
			request.Kind, requests.Plural("", request.Kind), remedyv1.RequestPluralsAnnotation, request.Kind)
	}
}

// steps converts an escalation. Orders that Remedy does not have are replaced by positions.
func (c *conversion) steps(from []step) error {
	if len(from) > maxSteps {
		return errors.Errorf("it has %d steps: keep at most %d", len(from), maxSteps)
	}
	from = slices.Clone(from)
	slices.SortStableFunc(from, func(a, b step) int { return cmp.Compare(a.Order, b.Order) })
	renumber := from[0].Order < 0 || from[len(from)-1].Order > maxOrder
	if renumber {
		c.note("The orders of the steps are 1 to %d: Remedy has orders from 0 to %d", len(from), maxOrder)
	}
	kinds := map[string]bool{}
	for i := range from {
		one := &from[i]
		if i > 0 && one.Order == from[i-1].Order {
			return errors.Errorf("two steps have the order %d: give each an order of its own", one.Order)
		}
		field := "escalatingRemediations[order " + strconv.Itoa(one.Order) + "]"
		template, err := c.template(field+".remediationTemplate", &one.RemediationTemplate)
		if err != nil {
			return err
		}
		if kinds[template.Kind] {
			c.note("Two steps have templates of kind %s: medik8s requires the annotation %s on them. Remedy does not: it deletes the request of "+
				"a step before it creates the next", template.Kind, multipleTemplates)
		}
		kinds[template.Kind] = true
		order := one.Order
		if renumber {
			order = i + 1
		}
		timeout := one.Timeout.Duration
		if timeout < minTimeout {
			c.note("The timeout of %s is 1m instead of %s, because a remediator needs time to act", field, timeout)
			timeout = minTimeout
		}
		c.Check.Spec.EscalatingRemediations = append(c.Check.Spec.EscalatingRemediations, remedyv1.NodeEscalationStep{
			Order:               int32(order),
			RemediationTemplate: *template, Timeout: c.duration("The timeout of "+field, timeout),
		})
	}
	c.note("If the Node is unhealthy after the last step, medik8s stops. Remedy begins with the first one again, after a backoff")
	return nil
}

// pace converts pauses and delays.
func (c *conversion) pace(from *spec) error {
	to := &c.Check.Spec.Pace
	for _, reason := range from.PauseRequests {
		if len(reason) > maxPauseLength {
			c.note("The pause request %q is shortened to %d bytes", reason, maxPauseLength)
			reason = strings.ToValidUTF8(reason[:maxPauseLength], "")
		}
		if reason != "" && !slices.Contains(to.PauseRequests, reason) {
			to.PauseRequests = append(to.PauseRequests, reason)
		}
	}
	if len(to.PauseRequests) > maxPauseRequests {
		c.note("Only the first %d pause requests are kept", maxPauseRequests)
		to.PauseRequests = to.PauseRequests[:maxPauseRequests]
	}
	if len(to.PauseRequests) > 0 {
		c.note("pauseRequests of medik8s stop the whole check; those of Remedy block new remediations, and running ones go on to their end")
	}
	if d := from.StormCooldownDuration; d != nil {
		cooldown := c.duration("stormCooldownDuration", d.Duration)
		to.StormCooldownDuration = &cooldown
	}
	switch d := from.HealthyDelay; {
	case d == nil:
	case d.Duration < 0:
		to.Recovery = remedyv1.ConfirmedRecovery
		c.note("healthyDelay is %s, which is recovery: Confirmed: a remediation ends when a person has set the annotation %s on the Node",
			d.Duration, remedyv1.ConfirmedHealthyAnnotation)
	default:
		delay := c.duration("healthyDelay", d.Duration)
		to.HealthyDelay = &delay
		if delay.Duration.Duration > 0 {
			c.note("With Remedy, healthyDelay begins again each time that the Node becomes unhealthy")
		}
	}
	return nil
}
