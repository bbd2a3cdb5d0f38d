// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// system is a program that is measured.
type system struct {
	name, program string
	isRemedy      bool
	// isSecondary: it runs in the first round only where no target compares it, so that all benchmarks together take less time.
	isSecondary bool
	args        []string
}

var (
	floor           = &system{name: "floor"}
	remedy          = &system{name: "remedy", program: "manager", isRemedy: true, args: []string{"--in-tree-machinehealthchecks=Ignore"}}
	inTree          = &system{name: "in-tree", program: "intree"}
	inTreeUnlimited = &system{
		name: "in-tree, no rate limiter", program: "intree", isSecondary: true, args: []string{"--feature-gates=ReconcilerRateLimiting=false"},
	}
	remedyColdStandby = &system{name: "remedy, cold standby", program: "manager", isRemedy: true, isSecondary: true, args: remedy.args}
	remedyShortLease  = &system{name: "remedy, short lease", program: "manager", isRemedy: true, args: slices.Concat(shortLease, remedy.args)}
	inTreeShortLease  = &system{name: "in-tree, short lease", program: "intree", args: shortLease}
)

// shortLease are the shortest times in docs/flags.md.
var shortLease = []string{"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"}

// limits are the same for all systems: the defaults of Cluster API's core manager.
var limits = []string{"--kube-api-qps=100", "--kube-api-burst=200", "--clustercache-client-qps=20", "--clustercache-client-burst=30"}

// startTimeout is for a start with 10,000 Machines on a busy machine.
const startTimeout = 3 * time.Minute

// process is a running system.
type process struct {
	*system
	cmd                           *exec.Cmd
	diagnostics, health, profiler *controlplane.Port
	log                           *os.File
	began                         time.Time
	exited                        chan struct{}
}

// run starts a system and waits until it serves its probes. As the leader of several instances it also needs leader election.
func (b *bench) run(ctx context.Context, s *system, args ...string) (*process, error) {
	p := &process{system: s, exited: make(chan struct{})}
	var err error
	for _, port := range []**controlplane.Port{&p.diagnostics, &p.health, &p.profiler} {
		if *port, err = controlplane.TakePort(); err != nil {
			return nil, err
		}
	}
	b.started++
	wrapped, err := b.group.Wrap(fmt.Sprintf("%s-%d", s.program, b.started), b.programs[s.program])
	if err != nil {
		return nil, err
	}
	if p.log, err = os.Create(filepath.Join(b.group.Dir, fmt.Sprintf("%s-%d.log", s.program, b.started))); err != nil {
		return nil, err
	}
	all := append([]string{
		"--kubeconfig=" + b.kubeconfig, "--insecure-diagnostics=true", "--diagnostics-address=" + p.diagnostics.Address(),
		"--health-addr=" + p.health.Address(), "--profiler-address=" + p.profiler.Address(),
	}, limits...)
	p.cmd = exec.Command(wrapped, append(append(all, s.args...), args...)...) //nolint:noctx // it ends by end.
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Env = append(os.Environ(), "POD_NAMESPACE=default", "POD_NAME="+fmt.Sprintf("%s-%d", s.program, b.started), "POD_UID=1")
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.exited:
			return false, fmt.Errorf("%s has ended: %s", s.name, tail(p.log.Name()))
		default:
		}
		response, err := get(ctx, p.diagnostics, "/metrics")
		if err != nil {
			return false, nil //nolint:nilerr // it does not serve yet.
		}
		return true, response.Body.Close()
	}); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// end kills the process: an orderly end would take time and would delete nothing that a later step needs.
func (p *process) end() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
	_ = p.log.Close()
	p.diagnostics.Release()
	p.health.Release()
	p.profiler.Release()
}

func tail(file string) string {
	content, _ := os.ReadFile(file)
	return string(content[max(0, len(content)-2000):])
}

