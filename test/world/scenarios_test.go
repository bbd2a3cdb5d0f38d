// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
)

// partVariable is the environment variable that chooses the scenarios to run: a part from 0 to 2, or all of them if it is empty or "all".
// Each part has the scenarios of every landing and a third of the others.
const partVariable = "E2E_PART"

// parts is the number of parts. 'make e2e' chooses one by the commit's hash.
const parts = 3

// everyLanding has one scenario for each capability. These are in every part.
var everyLanding = []struct{ capability, scenario string }{
	{"owner remediation of workers", "TestWorkers_Unhealthy_AreReplacedWithoutTraces"},
	{"owner remediation of a control plane", "TestControlPlane_UnhealthyMachines_AreReplacedOneByOne"},
	{"requests to remediators, escalation", "TestEscalation_RemediatorsFail_OwnerReplacesMachine"},
	{"a remediator hands over, and keeps its request", "TestHandOver_V1Beta1Only_OwnerReplacesMachine"},
	{"limits when many are unhealthy", "TestWorkers_MaxInFlight_IsKept"},
	{"Node deleted", "TestNodes_Deleted_MachineIsReplaced"},
	{"outage of a workload cluster", "TestOutage_WorkloadCluster_NothingIsRemediated"},
	{"paused Cluster, check and Machine", "TestPaused_ClusterCheckThenMachine_ReplacesAfterwards"},
	{"NodeHealthCheck, requests in a workload cluster", "TestOrphanNodes_NodeHealthChecks_RequestAndWithdraw"},
	{"adoption and release of checks", "TestAdoption_Fleet_IsAdoptedAndReleased"},
	{"manager killed", "TestAdoption_ManagerKilled_Continues"},
	{"leader election, standby", "TestStandby_LeaderKilled_CompletesRemediation"},
	{"clusterctl init, upgrade, move, delete; uninstall", "TestClusterctl_InitToDelete_LeavesNoTraces"},
	{"kubectl remedy and what users see", "TestUsers_NothingHappens_FindReason"},
	{"quick start", "TestQuickStart_Commands_PrintTheOutputOfThePage"},
	{"the parts themselves", "TestParts_Together_AreAllScenarios"},
}

// balanced are the parts of the scenarios that start management clusters of their own or run alone, so that the parts take about the same time.
var balanced = map[string]int{
	"TestMove_Clusters_KeepTheirState":                     0,
	"TestManagement_SecondWorld_SharesInfrastructure":      0,
	"TestUninstall_AnyOrder_LeavesNoTraces":                1,
	"TestManagement_KilledProcess_Restarts":                1,
	"TestFleet_OneFaultInEachCluster_ReplacesOneEach":      2,
	"TestRateLimiting_UpstreamDefault_MachinesAreReplaced": 2,
	"TestWorld_TwoAtOnce_LeaveNothingBehind":               2,
	"TestWorld_WriteOfClusterAPI_CanFail":                  2,
}

// minutesLong are the scenarios that wait for minutes of the product. They are in no part: FULL=1 runs them.
var minutesLong = []string{"TestEscalation_RequestKept_OwnerReplacesMachine"}

// partsOf returns the parts that a scenario is in. A scenario that no table has is in one by its name.
func partsOf(scenario string) []int {
	for _, row := range everyLanding {
		if row.scenario == scenario {
			return []int{0, 1, 2}
		}
	}
	if part, is := balanced[scenario]; is {
		return []int{part}
	}
	if slices.Contains(minutesLong, scenario) {
		return nil
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(scenario))
	return []int{int(hash.Sum32() % parts)}
}

// selection is a regular expression for the scenarios of a part, and a line about it. All scenarios need no expression.
func selection(part string, scenarios []string) (expression, line string, err error) {
	if part == "" || part == "all" {
		return "", fmt.Sprintf("scenarios: all %d\n", len(scenarios)), nil
	}
	number, err := strconv.Atoi(part)
	if err != nil || number < 0 || number >= parts {
		return "", "", errors.Errorf("invalid %s %q: use all or a number from 0 to %d", partVariable, part, parts-1)
	}
	var chosen, others []string
	for _, scenario := range scenarios {
		of := partsOf(scenario)
		if slices.Contains(of, number) {
			chosen = append(chosen, scenario)
		} else if len(of) > 0 {
			others = append(others, strconv.Itoa(of[0]))
		}
	}
	slices.Sort(others)
	line = fmt.Sprintf("scenarios: part %d of %d, %d of %d. The others: make e2e %s=%s, or FULL=1 for all. SCENARIOS=regexp selects by name.\n",
		number, parts, len(chosen), len(scenarios), partVariable, strings.Join(slices.Compact(others), " and "+partVariable+"="))
	return "^(" + strings.Join(chosen, "|") + ")$", line, nil
}

// chooseScenarios has the part run that the environment chooses, unless the command line names tests or benchmarks. It returns a line about it.
func chooseScenarios() (string, error) {
	part := os.Getenv(partVariable)
	if part == "" || isSet("test.run") || isSet("test.bench") || isSet("test.list") {
		return "", nil
	}
	scenarios, err := allScenarios()
	if err != nil {
		return "", err
	}
	expression, line, err := selection(part, scenarios)
	if err != nil {
		return "", err
	}
	return line, flag.Set("test.run", expression)
}

// allScenarios are the tests of this program.
func allScenarios() ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, errors.WithStack(err)
	}
	list := exec.Command(program, "-test.list", "^Test")
	list.Env = append(withoutIsolation(), "REMEDY_WORLD_ISOLATION=none")
	out, err := list.Output()
	return strings.Fields(string(out)), errors.Wrap(err, "failed to list the scenarios")
}

func isSet(name string) bool {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

func TestParts_Together_AreAllScenarios(t *testing.T) {
	g := NewWithT(t)
	scenarios, err := allScenarios()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(scenarios).To(ContainElement(t.Name()))
	inParts := map[string]int{}
	for part := range parts {
		expression, line, err := selection(strconv.Itoa(part), scenarios)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(line).To(ContainSubstring(fmt.Sprintf("part %d of 3", part)))
		for _, scenario := range scenarios {
			if regexp.MustCompile(expression).MatchString(scenario) {
				inParts[scenario]++
			}
		}
	}
	every := map[string]string{}
	for _, row := range everyLanding {
		g.Expect(scenarios).To(ContainElement(row.scenario), "the scenario for: %s", row.capability)
		every[row.scenario] = row.capability
	}
	for scenario := range balanced {
		g.Expect(scenarios).To(ContainElement(scenario))
		g.Expect(every).ToNot(HaveKey(scenario))
	}
	for _, scenario := range minutesLong {
		g.Expect(scenarios).To(ContainElement(scenario))
		g.Expect(inParts).ToNot(HaveKey(scenario))
		inParts[scenario] = 1
	}
	for _, scenario := range scenarios {
		expected := 1
		if every[scenario] != "" {
			expected = parts
		}
		g.Expect(inParts).To(HaveKeyWithValue(scenario, expected))
	}
	for _, all := range []string{"", "all"} {
		expression, _, err := selection(all, scenarios)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(expression).To(BeEmpty())
	}
	for _, wrong := range []string{"3", "-1", "one"} {
		_, _, err := selection(wrong, scenarios)
		g.Expect(err).To(MatchError(ContainSubstring(partVariable)), wrong)
	}
}
