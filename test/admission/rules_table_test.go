// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

// row is an object that differs from a valid one by a merge patch, and the response of the API server.
type row struct {
	name string
	// base is the example in testdata that is changed.
	base string
	// patch is a JSON merge patch, in YAML.
	patch string
	// at and message are the rejected field and part of the error; empty if the object is accepted.
	at, message string
	// update is set if the row updates an existing example.
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
	notARange         = "must be two numbers in brackets, the lower one first, such as '[3-5]' with the quotes"
	notANamespace     = "must be the name of a namespace"
	notAClusterName   = "must be the name of a Cluster"
	notATemplateKind  = "must be a kind that ends in Template"
	notAGroupVersion  = "must be a group and a version"
	notAnObjectName   = "must be the name of an object"
	notALabelKey      = "must be the key of a label"
	notALabelValue    = "must be the value of a label"
	wrongOperands     = "the operators In and NotIn need values; Exists and DoesNotExist must have none"
	readyNode         = "a Ready Node is healthy, so every healthy Node would be remediated: use status False or Unknown"
	sameCondition     = "a condition is listed twice with the same status: keep one of them"
	sameOrder         = "two steps have the same order: give each an order of its own"
	tooShortAStep     = "must be at least 1m: a remediator needs time to act"
	notInFlight       = "must be a number of at least 1, such as 2, or a percentage from 1% to 100%, such as 10%; to stop remediation, use pauseRequests or mode: Observe"
	steps             = "spec.escalatingRemediations"
	aStep             = "remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: default}, timeout: 5m"
)

