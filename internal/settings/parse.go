// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
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
