// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import "strings"

const (
	notAMethod     = "must be the name of a method, such as ipmi: lower case letters, digits or '-', beginning and ending with a letter or digit"
	notAParameter  = "must be the name of a parameter, such as password: letters, digits, '_' or '-', beginning with a letter"
	notAKey        = "every key must be the name of a parameter, such as plug: letters, digits, '_' or '-', beginning with a letter"
	reserved       = "must be action, help, version, missing_as_off, verbose*, debug*, *_script or *_path: they change the action or its proof, run programs, or write to the log"
	notInMethods   = " a method that is not in methods: add the method, or correct the name"
	runAnd         = ": keep it in one of them, because run does not switch off and on"
	notOneLine     = "must not have control characters or invisible characters: a parameter of an agent is one line"
	removedByAgent = "must not begin or end with a blank or a quote: an agent removes it"
	notASecret     = "must be the name of a Secret in this namespace"
	notMaxNotReady = "must be a number from 1 to 100000, such as 2, or a percentage from 0% to 100%, such as 40%"
	policyPrefix   = "ValidatingAdmissionPolicy 'remedy-system-fencing-profiles' with binding 'remedy-system-fencing-profiles' denied request: "
	// andUnchecked follows errors of the schema, before rules are evaluated.
	andUnchecked  = ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"
	rowParameters = "spec.nodes[].parameters[ipmi]"
)

// method is a patch that replaces the methods by ipmi with more fields, fc and own.
func method(fields string) string {
	return "{spec: {methods: [{name: ipmi, agent: fence_ipmilan, " + fields + "}, {name: fc, agent: fence_brocade}, {name: own, podTemplate: {spec: {containers: [{name: a, image: b}]}}}]}}"
}

// fenceRow is a patch that replaces the row of a Node.
func fenceRow(fields string) string { return "{spec: {nodes: [{name: worker-1, " + fields + "}]}}" }

var fenceRows = []row{
	{base: fenceProfile, name: "everything"},
	{base: fenceProfile, name: "only a method", patch: "{spec: {clusterName: null, nodeSelector: null, isolation: null, run: null, powerManagement: null, nodes: null}}"},
	{base: fenceProfile, name: "clusterName in upper case", patch: "{spec: {clusterName: Prod}}", at: "spec.clusterName", message: notAClusterName + ": lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"},
	{base: fenceProfile, name: "a bad selector", patch: "{spec: {nodeSelector: {matchLabels: {'a b': c}}}}", at: "spec.nodeSelector", message: "every key of matchLabels must be the key of a label, such as node-role.kubernetes.io/worker"},
	{base: fenceProfile, name: "isolation unknown", patch: "{spec: {isolation: [x]}}", at: "spec.isolation", message: "isolation names" + notInMethods},
	{base: fenceProfile, name: "run unknown", patch: "{spec: {run: [x]}}", at: "spec.run", message: "run names" + notInMethods},
	{base: fenceProfile, name: "power unknown", patch: "{spec: {powerManagement: [{methods: [ipmi]}, {methods: [ipmi, x]}]}}", at: "spec.powerManagement", message: "powerManagement names" + notInMethods},
	{base: fenceProfile, name: "parameters of another method", patch: fenceRow("parameters: {x: {a: b}}"), at: "spec.nodes", message: "a row of nodes has parameters of" + notInMethods},
	{base: fenceProfile, name: "Secret of another method", patch: fenceRow("secretNames: {x: a}"), at: "spec.nodes", message: "a row of nodes has a Secret of" + notInMethods},
	{base: fenceProfile, name: "isolation and power", patch: "{spec: {isolation: [ipmi]}}", at: "spec.powerManagement", message: "a method is in isolation and in powerManagement: keep it in one of them"},
	{base: fenceProfile, name: "run and isolation", patch: "{spec: {run: [fc]}}", at: "spec.run", message: "a method is in run and in isolation" + runAnd},
	{base: fenceProfile, name: "run and power", patch: "{spec: {run: [ipmi]}}", at: "spec.run", message: "a method is in run and in powerManagement" + runAnd},
	{base: fenceProfile, name: "no image", patch: "{spec: {image: null}}", at: "spec.methods", message: "a method with an agent needs an image: set image here, for all methods, or in the method"},
	{base: fenceProfile, name: "image of the method", patch: "{spec: {image: null, isolation: null, methods: [{name: ipmi, agent: fence_ipmilan, image: a}, {name: own, podTemplate: {spec: {containers: [{name: a, image: b}]}}}]}}"},
	{base: fenceProfile, name: "name of a method", patch: method("timeout: 1m}, {name: A_b, agent: fence_apc"), at: "spec.methods[].name", message: notAMethod},
	{base: fenceProfile, name: "agent and template", patch: method("podTemplate: {spec: {containers: [{name: a, image: b}]}}"), at: "spec.methods[]", message: "a method has either an agent, such as fence_ipmilan, or a podTemplate"},
	{base: fenceProfile, name: "neither", patch: "{spec: {methods: [{name: ipmi}, {name: fc, agent: fence_brocade}, {name: own, agent: fence_apc}]}}", at: "spec.methods[]", message: "a method has either an agent, such as fence_ipmilan, or a podTemplate"},
	{base: fenceProfile, name: "no agent", patch: method("agent: reboot.sh"), at: "spec.methods[].agent", message: "must be the name of a fence agent, such as fence_ipmilan"},
	{base: fenceProfile, name: "secretName", patch: method("secretName: A_b"), at: "spec.methods[].secretName", message: notASecret},
	{base: fenceProfile, name: "serviceAccountName", patch: method("serviceAccountName: A_b"), at: "spec.methods[].serviceAccountName", message: "must be the name of a ServiceAccount in this namespace"},
	{base: fenceProfile, name: "secretKeys", patch: method("secretKeys: [a b]"), at: "spec.methods[].secretKeys[]", message: notAParameter},
	{base: fenceProfile, name: "secretKeys reserved", patch: method("secretKeys: [password_script]"), at: "spec.methods[].secretKeys[]", message: "must not be" + strings.TrimPrefix(reserved, "must be")},
	{base: fenceProfile, name: "storageClasses", patch: method("storageClasses: ['']"), at: "spec.methods[].storageClasses[]", message: "should be at least 1 chars long"},
	{base: fenceProfile, name: "a short checkInterval", patch: "{spec: {checkInterval: 9m}}", at: "spec.checkInterval", message: "must be at least 10m, such as 24h, or 0s to ask no device"},
	{base: fenceProfile, name: "a short timeout", patch: method("timeout: 9s"), at: "spec.methods[].timeout", message: "must be from 10s to 1h"},
	{base: fenceProfile, name: "a long timeout", patch: method("timeout: 61m"), at: "spec.methods[].timeout", message: "must be from 10s to 1h"},
	{base: fenceProfile, name: "timeout without a unit", patch: method("timeout: 10"), at: "spec.methods[].timeout", message: notADuration},
	{base: fenceProfile, name: "key of a method", patch: method("parameters: {9a: b}"), at: "spec.methods[].parameters", message: notAKey},
	{base: fenceProfile, name: "reserved key of a method", patch: method("parameters: {action: reboot}"), at: "spec.methods[].parameters", message: "no key " + reserved},
	{base: fenceProfile, name: "value of a method", patch: method(`parameters: {a: "b\nc"}`), at: "spec.methods[].parameters[a]", message: notOneLine},
	{base: fenceProfile, name: "quoted value of a method", patch: method("parameters: {a: '\"b'}"), at: "spec.methods[].parameters[a]", message: removedByAgent},
	{base: fenceProfile, name: "key of a row", patch: fenceRow("parameters: {ipmi: {a.b: c}}"), at: rowParameters, message: notAKey},
	{base: fenceProfile, name: "variables", patch: fenceRow("parameters: {ipmi: {plug: '$(nodeName),$(providerID),$(instanceID) $x'}}")},
	{base: fenceProfile, name: "another variable", patch: fenceRow("parameters: {ipmi: {plug: '$(nodeName)$(name)'}}"), message: policyPrefix + "a parameter of row worker-1 has an unknown variable: use $(nodeName), $(providerID) or $(instanceID)"},
	{base: fenceProfile, name: "another variable of a method", patch: method("parameters: {plug: $(ip)}"), message: policyPrefix + "a parameter of method ipmi has an unknown variable: use $(nodeName), $(providerID) or $(instanceID)"},
	{base: fenceProfile, name: "secretNames", patch: fenceRow("secretNames: {ipmi: A_b}"), message: policyPrefix + "secretNames of row worker-1 must have names of Secrets in this namespace"},
	{base: fenceProfile, name: "empty secretNames", patch: fenceRow("secretNames: {ipmi: ''}"), message: policyPrefix + "secretNames of row worker-1 must have names of Secrets in this namespace"},
	{base: fenceProfile, name: "name of a Node", patch: "{spec: {nodes: [{name: a_b}]}}", at: "spec.nodes[].name", message: "must be the name of a Node"},

	{base: nodeFence, name: "everything"},
	{base: nodeFence, name: "nothing", patch: "{spec: null}"},
	{base: nodeFence, name: "no steps", patch: "{spec: {isolation: [], run: [], powerManagement: []}}"},
	{base: nodeFence, name: "profileName", patch: "{spec: {profileName: A_b}}", at: "spec.profileName", message: "must be the name of a FenceProfile in this namespace"},
	{base: nodeFence, name: "isolation and power", patch: "{spec: {isolation: [ipmi]}}", at: "spec.powerManagement", message: "a method is in isolation and in powerManagement: keep it in one of them"},
	{base: nodeFence, name: "run and isolation", patch: "{spec: {run: [fc]}}", at: "spec.run", message: "a method is in run and in isolation" + runAnd},
	{base: nodeFence, name: "run and power", patch: "{spec: {run: [ipmi]}}", at: "spec.run", message: "a method is in run and in powerManagement" + runAnd},
	{base: nodeFence, name: "name of a method", patch: "{spec: {run: [A_b]}}", at: "spec.run[]", message: notAMethod},
	{base: nodeFence, name: "powerDelay", patch: "{spec: {powerDelay: soon}}", at: "spec.powerDelay", message: notADuration},
	{base: nodeFence, name: "release nothing", patch: "{spec: {release: {policy: None}}}"},
	{base: nodeFence, name: "release", patch: "{spec: {release: {policy: All}}}", at: "spec.release.policy", message: `Unsupported value: "All": supported values: "Workload", "None"` + andUnchecked},
	{base: nodeFence, name: "release forever", patch: "{spec: {release: {timeout: 59s}}}", at: "spec.release.timeout", message: "must be at least 1m: Kubernetes needs up to 50 seconds to set Ready to Unknown"},
	{base: nodeFence, name: "release.timeout without a unit", patch: "{spec: {release: {timeout: 10}}}", at: "spec.release.timeout", message: notADuration},
	{base: nodeFence, name: "podsPerSecond", patch: "{spec: {release: {podsPerSecond: -1}}}", at: "spec.release.podsPerSecond", message: "should be greater than or equal to 0"},
	{base: nodeFence, name: "podsPerSecond above 1000", patch: "{spec: {release: {podsPerSecond: 1001}}}", at: "spec.release.podsPerSecond", message: "should be less than or equal to 1000"},
	{base: nodeFence, name: "drain without timeout", patch: "{spec: {drain: {timeout: null}}}", at: "spec.drain.timeout", message: "Required value" + andUnchecked},
	{base: nodeFence, name: "a short drain", patch: "{spec: {drain: {timeout: 9s}}}", at: "spec.drain.timeout", message: "must be at least 10s"},
	{base: nodeFence, name: "drain.timeout without a unit", patch: "{spec: {drain: {timeout: 10}}}", at: "spec.drain.timeout", message: notADuration},
	{base: nodeFence, name: "afterTimeout", patch: "{spec: {drain: {afterTimeout: Stop}}}", at: "spec.drain.afterTimeout", message: `Unsupported value: "Stop": supported values: "Fail", "Continue"` + andUnchecked},
	{base: nodeFence, name: "waitFor", patch: "{spec: {drain: {waitFor: {matchLabels: {'a b': c}}}}}", at: "spec.drain.waitFor", message: "every key of matchLabels must be the key of a label, such as node-role.kubernetes.io/worker"},
	{base: nodeFence, name: "recovery", patch: "{spec: {recovery: [A_b]}}", at: "spec.recovery[]", message: notAMethod},
	{base: nodeFence, name: "powerOn", patch: "{spec: {powerOn: Later}}", at: "spec.powerOn", message: `Unsupported value: "Later": supported values: "IfPoweredOff", "Always", "Never"` + andUnchecked},
	{base: nodeFence, name: "a short rejoinTimeout", patch: "{spec: {rejoinTimeout: 59s}}", at: "spec.rejoinTimeout", message: "must be at least 1m: a machine needs time to boot"},
	{base: nodeFence, name: "rejoinTimeout without a unit", patch: "{spec: {rejoinTimeout: 10}}", at: "spec.rejoinTimeout", message: notADuration},
	{base: nodeFence, name: "repeatPeriod", patch: "{spec: {limits: {repeatPeriod: 1d}}}", at: "spec.limits.repeatPeriod", message: notADuration},
	{base: nodeFence, name: "a number of Nodes", patch: "{spec: {limits: {maxNotReady: 3}}}"},
	{base: nodeFence, name: "maxNotReady 0", patch: "{spec: {limits: {maxNotReady: 0}}}", at: "spec.limits.maxNotReady", message: notMaxNotReady},
	{base: nodeFence, name: "maxNotReady above 100%", patch: "{spec: {limits: {maxNotReady: 101%}}}", at: "spec.limits.maxNotReady", message: notMaxNotReady},
	{base: nodeFence, name: "type of a condition", patch: "{spec: {limits: {blockingConditions: [{type: a b, status: 'True'}]}}}", at: "spec.limits.blockingConditions[].type", message: "must be the type of a condition, such as Ready or DiskPressure"},
	{base: nodeFence, name: "no condition", patch: "{spec: {limits: {blockingConditions: [{type: NotReady, status: 'True'}]}}}", at: "spec.limits.blockingConditions[].type", message: "must be the type of a condition: for a Node that is NotReady, use the type Ready with the status False or Unknown"},
	{base: nodeFence, name: "another spec", patch: "{spec: {retries: 5}}", update: true, at: "spec", message: "the spec of a NodeFence cannot be changed: delete it, and create another one"},
	{base: nodeFence, name: "an annotation", patch: "{metadata: {annotations: {remedy.cluster.x-k8s.io/cancel: ''}}}", update: true},
}

// allFenceRows adds rows that differ by a value only.
func allFenceRows() []row {
	all := append([]row{}, fenceRows...)
	add := func(name, patch, at, message string) {
		all = append(all, row{base: fenceProfile, name: name, patch: patch, at: at, message: message})
	}
	for _, key := range []string{
		"action", "Action", "help", "version", "verbose", "verbose_level", "DEBUG", "debug-file", "password_script", "passwd-script", "ipmitool_path", "missing_as_off", "missing-as-off",
	} {
		add("key "+key, fenceRow("parameters: {ipmi: {"+key+": b}}"), rowParameters, "no key "+reserved)
	}
	for _, key := range []string{"snmp_version", "plug", "power_timeout", "systems-uri", "Port"} {
		add("key "+key, fenceRow("parameters: {ipmi: {"+key+": b}}"), "", "")
	}
	for _, value := range []string{`a\nb`, `a\tb`, `a\0`, `a\u200bb`, `a\x7f`} {
		add("value "+value, fenceRow(`parameters: {ipmi: {plug: "`+value+`"}}`), rowParameters+"[plug]", notOneLine)
	}
	for _, value := range []string{`' a'`, `'a '`, `'"a'`, `'a"'`, `"'a"`, `"a'"`} {
		add("value "+value, fenceRow("parameters: {ipmi: {plug: "+value+"}}"), rowParameters+"[plug]", removedByAgent)
	}
	for _, value := range []string{`''`, `"a b"`, `a"b`, `a=b#c`, `"100 Ω"`} {
		add("value "+value, fenceRow("parameters: {ipmi: {plug: "+value+"}}"), "", "")
	}
	for _, template := range []string{
		"{}", "{spec: x}", "{spec: {}}", "{spec: {containers: x}}", "{spec: {containers: []}}", "{spec: {containers: [x]}}",
		"{spec: {containers: [{image: a}]}}", "{spec: {containers: [{name: a}]}}", "{spec: {containers: [{name: a, image: b}, {name: c, image: ''}]}}",
	} {
		add("template "+template, "{spec: {methods: [{name: ipmi, agent: fence_ipmilan}, {name: fc, agent: fence_brocade}, {name: own, podTemplate: "+template+"}]}}", "",
			policyPrefix+"podTemplate of method own needs spec.containers, each with a name and an image: the first one performs the action")
	}
	return all
}
