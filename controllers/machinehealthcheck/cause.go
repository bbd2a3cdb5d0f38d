// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// cause is why something could not be read, in words that are the same each time and hold no address: they are shown. Empty if there is no error.
func cause(err error) string {
	var read *workload.ReadError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &read):
		return read.Error()
	case apierrors.IsForbidden(err):
		return "this program may not read the management cluster; give it the rights of its installation"
	default:
		return "the management cluster does not answer as it should"
	}
}

// causeOfKind is the same for requests of a remediator, to which others give the rights.
func causeOfKind(err error) string {
	if apierrors.IsForbidden(err) {
		return "this program may not read them; give it the rights to what its remediator works on"
	}
	return cause(err)
}
