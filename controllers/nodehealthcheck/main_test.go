// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"os"
	"testing"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }
