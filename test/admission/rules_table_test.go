// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

// row is an object that differs from a good one by a merge patch, and what the API server says to it.
type row struct {
	reason string
	// base is the example in testdata that is changed.
	base string
	// patch is a JSON merge patch, in YAML.
	patch string
	// at and says are the field that is refused and the words; empty if the object is accepted.
	at, says string
	// update: the example exists already, and is updated.
	update bool
}

const (
	machines          = "full-machines-template"
	machinesEscalate  = "full-machines-escalation"
	nodes             = "full-nodes-template"
	nodesEscalate     = "full-nodes-escalation"
	machinesMinimal   = "minimal-machines"
	nodesMinimal      = "minimal-nodes"
	notADuration      = "must be a duration such as 300s, 5m or 1h30m, of at most 8760h (a year)"
	notAConditionType = "must be the type of a condition"
	notALimit         = "must be a number from 0 to 1000000"
	notARange         = "must be two numbers in brackets, the lower one first, such as [3-5]"
	notANamespace     = "must be the name of a namespace"
	notAClusterName   = "must be the name of a Cluster"
	notATemplateKind  = "must be a kind that ends in Template"
	notAGroupVersion  = "must be a group and a version"
	notAnObjectName   = "must be the name of an object"
	notALabelKey      = "must be the key of a label"
	notALabelValue    = "must be the value of a label"
	wrongOperands     = "the operators In and NotIn need values; Exists and DoesNotExist must have none"
	wellNode          = "a Ready Node is healthy, so every healthy Node would be remediated: use status False or Unknown"
	sameCondition     = "a condition is listed twice with the same status: keep one of them"
	sameOrder         = "two steps have the same order: give each an order of its own"
	tooShortAStep     = "must be at least 1m: a remediator needs time to act"
	notInFlight       = "must be a number of at least 1, such as 2, or a percentage from 1% to 100%, such as 10%; to stop remediation, use pauseRequests or mode: Observe"
	steps             = "spec.escalatingRemediations"
	aStep             = "remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: default}, timeout: 5m"
)

