// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	logsv1 "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/cluster-api/util/flags"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/features"
)

// Parse parses and validates a command line. It returns all errors as one aggregate: pflag alone returns the first one. It returns
// pflag.ErrHelp if the help was requested and printed.
func (s *Settings) Parse(fs *pflag.FlagSet, args []string) error {
	var problems []error
	for len(args) > 0 {
		used, err := s.parseNext(fs, args)
		switch {
		case errors.Is(err, pflag.ErrHelp):
			return err
		case err != nil:
			problems = append(problems, err)
		}
		args = args[used:]
	}
	if err := s.Validate(); err != nil {
		problems = append(problems, err)
	}
	return utilerrors.Flatten(utilerrors.NewAggregate(problems))
}

// parseNext parses the first argument, with the next one if that is its value. It returns how many it has used.
func (s *Settings) parseNext(fs *pflag.FlagSet, args []string) (used int, err error) {
	if args[0] == "--" {
		args = args[1:]
		if len(args) == 0 {
			return 1, nil
		}
		return 1 + len(args), unexpectedArgument(args[0])
	}
	used, err = 1, fs.Parse(args[:1])
	var incomplete *pflag.ValueRequiredError
	if errors.As(err, &incomplete) && len(args) > 1 {
		used, err = 2, fs.Parse(args[:2])
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && !strings.Contains(args[0], "=") && len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		used = 2
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag := invalid.GetFlag()
		s.unparsed = append(s.unparsed, flag.Name)
		// pflag has set 0, which Validate would report again. The error of a default that no flag can have does not matter.
		_ = flag.Value.Set(flag.DefValue)
		return used, errors.Errorf("--%s=%s: %s", flag.Name, quoteEmpty(invalid.GetValue()), validValue(flag, invalid.Unwrap()))
	}
	if err == nil && fs.NArg() > 0 {
		return used, unexpectedArgument(fs.Arg(0))
	}
	return used, err
}

// validValue returns what the value of a flag must be. The errors of strconv and time name functions of Go instead.
func validValue(flag *pflag.Flag, cause error) string {
	switch flag.Value.Type() {
	case "bool":
		return "must be true or false"
	case "duration":
		return "must be a duration, for example 15m or 30s"
	case "int":
		return "must be an integer"
	case "float32":
		return "must be a number"
	}
	return cause.Error()
}

func unexpectedArgument(argument string) error {
	return errors.Errorf("unexpected argument %q: set flags as --flag=value", argument)
}

func quoteEmpty(text string) string {
	if text == "" {
		return `""`
	}
	return text
}