func get(ctx context.Context, port *controlplane.Port, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+port.Address()+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// usage is what a process has used since it started.
type usage struct {
	cpu                          time.Duration
	allocated, mallocs           float64
	reconciles, requests, writes float64
	families                     map[string]*dto.MetricFamily
}

// usage reads what a process has used. Reading costs it a little, which is the same for all of them.
func (p *process) usage(ctx context.Context) (usage, error) {
	u := usage{}
	response, err := get(ctx, p.diagnostics, "/metrics")
	if err != nil {
		return u, err
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if u.families, err = parser.TextToMetricFamilies(response.Body); err != nil {
		return u, err
	}
	u.allocated, u.mallocs = u.sum("go_memstats_alloc_bytes_total"), u.sum("go_memstats_mallocs_total")
	u.reconciles = u.sum("controller_runtime_reconcile_total", "controller", "machinehealthcheck")
	// With its rate limiter, the in-tree reconciler counts those that evaluate something. The other metric counts the postponed ones, too.
	if evaluated := u.sum("capi_reconcile_total", "controller", "machinehealthcheck"); evaluated > 0 {
		u.reconciles = evaluated
	}
	u.requests = u.sum("rest_client_requests_total")
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		u.writes += u.sum("rest_client_requests_total", "method", method)
	}
	u.cpu, err = cpuTime(p.cmd.Process.Pid)
	return u, err
}

// since returns what was used between two readings.
func (u usage) since(before usage) usage {
	u.cpu -= before.cpu
	u.allocated -= before.allocated
	u.mallocs -= before.mallocs
	u.reconciles -= before.reconciles
	u.requests -= before.requests
	u.writes -= before.writes
	return u
}

// sum adds the series of a metric that have the label, or all of them.
func (u *usage) sum(name string, label ...string) float64 {
	total := 0.0
	for _, m := range u.families[name].GetMetric() {
		if len(label) == 2 && !hasLabel(m, label[0], label[1]) {
			continue
		}
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return total
}

func hasLabel(m *dto.Metric, name, value string) bool {
	for _, l := range m.GetLabel() {
		if l.GetName() == name && l.GetValue() == value {
			return true
		}
	}
	return false
}

// longestReconcile is the upper end of the last bucket that has more reconciles than before; the lower end of a bucket without an upper
// end.
func (u *usage) longestReconcile(before *usage) float64 {
	longest, lower := 0.0, 0.0
	earlier := before.reconcileTimes()
	last := uint64(0)
	for i, bucket := range u.reconcileTimes() {
		count := bucket.GetCumulativeCount()
		if i < len(earlier) {
			count -= earlier[i].GetCumulativeCount()
		}
		bound := bucket.GetUpperBound()
		if math.IsInf(bound, 1) {
			bound = lower
		}
		if count > last {
			longest = bound
		}
		last, lower = count, bound
	}
	return longest
}

func (u *usage) reconcileTimes() []*dto.Bucket {
	for _, m := range u.families["controller_runtime_reconcile_time_seconds"].GetMetric() {
		if hasLabel(m, "controller", "machinehealthcheck") {
			return m.GetHistogram().GetBucket()
		}
	}
	return nil
}

// heap returns the heap in use after a garbage collection.
func (p *process) heap(ctx context.Context) (float64, error) {
	response, err := get(ctx, p.profiler, "/debug/pprof/heap?gc=1")
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s does not serve its profile: %s", p.name, response.Status)
	}
	u, err := p.usage(ctx)
	return u.sum("go_memstats_heap_alloc_bytes"), err
}

// clockTick is the unit of /proc/<pid>/stat on Linux.
const clockTick = time.Second / 100

// cpuTime is the time that a process has run.
func cpuTime(pid int) (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	total := 0
	for _, at := range []int{11, 12} {
		ticks, err := strconv.Atoi(fields[at])
		if err != nil {
			return 0, err
		}
		total += ticks
	}
	return time.Duration(total) * clockTick, nil
}

// peakMemory is the most resident memory that a process has had, in bytes.
func peakMemory(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(content), "VmHWM:")
	line, _, _ := strings.Cut(after, " kB")
	kilobytes, err := strconv.Atoi(strings.TrimSpace(line))
	return float64(kilobytes) * 1024, err
}