// sharedRows are rows of both kinds. Their base is the minimal example of each kind.
var sharedRows = []row{
	{name: "an absolute limit", patch: "{spec: {maxUnhealthy: 2}}"},
	{name: "maxUnhealthy 0", patch: "{spec: {maxUnhealthy: 0}}"},
	{name: "maxUnhealthy 100%", patch: "{spec: {maxUnhealthy: 100%}}"},
	{name: "maxUnhealthy above 100%", patch: "{spec: {maxUnhealthy: 140%}}", at: "spec.maxUnhealthy", message: notALimit},
	{name: "a negative number", patch: "{spec: {maxUnhealthy: -1}}", at: "spec.maxUnhealthy", message: notALimit},
	{name: "a number in quotes", patch: "{spec: {maxUnhealthy: '2'}}", at: "spec.maxUnhealthy", message: notALimit},
	{name: "maxUnhealthy above int32", patch: "{spec: {maxUnhealthy: 5000000000}}", at: "spec.maxUnhealthy", message: notALimit},
	{name: "a negative percentage", patch: "{spec: {minHealthy: -1%}}", at: "spec.minHealthy", message: notALimit},
	{name: "a negative minimum", patch: "{spec: {minHealthy: -1}}", at: "spec.minHealthy", message: notALimit},
	{name: "minHealthy above 100%", patch: "{spec: {minHealthy: 101%}}", at: "spec.minHealthy", message: notALimit},
	{name: "minHealthy above int32", patch: "{spec: {minHealthy: 5000000000}}", at: "spec.minHealthy", message: notALimit},
	{name: "the largest numbers", patch: "{spec: {maxUnhealthy: 1000000, maxInFlight: 1000000}}"},
	{name: "the largest minimum", patch: "{spec: {minHealthy: 1000000}}"},
	{name: "maxInFlight above 100%", patch: "{spec: {maxInFlight: 101%}}", at: "spec.maxInFlight", message: notInFlight},
	{name: "negative maxInFlight", patch: "{spec: {maxInFlight: -1}}", at: "spec.maxInFlight", message: notInFlight},
	{name: "maxInFlight above int32", patch: "{spec: {maxInFlight: 5000000000}}", at: "spec.maxInFlight", message: notInFlight},
	{name: "one percent, and all of them", patch: "{spec: {maxInFlight: 1%, maxUnhealthy: 0%}}"},
	{name: "a part of a percent", patch: "{spec: {minHealthy: 33.3%}}", at: "spec.minHealthy", message: notALimit},
	{name: "an absolute minimum", patch: "{spec: {minHealthy: 3}}"},
	{name: "both limits", patch: "{spec: {maxUnhealthy: 40%, minHealthy: 51%}}", at: "spec", message: "minHealthy and maxUnhealthy exclude each other: keep one of them, such as maxUnhealthy: 40%"},
	{name: "a minimum and a range", patch: "{spec: {unhealthyRange: '[3-5]', minHealthy: 51%}}", at: "spec", message: "minHealthy and unhealthyRange exclude each other: keep one of them"},
	{name: "a range and maxUnhealthy", patch: "{spec: {unhealthyRange: '[3-5]', maxUnhealthy: 40%}}"},
	{name: "a range of one number", patch: "{spec: {unhealthyRange: '[0-0]'}}"},
	{name: "a range with the higher number first", patch: "{spec: {unhealthyRange: '[5-3]'}}", at: "spec.unhealthyRange", message: notARange},
	{name: "a range of numbers with different length", patch: "{spec: {unhealthyRange: '[9-10]'}}"},
	{name: "a range without its second number", patch: "{spec: {unhealthyRange: '[3-]'}}", at: "spec.unhealthyRange", message: notARange},
	{name: "a range without brackets", patch: "{spec: {unhealthyRange: 3-5}}", at: "spec.unhealthyRange", message: notARange},

	{name: "maxInFlight 50%", patch: "{spec: {maxInFlight: 50%}}"},
	{name: "maxInFlight 0", patch: "{spec: {maxInFlight: 0}}", at: "spec.maxInFlight", message: notInFlight},
	{name: "maxInFlight 0%", patch: "{spec: {maxInFlight: 0%}}", at: "spec.maxInFlight", message: notInFlight},
	{name: "an initial backoff", patch: "{spec: {backoff: {initial: 30s}}}"},
	{name: "an initial backoff above the limit", patch: "{spec: {backoff: {initial: 1h}}}", at: "spec.backoff.limit", message: "limit must not be shorter than initial, such as 10m"},
	{name: "an initial backoff of 0s", patch: "{spec: {backoff: {initial: 0s}}}", at: "spec.backoff.initial", message: "initial must be at least 1s, such as 1m"},
	{name: "an invalid initial backoff", patch: "{spec: {backoff: {initial: soon}}}", at: "spec.backoff.initial", message: notADuration},
	{name: "an invalid backoff limit", patch: "{spec: {backoff: {limit: '10'}}}", at: "spec.backoff.limit", message: notADuration},
	{name: "a long storm cool-down", patch: "{spec: {stormCooldownDuration: 1h30m}}"},
	{name: "a storm cool-down of more than a year", patch: "{spec: {stormCooldownDuration: 8761h}}", at: "spec.stormCooldownDuration", message: notADuration},
	{name: "a duration with a sign", patch: "{spec: {stormCooldownDuration: -5m}}", at: "spec.stormCooldownDuration", message: notADuration},
	{name: "a duration without a unit", patch: "{spec: {stormCooldownDuration: '300'}}", at: "spec.stormCooldownDuration", message: notADuration},
	{name: "a number as a duration", patch: "{spec: {stormCooldownDuration: 300}}", at: "spec.stormCooldownDuration", message: notADuration},
	{name: "a number as a duration of a condition", patch: "{spec: {unhealthyConditions: [{type: Ready, status: 'False', TIME: 300}]}}", at: "spec.unhealthyConditions[].TIME", message: notADuration},
	{name: "a number as a healthyDelay", patch: "{spec: {healthyDelay: 0}}", at: "spec.healthyDelay", message: notADuration},
	{name: "numbers as backoff", patch: "{spec: {backoff: {initial: 60, limit: 600}}}", at: "spec.backoff.initial", message: notADuration},
	{name: "a number as a timeout of a step", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: default}, timeout: 300}]}}", at: steps + "[].timeout", message: notADuration},
	{name: "a duration that overflows", patch: "{spec: {stormCooldownDuration: 999999h999999h99999h}}", at: "spec.stormCooldownDuration", message: notADuration},
	{name: "an invalid healthyDelay", patch: "{spec: {healthyDelay: -1s}}", at: "spec.healthyDelay", message: notADuration},
	{name: "a pause without a reason", patch: "{spec: {pauseRequests: ['']}}", at: "spec.pauseRequests[]", message: "at least 1 chars long"},
	{name: "an unknown mode", patch: "{spec: {mode: DryRun}}", at: "spec.mode", message: `supported values: "Enforce", "Observe"`},
	{name: "an unknown field", patch: "{spec: {maxUnhealthyy: 2}}", at: "spec.maxUnhealthyy", message: "unknown field"},

	{name: "a selector by expression", patch: "{spec: {selector: {matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}}}"},
	{name: "an operator in lower case", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: exists}]}}}", at: "spec.selector.matchExpressions[].operator", message: `supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
	{name: "In without values", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: In}]}}}", at: "spec.selector.matchExpressions[]", message: wrongOperands},
	{name: "Exists with values", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: Exists, values: [x]}]}}}", at: "spec.selector.matchExpressions[]", message: wrongOperands},
	{name: "NotIn without values", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: NotIn, values: []}]}}}", at: "spec.selector.matchExpressions[]", message: wrongOperands},
	{name: "DoesNotExist with values", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: DoesNotExist, values: [x]}]}}}", at: "spec.selector.matchExpressions[]", message: wrongOperands},
	{name: "a key with an empty part in its prefix", patch: "{spec: {selector: {matchExpressions: [{key: a..b/x, operator: Exists}]}}}", at: "spec.selector.matchExpressions[].key", message: notALabelKey},
	{name: "a label with an invalid prefix", patch: "{spec: {selector: {matchLabels: {a.-b/x: z}}}}", at: "spec.selector", message: "every key of matchLabels must be the key of a label"},
	{name: "a key with a space", patch: "{spec: {selector: {matchExpressions: [{key: a b, operator: Exists}]}}}", at: "spec.selector.matchExpressions[].key", message: notALabelKey},
	{name: "a value with a space", patch: "{spec: {selector: {matchExpressions: [{key: a, operator: In, values: [x y]}]}}}", at: "spec.selector.matchExpressions[].values[]", message: notALabelValue},
	{name: "a label with a space", patch: "{spec: {selector: {matchLabels: {a: x y}}}}", at: "spec.selector.matchLabels", message: notALabelValue},
	{name: "a label without a value", patch: "{spec: {selector: {matchLabels: {cluster.x-k8s.io/control-plane: ''}}}}"},
	{name: "an invalid key in matchLabels", patch: "{spec: {selector: {matchLabels: {'a b': x}}}}", at: "spec.selector", message: "every key of matchLabels must be the key of a label"},
	{name: "a status that YAML reads as a boolean", patch: "{spec: {unhealthyConditions: [{type: Ready, status: False, TIME: 1m}]}}", at: "spec.unhealthyConditions[].status", message: "must be of type string"},
	{name: "an unknown status", patch: "{spec: {unhealthyConditions: [{type: Ready, status: NotReady, TIME: 1m}]}}", at: "spec.unhealthyConditions[].status", message: "Unsupported value"},
	{name: "a condition of a vendor", patch: "{spec: {unhealthyConditions: [{type: example.com/GPUFault, status: 'True', TIME: 1m}]}}"},
	{name: "a condition type that is none", patch: "{spec: {unhealthyConditions: [{type: NotReady, status: 'True', TIME: 1m}]}}", at: "spec.unhealthyConditions[].type", message: "for a Node that is NotReady, use the type Ready with the status False or Unknown"},
	{name: "a condition type with a space", patch: "{spec: {unhealthyConditions: [{type: Not Ready, status: 'False', TIME: 1m}]}}", at: "spec.unhealthyConditions[].type", message: notAConditionType},
	{name: "a condition with a duration of 0s", patch: "{spec: {unhealthyConditions: [{type: Ready, status: 'False', TIME: 0s}]}}"},
	{name: "condition Ready with status True", patch: "{spec: {unhealthyConditions: [{type: Ready, status: 'True', TIME: 1m}]}}", at: "spec.unhealthyConditions[]", message: readyNode},
	{name: "condition DiskPressure with status True", patch: "{spec: {unhealthyConditions: [{type: DiskPressure, status: 'True', TIME: 1m}]}}"},
	{name: "an invalid duration of a condition", patch: "{spec: {unhealthyConditions: [{type: Ready, status: 'False', TIME: never}]}}", at: "spec.unhealthyConditions[].TIME", message: notADuration},
	{name: "a condition twice", patch: "{spec: {unhealthyConditions: [{type: Ready, status: Unknown, TIME: 1m}, {type: Ready, status: Unknown, TIME: 2m}]}}", at: "spec.unhealthyConditions", message: sameCondition},

	{name: "two steps", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, " + aStep + "}, {order: 2, " + aStep + "}]}}"},
	{name: "two steps of one order", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, " + aStep + "}, {order: 1, " + aStep + "}]}}", at: steps, message: sameOrder},
	{name: "a step of less than a minute", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: default}, timeout: 59s}]}}", at: steps + "[].timeout", message: tooShortAStep},
	{name: "an invalid timeout of a step", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: default}, timeout: x}]}}", at: steps + "[].timeout", message: notADuration},
	{name: "no step", patch: "{spec: {remediationTemplate: null, escalatingRemediations: []}}", at: steps, message: "at least 1 items"},
	{name: "a kind without Template", patch: "{spec: {remediationTemplate: {kind: Metal3Remediation}}}", at: "spec.remediationTemplate.kind", message: notATemplateKind},
	{name: "a version without a group", patch: "{spec: {remediationTemplate: {apiVersion: v1}}}", at: "spec.remediationTemplate.apiVersion", message: notAGroupVersion},
	{name: "an invalid group", patch: "{spec: {remediationTemplate: {apiVersion: a..b/v1}}}", at: "spec.remediationTemplate.apiVersion", message: notAGroupVersion},
	{name: "a name with an empty part", patch: "{spec: {remediationTemplate: {name: a..b}}}", at: "spec.remediationTemplate.name", message: notAnObjectName},
	{name: "a name with a dot", patch: "{spec: {remediationTemplate: {name: a.b}}}"},
	{name: "a name in capitals", patch: "{spec: {remediationTemplate: {name: M3_REMEDIATION_GROUP}}}", at: "spec.remediationTemplate.name", message: notAnObjectName},
	{name: "a step with a kind without Template", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: a.b/v1, kind: Template, name: x, namespace: default}}]}}", at: steps + "[].remediationTemplate.kind", message: notATemplateKind},
	{name: "a step with a version without a group", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: v1, kind: FooTemplate, name: x, namespace: default}}]}}", at: steps + "[].remediationTemplate.apiVersion", message: notAGroupVersion},
	{name: "a step with a name in capitals", patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: X, namespace: default}}]}}", at: steps + "[].remediationTemplate.name", message: notAnObjectName},
	{name: "both a template and steps", patch: "{spec: {escalatingRemediations: [{order: 1, " + aStep + "}]}}", at: "spec", message: "remediationTemplate"},
}

var machineRows = []row{
	{name: "the smallest check", base: machinesMinimal},
	{name: "a number as a startup timeout", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: 0}}", at: "spec.nodeStartupTimeout", message: notADuration},
	{name: "no template: the owner remediates", base: machinesMinimal, patch: "{spec: {remediationTemplate: null}}"},
	{name: "an empty selector", base: machinesMinimal, patch: "{spec: {selector: {matchLabels: null}}}", at: "spec.selector", message: "must not be empty"},
	{name: "an empty list of labels", base: machinesMinimal, patch: "{spec: {selector: {matchLabels: {nodepool: null}}}}", at: "spec.selector", message: "must not be empty"},
	{name: "a selector of another Cluster", base: machinesMinimal, patch: "{spec: {selector: {matchLabels: {cluster.x-k8s.io/cluster-name: prod-2}}}}", at: "spec", message: "selector names another Cluster than clusterName"},
	{name: "a Cluster's name in capitals", base: machinesMinimal, patch: "{spec: {clusterName: Prod}}", at: "spec.clusterName", message: notAClusterName},
	{name: "another Cluster", base: machinesMinimal, patch: "{spec: {clusterName: prod-2}}", update: true, at: "spec.clusterName", message: "cannot be changed: create another check for the other Cluster"},
	{name: "everything but the Cluster can be changed", base: machinesMinimal, patch: "{spec: {selector: {matchLabels: {nodepool: other}}, maxUnhealthy: 1, remediationTemplate: null}}", update: true},
	{name: "no startup timeout", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: 0s}}"},
	{name: "no startup timeout, without a unit", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: '0'}}"},
	{name: "the shortest startup timeout", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: 30s}}"},
	{name: "a startup timeout that is too short", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: 10s}}", at: "spec.nodeStartupTimeout", message: "must be at least 30s, or 0s for no limit"},
	{name: "an invalid startup timeout", base: machinesMinimal, patch: "{spec: {nodeStartupTimeout: 10 minutes}}", at: "spec.nodeStartupTimeout", message: notADuration},
	{name: "an invalid nodeGoneTimeout", base: machinesMinimal, patch: "{spec: {nodeGoneTimeout: x}}", at: "spec.nodeGoneTimeout", message: notADuration},
	{name: "a Machine's condition", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: InfrastructureReady, status: 'False', timeout: 1h}]}}"},
	{name: "Machine condition Ready", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: Ready, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", message: "they follow from the verdict of the check"},
	{name: "Machine condition Available", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: Available, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", message: "they follow from the verdict of the check"},
	{name: "Machine condition HealthCheckSucceeded", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: HealthCheckSucceeded, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", message: "they follow from the verdict of the check"},
	{name: "Machine condition OwnerRemediated", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: OwnerRemediated, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", message: "they follow from the verdict of the check"},
	{name: "Machine condition ExternallyRemediated", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: ExternallyRemediated, status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", message: "they follow from the verdict of the check"},
	{name: "a Machine's condition twice", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: InfrastructureReady, status: 'False', timeout: 1h}, {type: InfrastructureReady, status: 'False', timeout: 2h}]}}", at: "spec.unhealthyMachineConditions", message: sameCondition},
	{name: "a Cluster's name with a dot", base: machinesMinimal, patch: "{spec: {clusterName: prod.eu}}"},
	{name: "a Machine's condition with a space", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: 'Infra Ready', status: 'False', timeout: 1h}]}}", at: "spec.unhealthyMachineConditions[].type", message: notAConditionType},
	{name: "an invalid timeout of a Machine condition", base: machinesMinimal, patch: "{spec: {unhealthyMachineConditions: [{type: InfrastructureReady, status: 'False', timeout: x}]}}", at: "spec.unhealthyMachineConditions[].timeout", message: notADuration},
	{name: "a template and a delay", base: machinesMinimal, patch: "{spec: {healthyDelay: 5m, recovery: Confirmed}}"},
	{name: "a delay without a template", base: machinesMinimal, patch: "{spec: {healthyDelay: 5m, remediationTemplate: null}}", at: "spec.healthyDelay", message: "healthyDelay needs a template"},
	{name: "a delay and only the owner", base: machinesMinimal, patch: "{spec: {healthyDelay: 5m, remediationTemplate: null, escalatingRemediations: [{order: 1, owner: {}}]}}", at: "spec.healthyDelay", message: "healthyDelay needs a template"},
	{name: "a delay and a step with a template", base: machinesEscalate, patch: "{spec: {healthyDelay: 5m, recovery: Confirmed}}"},
	{name: "a confirmation without a template", base: machinesMinimal, patch: "{spec: {recovery: Confirmed, remediationTemplate: null}}", at: "spec.recovery", message: "recovery: Confirmed needs a template"},
	{name: "a template and steps", base: machinesEscalate, patch: "{spec: {remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x}}}", at: "spec", message: "remediationTemplate and escalatingRemediations exclude each other: make the template the first step"},
	{name: "an invalid namespace of a template", base: machinesMinimal, patch: "{spec: {remediationTemplate: {namespace: A_B}}}", at: "spec.remediationTemplate.namespace", message: notANamespace},
	{name: "an invalid namespace of a step", base: machinesEscalate, patch: "{spec: {escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: A_B}}]}}", at: steps + "[].remediationTemplate.namespace", message: notANamespace},
	{name: "an owner before the last step", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, owner: {}}, {order: 2, " + aStep + "}]}}", at: steps, message: "the owner is the last resort: give that step the highest order"},
	{name: "a step for a condition that is not unhealthy", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, conditions: [{type: DiskPressure}], " + aStep + "}]}}", at: steps, message: "neither in unhealthyConditions nor in unhealthyMachineConditions"},
	{name: "a step for another status of a condition", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, conditions: [{type: Ready, status: \"True\"}], " + aStep + "}]}}", at: steps, message: "neither in unhealthyConditions nor in unhealthyMachineConditions"},
	{name: "a step for an invalid type", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, conditions: [{type: \"-\"}], " + aStep + "}]}}", at: steps + "[].conditions[].type", message: "must be the type of a condition, such as Ready or DiskPressure"},
	{name: "a step for what is no type", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, conditions: [{type: NotReady}], " + aStep + "}]}}", at: steps + "[].conditions[].type", message: "use the type Ready with the status False or Unknown"},
	{name: "a step without template and owner", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m}]}}", at: steps + "[]", message: "a step has either a remediationTemplate or an owner"},
	{name: "a step with template and owner", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, owner: {}, " + aStep + "}]}}", at: steps + "[]", message: "a step has either a remediationTemplate or an owner"},
	{name: "a step without a timeout", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x}}]}}", at: steps + "[].timeout", message: "needs a timeout, after which the next step follows"},
	{name: "an owner with a timeout", base: machinesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, owner: {}, timeout: 5m}]}}", at: steps + "[].timeout", message: "the owner is the last resort and has no timeout: leave it out"},
}

var nodeRows = []row{
	{name: "the smallest check", base: nodesMinimal},
	{name: "every Node", base: nodesMinimal, patch: "{spec: {selector: {}}}"},
	{name: "no remediation at all", base: nodesMinimal, patch: "{spec: {remediationTemplate: null}}", at: "spec", message: "set either remediationTemplate or escalatingRemediations"},
	{name: "a template without a namespace", base: nodesMinimal, patch: "{spec: {remediationTemplate: {namespace: null}}}", at: "spec.remediationTemplate.namespace", message: "Required value"},
	{name: "an invalid namespace of a template", base: nodesMinimal, patch: "{spec: {remediationTemplate: {namespace: A_B}}}", at: "spec.remediationTemplate.namespace", message: notANamespace},
	{name: "an invalid namespace of a step", base: nodesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: a.b/v1, kind: FooTemplate, name: x, namespace: A_B}}]}}", at: steps + "[].remediationTemplate.namespace", message: notANamespace},
	{name: "an owner of a Node", base: nodesEscalate, patch: "{spec: {escalatingRemediations: [{order: 1, owner: {}}]}}", at: steps, message: "unknown field"},
	{name: "a step for a condition that is not unhealthy", base: nodesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, conditions: [{type: DiskPressure}], " + aStep + "}]}}", at: steps, message: "a step is for a condition that is not in unhealthyConditions"},
	{name: "a step for another status of a condition", base: nodesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, conditions: [{type: Ready, status: \"True\"}], " + aStep + "}]}}", at: steps, message: "a step is for a condition that is not in unhealthyConditions"},
	{name: "a step for an invalid type", base: nodesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, conditions: [{type: \"-\"}], " + aStep + "}]}}", at: steps + "[].conditions[].type", message: "must be the type of a condition, such as Ready or DiskPressure"},
	{name: "a step for what is no type", base: nodesMinimal, patch: "{spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, conditions: [{type: NotReady}], " + aStep + "}]}}", at: steps + "[].conditions[].type", message: "use the type Ready with the status False or Unknown"},
	{name: "a template in the workload cluster", base: nodesMinimal, patch: "{spec: {clusterRef: {namespace: team-a, name: prod-1}, templateLocation: Workload}}"},
	{name: "a template in the workload cluster without a Cluster", base: nodesMinimal, patch: "{spec: {templateLocation: Workload}}", at: "spec.templateLocation", message: "templateLocation: Workload needs a clusterRef"},
	{name: "a Cluster's name in capitals", base: nodesMinimal, patch: "{spec: {clusterRef: {namespace: team-a, name: Prod}}}", at: "spec.clusterRef.name", message: notAClusterName},
	{name: "an invalid namespace of a Cluster", base: nodesMinimal, patch: "{spec: {clusterRef: {namespace: Team, name: prod}}}", at: "spec.clusterRef.namespace", message: notANamespace},
	{name: "another Cluster", base: nodes, patch: "{spec: {clusterRef: {name: prod-2}}}", update: true, at: "spec", message: "clusterRef cannot be changed: create another check for the other Cluster"},
	{name: "clusterRef removed", base: nodes, patch: "{spec: {clusterRef: null, templateLocation: Management}}", update: true, at: "spec", message: "clusterRef cannot be changed"},
	{name: "clusterRef added", base: nodesMinimal, patch: "{spec: {clusterRef: {namespace: team-a, name: prod-1}}}", update: true, at: "spec", message: "clusterRef cannot be changed"},
	{name: "everything but the clusters can be changed", base: nodes, patch: "{spec: {selector: {matchLabels: {pool: b}}, maxUnhealthy: 1}}", update: true},
	{name: "another templateLocation", base: nodes, patch: "{spec: {templateLocation: Management}}", update: true, at: "spec.templateLocation", message: "templateLocation cannot be changed: create another check"},
	{name: "maxUnhealthy and a remediator that deletes the Machine", base: nodesMinimal, patch: "{spec: {maxUnhealthy: 1, remediationTemplate: {kind: MachineDeletionRemediationTemplate}}}"},
	{name: "recovery Confirmed", base: nodesMinimal, patch: "{spec: {recovery: Confirmed, healthyDelay: 5m}}"},
}