// rows of both kinds are written once: base is then the minimal example of either.
var sharedRows = []row{
	{reason: "an absolute limit", patch: "{spec: {maxUnhealthy: 2}}"},
	{reason: "a limit of nothing, to observe only", patch: "{spec: {maxUnhealthy: 0}}"},
	{reason: "a limit of everything", patch: "{spec: {maxUnhealthy: 100%}}"},
	{reason: "more than everything", patch: "{spec: {maxUnhealthy: 140%}}", at: "spec.maxUnhealthy", says: notALimit},
	{reason: "a negative number", patch: "{spec: {maxUnhealthy: -1}}", at: "spec.maxUnhealthy", says: notALimit},
	{reason: "a number in quotes", patch: "{spec: {maxUnhealthy: '2'}}", at: "spec.maxUnhealthy", says: notALimit},
	{reason: "a number that no client can read", patch: "{spec: {maxUnhealthy: 5000000000}}", at: "spec.maxUnhealthy", says: notALimit},
	{reason: "a negative percentage", patch: "{spec: {minHealthy: -1%}}", at: "spec.minHealthy", says: notALimit},
	{reason: "a negative minimum", patch: "{spec: {minHealthy: -1}}", at: "spec.minHealthy", says: notALimit},
	{reason: "a minimum above everything", patch: "{spec: {minHealthy: 101%}}", at: "spec.minHealthy", says: notALimit},
	{reason: "a minimum that no client can read", patch: "{spec: {minHealthy: 5000000000}}", at: "spec.minHealthy", says: notALimit},
	{reason: "the largest numbers", patch: "{spec: {maxUnhealthy: 1000000, maxInFlight: 1000000}}"},
	{reason: "the largest minimum", patch: "{spec: {minHealthy: 1000000}}"},
	{reason: "more than all at once", patch: "{spec: {maxInFlight: 101%}}", at: "spec.maxInFlight", says: notInFlight},
	{reason: "a negative number at once", patch: "{spec: {maxInFlight: -1}}", at: "spec.maxInFlight", says: notInFlight},
	{reason: "a number at once that no client can read", patch: "{spec: {maxInFlight: 5000000000}}", at: "spec.maxInFlight", says: notInFlight},
	{reason: "one percent, and all of them", patch: "{spec: {maxInFlight: 1%, maxUnhealthy: 0%}}"},
	{reason: "a part of a percent", patch: "{spec: {minHealthy: 33.3%}}", at: "spec.minHealthy", says: notALimit},
	{reason: "an absolute minimum", patch: "{spec: {minHealthy: 3}}"},
	{reason: "both limits", patch: "{spec: {maxUnhealthy: 40%, minHealthy: 51%}}", at: "spec", says: "minHealthy and maxUnhealthy exclude each other: keep one of them, such as maxUnhealthy: 40%"},
	{reason: "a minimum and a range", patch: "{spec: {unhealthyRange: '[3-5]', minHealthy: 51%}}", at: "spec", says: "minHealthy and unhealthyRange exclude each other: keep one of them"},
	{reason: "a range beside a maximum, over which it wins", patch: "{spec: {unhealthyRange: '[3-5]', maxUnhealthy: 40%}}"},
	{reason: "a range of one number", patch: "{spec: {unhealthyRange: '[0-0]'}}"},
	{reason: "a range upside down", patch: "{spec: {unhealthyRange: '[5-3]'}}", at: "spec.unhealthyRange", says: notARange},
	{reason: "a range upside down by text only", patch: "{spec: {unhealthyRange: '[9-10]'}}"},
	{reason: "a range without an end", patch: "{spec: {unhealthyRange: '[3-]'}}", at: "spec.unhealthyRange", says: notARange},
	{reason: "a range without brackets", patch: "{spec: {unhealthyRange: 3-5}}", at: "spec.unhealthyRange", says: notARange},

	{reason: "half of the targets at once", patch: "{spec: {maxInFlight: 50%}}"},
	{reason: "none at once", patch: "{spec: {maxInFlight: 0}}", at: "spec.maxInFlight", says: notInFlight},
	{reason: "none of hundred at once", patch: "{spec: {maxInFlight: 0%}}", at: "spec.maxInFlight", says: notInFlight},
	{reason: "a waiting time of its own", patch: "{spec: {backoff: {initial: 30s}}}"},
	{reason: "a first wait that is longer than the longest", patch: "{spec: {backoff: {initial: 1h}}}", at: "spec.backoff.limit", says: "limit must not be shorter than initial, such as 10m"},
	{reason: "no wait", patch: "{spec: {backoff: {initial: 0s}}}", at: "spec.backoff.initial", says: "initial must be at least 1s, such as 1m"},
	{reason: "a wait that is no time", patch: "{spec: {backoff: {initial: soon}}}", at: "spec.backoff.initial", says: notADuration},
	{reason: "a longest wait that is no time", patch: "{spec: {backoff: {limit: '10'}}}", at: "spec.backoff.limit", says: notADuration},
	{reason: "a long storm", patch: "{spec: {stormCooldownDuration: 1h30m}}"},
	{reason: "a storm longer than a year", patch: "{spec: {stormCooldownDuration: 8761h}}", at: "spec.stormCooldownDuration", says: notADuration},
	{reason: "a duration with a sign", patch: "{spec: {stormCooldownDuration: -5m}}", at: "spec.stormCooldownDuration", says: notADuration},
	{reason: "a duration without a unit", patch: "{spec: {stormCooldownDuration: '300'}}", at: "spec.stormCooldownDuration", says: notADuration},
	{reason: "a duration that overflows", patch: "{spec: {stormCooldownDuration: 999999h999999h99999h}}", at: "spec.stormCooldownDuration", says: notADuration},
	{reason: "a delay that is no time", patch: "{spec: {healthyDelay: -1s}}", at: "spec.healthyDelay", says: notADuration},
	{reason: "a pause without a reason", patch: "{spec: {pauseRequests: ['']}}", at: "spec.pauseRequests[]", says: "at least 1 chars long"},
	{reason: "a mode that does not exist", patch: "{spec: {mode: DryRun}}", at: "spec.mode", says: `supported values: "Enforce", "Observe"`},
	{reason: "a field that does not exist", patch: "{spec: {maxUnhealthyy: 2}}", at: "spec.maxUnhealthyy", says: "unknown field"},

	{reason: "a selector by expression", patch: "{spec: {selector: {matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}}}"},
	{reason: "an operator in lower case", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: exists}]}}}", at: "spec.selector.matchExpressions[].operator", says: `supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
	{reason: "In without values", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: In}]}}}", at: "spec.selector.matchExpressions[]", says: wrongOperands},
	{reason: "Exists with values", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: Exists, values: [x]}]}}}", at: "spec.selector.matchExpressions[]", says: wrongOperands},
	{reason: "NotIn without values", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: NotIn, values: []}]}}}", at: "spec.selector.matchExpressions[]", says: wrongOperands},
	{reason: "DoesNotExist with values", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: DoesNotExist, values: [x]}]}}}", at: "spec.selector.matchExpressions[]", says: wrongOperands},
	{reason: "a key with an empty part in its prefix", patch: "{spec: {selector: {matchExpressions: [{key: a..b/x, operator: Exists}]}}}", at: "spec.selector.matchExpressions[].key", says: notALabelKey},
	{reason: "a label with a prefix that is no domain", patch: "{spec: {selector: {matchLabels: {a.-b/x: z}}}}", at: "spec.selector", says: "every key of matchLabels must be the key of a label"},
	{reason: "a key with a space", patch: "{spec: {selector: {matchExpressions: [{key: a b, operator: Exists}]}}}", at: "spec.selector.matchExpressions[].key", says: notALabelKey},
	{reason: "a value with a space", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: In, values: [x y]}]}}}", at: "spec.selector.matchExpressions[].values[]", says: notALabelValue},
	{reason: "a label with a space", patch: "{spec: {selector: {matchLabels: {a: x y}}}}", at: "spec.selector.matchLabels", says: notALabelValue},
	{reason: "a label without a value", patch: "{spec: {selector: {matchLabels: {cluster.x-k8s.io/control-plane: ''}}}}"},
	{reason: "a key that is no key", patch: "{spec: {selector: {matchLabels: {'a b': x}}}}", at: "spec.selector", says: "every key of matchLabels must be the key of a label"},
	{reason: "a status that YAML reads as a boolean", patch: "{spec: {unhealthyConditions: [{type: Ready, status: False, TIME: 1m}]}}", at: "spec.unhealthyConditions[].status", says: "must be of type string"},
	{reason: "a status that does not exist", patch: "{spec: {unhealthyConditions: [{type: Ready, status: NotReady, TIME: 1m}]}}", at: "spec.unhealthyConditions[].status", says: "Unsupported value"},
	{reason: "a condition of a vendor", patch: "{spec: {unhealthyConditions: [{type: example.com/GPUFault, status: 'True', TIME: 1m}]}}"},
	{reason: "a condition type with a space", patch: "{spec: {unhealthyConditions: [{type: Not Ready, status: 'False', TIME: 1m}]}}", at: "spec.unhealthyConditions[].type", says: notAConditionType},
	{reason: "a condition at once", patch: "{spec: {unhealthyConditions: [{type: Ready, status: 'False', TIME: 0s}]}}"},
	{reason: "a Node that is well", patch: "{spec: {unhealthyConditions: [{type: Ready, status: 'True', TIME: 1m}]}}", at: "spec.unhealthyConditions[]", says: wellNode},
	{reason: "what is trouble when it is True", patch: "{spec: {unhealthyConditions: [{type: DiskPressure, status: 'True', TIME: 1m}]}}"},
	{reason: "a condition after no time", patch: "{spec: {unhealthyConditions: [{type: Ready, status: 'False', TIME: never}]}}", at: "spec.unhealthyConditions[].TIME", says: notADuration},
	{reason: "a condition twice", patch: "{spec: {unhealthyConditions: [{type: Ready, status: Unknown, TIME: 1m}, {type: Ready, status: Unknown, TIME: 2m}]}}", at: "spec.unhealthyConditions", says: sameCondition},

	{reason: "two steps", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, " + aStep + "}, {order: 2, " + aStep + "}]}}"},
	{reason: "two steps of one order", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, " + aStep + "}, {order: 1, " + aStep + "}]}}", at: steps, says: sameOrder},
	{reason: "a step of less than a minute", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: default}, timeout: 59s}]}}", at: steps + "[].timeout", says: tooShortAStep},
	{reason: "a step of no time", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: default}, timeout: x}]}}", at: steps + "[].timeout", says: notADuration},
	{reason: "no step", patch: "{spec: {remediationTemplate: null, escalatingRemediations: []}}", at: steps, says: "at least 1 items"},
	{reason: "a kind without Template", patch: "{spec: {remediationTemplate: {kind: Metal3Remediation}}}", at: "spec.remediationTemplate.kind", says: notATemplateKind},
	{reason: "a version without a group", patch: "{spec: {remediationTemplate: {apiVersion: v1}}}", at: "spec.remediationTemplate.apiVersion", says: notAGroupVersion},
	{reason: "a group that is no domain", patch: "{spec: {remediationTemplate: {apiVersion: a..b/v1}}}", at: "spec.remediationTemplate.apiVersion", says: notAGroupVersion},
	{reason: "a name with an empty part", patch: "{spec: {remediationTemplate: {name: a..b}}}", at: "spec.remediationTemplate.name", says: notAnObjectName},
	{reason: "a name with a dot", patch: "{spec: {remediationTemplate: {name: a.b}}}"},
	{reason: "a name in capitals", patch: "{spec: {remediationTemplate: {name: M3_REMEDIATION_GROUP}}}", at: "spec.remediationTemplate.name", says: notAnObjectName},
	{reason: "a step with a kind without Template", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: a.b/v1, kind: Template, name: x, namespace: default}}]}}", at: steps + "[].remediationTemplate.kind", says: notATemplateKind},
	{reason: "a step with a version without a group", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: v1, kind: FooTemplate, name: x, namespace: default}}]}}", at: steps + "[].remediationTemplate.apiVersion", says: notAGroupVersion},
	{reason: "a step with a name in capitals", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: X, namespace: default}}]}}", at: steps + "[].remediationTemplate.name", says: notAnObjectName},
	{reason: "both a template and steps", patch: "{spec: {escalatingRemediations: [{order: 1, " + aStep + "}]}}", at: "spec", says: "remediationTemplate"},
}

var machineRows = []row{
	{reason: "the smallest check", base: machinesMinimal},
	{reason: "no template: the owner remediates", base: machinesMinimal, patch: "{spec: {remediationTemplate: null}}"},
	{reason: "an empty selector", base: machinesMinimal, patch: "{spec: {selector: {matchLabels: null}}}", at: "spec.selector", says: "must not be empty"},
	{reason: "an empty list of labels", base: machinesMinimal, patch: "{spec: {selector: {matchLabels: {nodepool: null}}}}", at: "spec.selector", says: "must not be empty"},
	{reason: "a selector of another Cluster", base: machinesMinimal, patch: "{spec: {selector: {matchLabels: {cluster.x-k8s.io/cluster-name: prod-2}}}}", at: "spec", says: "selector names another Cluster than clusterName"},
	{reason: "a Cluster's name in capitals", base: machinesMinimal, patch: "{spec: {clusterName: Prod}}", at: "spec.clusterName", says: notAClusterName},
	{reason: "another Cluster", base: machinesMinimal, patch: "{spec: {clusterName: prod-2}}", update: true, at: "spec.clusterName", says: "cannot be changed: create another check for the other Cluster"},
	{reason: "everything but the Cluster can be changed", base: machinesMinimal, patch: "{spec: {selector: {matchLabels: {nodepool: other}}, maxUnhealthy: 1, remediationTemplate: null}}", update: true},
	{reason: "no startup timeout", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: 0s}}"},
	{reason: "no startup timeout, without a unit", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: '0'}}"},
	{reason: "the shortest startup timeout", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: 30s}}"},
	{reason: "too short a startup timeout", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: 10s}}", at: "spec.nodeStartupTimeout", says: "must be at least 30s, or 0s for no limit"},
	{reason: "a startup timeout of no time", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: 10 minutes}}", at: "spec.nodeStartupTimeout", says: notADuration},
	{reason: "gone for no time", base: machinesMinimal, patch: "{spec: {nodeGoneTimeout: x}}", at: "spec.nodeGoneTimeout", says: notADuration},
	{reason: "a Machine's condition", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: InfrastructureReady, status: 'False', timeout: 1h}]}}"},
	{reason: "a Machine's condition that follows from the verdict", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: Ready, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", says: "they follow from the verdict of the check"},
	{reason: "a Machine's condition that sums up others", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: Available, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", says: "they follow from the verdict of the check"},
	{reason: "the verdict itself", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: HealthCheckSucceeded, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", says: "they follow from the verdict of the check"},
	{reason: "what the owner does about it", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: OwnerRemediated, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", says: "they follow from the verdict of the check"},
	{reason: "what a remediator does about it", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: ExternallyRemediated, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", says: "they follow from the verdict of the check"},
	{reason: "a Machine's condition twice", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: InfrastructureReady, status: 'False', timeout: 1h}, {type: InfrastructureReady, status: 'False', timeout: 2h}]}}", at: "spec.unhealthyMachineConditions", says: sameCondition},
	{reason: "a Cluster's name with a dot", base: machinesMinimal, patch: "{spec: {clusterName: prod.eu}}"},
	{reason: "a Machine's condition with a space", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: 'Infra Ready', status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", says: notAConditionType},
	{reason: "a Machine's condition after no time", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: InfrastructureReady, status: 'False', timeout: x}]}}", at: "spec.unhealthyMachineConditions[].timeout", says: notADuration},
	{reason: "a template and a delay", base: machinesMinimal, patch: "{spec: {healthyDelay: 5m, recovery: Confirmed}}"},
	{reason: "a delay without a template", base: machinesMinimal, patch: "{spec: {healthyDelay: 5m, remediationTemplate: null}}", at: "spec.healthyDelay", says: "healthyDelay needs a template"},
	{reason: "a delay and only the owner", base: machinesMinimal, patch: "{spec: {healthyDelay: 5m, remediationTemplate: null, escalatingRemediations: [{order: 1, owner: {}}]}}", at: "spec.healthyDelay", says: "healthyDelay needs a template"},
	{reason: "a delay and a step with a template", base: machinesEscalate, patch: "{spec: {healthyDelay: 5m, recovery: Confirmed}}"},
	{reason: "a confirmation without a template", base: machinesMinimal, patch: "{spec: {recovery: Confirmed, remediationTemplate: null}}", at: "spec.recovery", says: "recovery: Confirmed needs a template"},
	{reason: "a template and steps", base: machinesEscalate, patch: "{spec: {remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x}}}", at: "spec", says: "remediationTemplate and escalatingRemediations exclude each other: make the template the first step"},
	{reason: "a template in no namespace", base: machinesMinimal, patch: "{spec: {remediationTemplate: {namespace: A_B}}}", at: "spec.remediationTemplate.namespace", says: notANamespace},
	{reason: "a step in no namespace", base: machinesEscalate, patch: "{spec: {escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: A_B}}]}}", at: steps + "[].remediationTemplate.namespace", says: notANamespace},
	{reason: "the owner in the middle", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, owner: {}}, {order: 2, " + aStep + "}]}}", at: steps, says: "the owner is the last resort: give that step the highest order"},
	{reason: "a step that does nothing", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m}]}}", at: steps + "[]", says: "a step has either a remediationTemplate or an owner"},
	{reason: "a step that does both", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, owner: {}, " + aStep + "}]}}", at: steps + "[]", says: "a step has either a remediationTemplate or an owner"},
	{reason: "a step without an end", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x}}]}}", at: steps + "[].timeout", says: "needs a timeout, after which the next step follows"},
	{reason: "an owner with a timeout", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, owner: {}, timeout: 5m}]}}", at: steps + "[].timeout", says: "the owner is the last resort and has no timeout: leave it out"},
}

var nodeRows = []row{
	{reason: "the smallest check", base: nodesMinimal},
	{reason: "every Node", base: nodesMinimal, patch: "{spec: {selector: {}}}"},
	{reason: "no remediation at all", base: nodesMinimal, patch: "{spec: {remediationTemplate: null}}", at: "spec", says: "set either remediationTemplate or escalatingRemediations"},
	{reason: "a template without a namespace", base: nodesMinimal, patch: "{spec: {remediationTemplate: {namespace: null}}}", at: "spec.remediationTemplate.namespace", says: "Required value"},
	{reason: "a template in no namespace", base: nodesMinimal, patch: "{spec: {remediationTemplate: {namespace: A_B}}}", at: "spec.remediationTemplate.namespace", says: notANamespace},
	{reason: "a step in no namespace", base: nodesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: A_B}}]}}", at: steps + "[].remediationTemplate.namespace", says: notANamespace},
	{reason: "an owner, which a Node does not have", base: nodesEscalate, patch: "{spec: {escalatingRemediations: [{order: 1, owner: {}}]}}", at: steps, says: "unknown field"},
	{reason: "a template in the workload cluster", base: nodesMinimal, patch: "{spec: {clusterRef: {namespace: team-a, name: prod-1}, templateLocation: Workload}}"},
	{reason: "a template in the workload cluster without a Cluster", base: nodesMinimal, patch: "{spec: {templateLocation: Workload}}", at: "spec.templateLocation", says: "templateLocation: Workload needs a clusterRef"},
	{reason: "a Cluster's name in capitals", base: nodesMinimal, patch: "{spec: {clusterRef: {namespace: team-a, name: Prod}}}", at: "spec.clusterRef.name", says: notAClusterName},
	{reason: "a Cluster in no namespace", base: nodesMinimal, patch: "{spec: {clusterRef: {namespace: Team, name: prod}}}", at: "spec.clusterRef.namespace", says: notANamespace},
	{reason: "another Cluster", base: nodes, patch: "{spec: {clusterRef: {name: prod-2}}}", update: true, at: "spec", says: "clusterRef cannot be changed: create another check for the other Cluster"},
	{reason: "no Cluster any more", base: nodes, patch: "{spec: {clusterRef: null, templateLocation: Management}}", update: true, at: "spec", says: "clusterRef cannot be changed"},
	{reason: "a Cluster after all", base: nodesMinimal, patch: "{spec: {clusterRef: {namespace: team-a, name: prod-1}}}", update: true, at: "spec", says: "clusterRef cannot be changed"},
	{reason: "everything but the Cluster can be changed", base: nodes, patch: "{spec: {selector: {matchLabels: {pool: b}}, maxUnhealthy: 1, templateLocation: Management}}", update: true},
	{reason: "a confirmation by a person", base: nodesMinimal, patch: "{spec: {recovery: Confirmed, healthyDelay: 5m}}"},
}
