// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"reflect"
	"time"

	"github.com/onsi/gomega/types"
)

// stuckTime is how long a test with a clock of its own waits in vain until that is helped along.
const stuckTime = time.Minute

// Eventually is that of the test. Where it has a clock of its own, which stands still, somebody may wait for a time that never comes: on a machine
// that is very busy a connection is lost, and what is read over the next one is believed after a while by the real clock; or a question is not
// answered in time, and is asked again later. So the clock goes on as far as the real one has, once a wait has been long.
func (s *stage) Eventually(actual any, intervals ...any) types.AsyncAssertion {
	s.t.Helper()
	asked := reflect.ValueOf(actual)
	if s.clock == nil || asked.Kind() != reflect.Func || asked.Type().NumIn() > 0 {
		return s.WithT.Eventually(actual, intervals...)
	}
	began := time.Now()
	helped := reflect.MakeFunc(asked.Type(), func([]reflect.Value) []reflect.Value {
		if waited := time.Since(began); waited > stuckTime {
			began = time.Now()
			s.t.Logf("the clock goes on for %s", waited)
			s.wait(waited)
		}
		return asked.Call(nil)
	})
	return s.WithT.Eventually(helped.Interface(), intervals...)
}