// Validate returns an error for each invalid value, with a valid one.
func (s *Settings) Validate() error {
	var problems []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, errors.Errorf(format, args...))
		}
	}
	refuse(s.SyncPeriod < time.Second, "--sync-period=%s: must be at least 1s (default 10m)", s.SyncPeriod)
	refuse(s.MachineHealthCheckConcurrency < 1, "--machinehealthcheck-concurrency=%d: must be at least 1", s.MachineHealthCheckConcurrency)
	refuse(s.NodeHealthCheckConcurrency < 1, "--nodehealthcheck-concurrency=%d: must be at least 1", s.NodeHealthCheckConcurrency)
	for _, limit := range []struct {
		flag  string
		qps   float32
		burst int
	}{{"--kube-api", s.QPS, s.Burst}, {"--clustercache-client", s.WorkloadQPS, s.WorkloadBurst}} {
		// This form also refuses NaN.
		refuse(!(limit.qps > 0 && limit.qps <= math.MaxInt32), "%s-qps=%v: must be a number above 0", limit.flag, limit.qps)
		refuse(limit.burst < 1, "%s-burst=%d: must be at least 1", limit.flag, limit.burst)
	}

	faults := validation.IsDNS1123Label(s.WatchNamespace)
	refuse(s.WatchNamespace != "" && len(faults) > 0,
		"--namespace=%q: must be the name of one namespace: %s", s.WatchNamespace, strings.Join(faults, "; "))
	faults = validation.IsDNS1123Label(s.NodeLeaseNamespace)
	refuse(len(faults) > 0,
		"--medik8s-lease-namespace=%q: must be the name of a namespace: %s", s.NodeLeaseNamespace, strings.Join(faults, "; "))
	faults = validation.IsDNS1123Label(s.OwnNodesNamespace)
	refuse(s.OwnNodesNamespace != "" && len(faults) > 0,
		"--own-nodes-namespace=%q: must be the name of a namespace: %s", s.OwnNodesNamespace, strings.Join(faults, "; "))
	refuse(s.Controllers == Fencing && !s.Gates.Enabled(features.NodeFencing),
		"--controllers=fencing: fencing is an alpha feature: set --feature-gates=NodeFencing=true")
	faults = validation.IsValidLabelValue(s.WatchFilter)
	refuse(len(faults) > 0, "--watch-filter=%q: must be the value of a label: %s", s.WatchFilter, strings.Join(faults, "; "))

	const address = "must be host:port, for example 127.0.0.1:9440 or :9440, or 0 to serve nothing"
	refuse(!isAddress(s.HealthAddress), "--health-addr=%q: %s", s.HealthAddress, address)
	refuse(!isAddress(s.Diagnostics.DiagnosticsAddress), "--diagnostics-address=%q: %s", s.Diagnostics.DiagnosticsAddress, address)
	refuse(s.ProfilerAddress != "" && !isAddress(s.ProfilerAddress),
		"--profiler-address=%q: must be host:port, for example 127.0.0.1:6060", s.ProfilerAddress)
	_, _, err := flags.GetManagerOptions(s.Diagnostics)
	refuse(err != nil, "--tls-min-version, --tls-cipher-suites or --tls-curve-preferences: %v", err)

	for _, problem := range logsv1.Validate(s.Logging, nil, nil) {
		refuse(true, "%s: %s", loggingFlag(problem.Field), problem.ErrorBody())
	}
	refuse(s.LeaderElection.Enabled && s.LeaderElection.Namespace == "",
		"--leader-elect: the namespace of the Lease is unknown outside of a cluster: set the environment variable POD_NAMESPACE")

	// A leader has to exit before another instance becomes the leader, and needs several retries until then.
	unparsed := slices.ContainsFunc(s.unparsed, func(name string) bool { return strings.HasPrefix(name, "leader-elect") })
	if l := s.LeaderElection; l.Enabled && !unparsed {
		refuse(l.RetryPeriod <= 0, "--leader-elect-retry-period=%s: must be above 0", l.RetryPeriod)
		// client-go requires this factor, its JitterFactor.
		refuse(l.RenewDeadline <= l.RetryPeriod*6/5,
			"--leader-elect-renew-deadline=%s: must be more than 1.2 times --leader-elect-retry-period=%s", l.RenewDeadline, l.RetryPeriod)
		refuse(l.LeaseDuration <= l.RenewDeadline, "--leader-elect-lease-duration=%s: must be longer than --leader-elect-renew-deadline=%s, "+
			"because two instances could be the leader otherwise", l.LeaseDuration, l.RenewDeadline)
		refuse(l.LeaseDuration < time.Second, "--leader-elect-lease-duration=%s: must be at least 1s", l.LeaseDuration)
	}
	return utilerrors.NewAggregate(problems)
}

// loggingFlag returns the flag that sets a field of the logging configuration.
func loggingFlag(field string) string {
	for prefix, flag := range map[string]string{
		"flushFrequency": "--log-flush-frequency", "format": "--logging-format", "verbosity": "-v", "vmodule": "--vmodule",
	} {
		if strings.HasPrefix(field, prefix) {
			return flag
		}
	}
	return "logging " + field
}

// isAddress reports whether a server can listen on an address; 0 serves nothing.
func isAddress(text string) bool {
	if text == "0" {
		return true
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}
